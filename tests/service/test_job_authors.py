"""A job that runs what another user wrote has the rights that both users have: decision 0068.

ann may mount one folder. When her job has failed, she replaces its subfolder by a link to a folder of root.
"""

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from batchq.services.client_requests import LIKE, RERUN_OF
from tests.service.job_queue import batchq, create_key, run
from tests.service.test_job_policy import mounting, register, submit
from tests.service.waiting import reaches
from tests.support.service import serving_forked

pytestmark = pytest.mark.docker

STEAL = ("sh", "-c", "touch /v/stolen; exit 1")
REFUSED = "is not below a path that the accounts of the job permit"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """The admin amy, ann of laba, and cora, who coordinates laba and whose account may mount the folder above ann's."""
    folder = tmp_path_factory.mktemp("authors")
    data, ours, secret = folder / "data", folder / "files" / "laba", folder / "files" / "secret"
    for value, mode in ((ours, 0o777), (secret, 0o700)):
        value.mkdir(parents=True)
        value.chmod(mode)
    key = create_key("amy", data)
    run("account", "add", "laba", "--volumes", ours, "--data", data)
    run("account", "add", "chiefs", "--volumes", folder / "files", "--root-user", "yes", "--data", data)
    run("user", "add", "ann", "--account", "laba", "--data", data)
    run("user", "add", "cora", "--account", "chiefs", "--coordinates", "laba", "--data", data)
    keys = {name: create_key(name, data) for name in ("ann", "cora")} | {"amy": key}
    with serving_forked(data, "--auth", "sigv4", "--stop-grace", "1", key=key) as service:
        clients = {name: service.client(key=value) for name, value in keys.items()}
        yield SimpleNamespace(service=service, ours=ours, secret=secret, keys=keys, **clients)


@pytest.fixture
def trap(lab, request):
    """A failed job of ann, and its definition, whose mounted folder is a link to the folder of root by now."""
    name = f"trap-{abs(hash(request.node.name))}"
    folder = lab.ours / name
    folder.mkdir()
    definition = register(lab.ann, name, *STEAL, user="1000", **mounting(folder))
    job = submit(lab.ann, definition)
    assert reaches(lab.ann, job, "SUCCEEDED", "FAILED")["attempts"][0]["container"]["exitCode"] == 1
    folder.rmdir()
    folder.symlink_to(lab.secret)
    yield SimpleNamespace(job=job, definition=definition, folder=folder, name=name)
    assert list(lab.secret.iterdir()) == [], "nothing was written to the folder of root"


def attempt_reason(lab, job_id):
    """The reason of the only attempt of a job that FAILED."""
    job = reaches(lab.amy, job_id, "SUCCEEDED", "FAILED")
    assert job["status"] == "FAILED"
    (attempt,) = job["attempts"]
    return attempt["container"].get("reason", "")


@pytest.mark.fault("SE60")
@pytest.mark.parametrize("user", ["amy", "cora"])
def test_a_definition_of_another_account_does_not_give_the_submitters_rights(lab, trap, user):
    job = submit(getattr(lab, user), trap.definition, containerOverrides={"command": ["touch", "/v/stolen"]})

    assert REFUSED in attempt_reason(lab, job)


@pytest.mark.fault("SE61")
@pytest.mark.parametrize("user", ["amy", "cora"])
def test_a_rerun_from_the_shell_does_not_give_the_submitters_rights(lab, trap, user, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", lab.keys[user][0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", lab.keys[user][1])

    done = batchq("rerun", trap.job, "--url", lab.service.url, "--", "touch", "/v/stolen")

    assert "ann" in done.err
    assert "laba" in done.err
    assert REFUSED in attempt_reason(lab, done.out[0])


@pytest.mark.fault("SE61")
@pytest.mark.parametrize("tag", [RERUN_OF, LIKE])
def test_a_job_of_the_admins_definition_is_judged_by_the_owner_of_the_first_job(lab, trap, tag):
    """ann may use definitions of accounts above hers; the command and the variables of her job are hers."""
    shared = register(lab.amy, f"shared-{trap.name}", *STEAL, **mounting(lab.secret))
    own = submit(lab.amy, shared)
    assert reaches(lab.amy, own, "SUCCEEDED", "FAILED")["attempts"][0]["container"]["exitCode"] == 1
    (lab.secret / "stolen").unlink()

    with pytest.raises(ClientError, match=f"Host path '{lab.secret}' is not allowed to account laba of ann"):
        submit(lab.amy, shared, tags={tag: trap.job})
