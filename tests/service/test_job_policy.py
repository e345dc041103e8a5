"""The policies of accounts and of the server limit jobs on a real machine."""

from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from tests.service.job_queue import create_key, run
from tests.service.waiting import container, output, reaches
from tests.support.service import Service, serving_forked

pytestmark = pytest.mark.docker

WHO = ("sh", "-c", "id; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status; touch /v/by-job && echo written")


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A server with clients of two users: ada of the account lab, which has a policy, and the admin amy."""
    folder = tmp_path_factory.mktemp("policy")
    data, allowed = folder / "data", folder / "allowed"
    allowed.mkdir()
    allowed.chmod(0o777)
    key = create_key("amy", data)
    run("account", "add", "lab", "--volumes", allowed, "--data", data)
    run("user", "add", "ada", "--account", "lab", "--data", data)
    ada_key = create_key("ada", data)
    with serving_forked(data, "--auth", "sigv4", "--stop-grace", "1", key=key) as service:
        clients = SimpleNamespace(amy=service.client(), ada=service.client(key=ada_key))
        yield SimpleNamespace(service=service, allowed=allowed, outside=folder / "outside", **vars(clients))


def register(batch, name, *command, **fields):
    properties = container(*(command or ("true",))) | fields
    made = batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)
    return made["jobDefinitionArn"]


def submit(batch, definition, **fields):
    return batch.submit_job(jobName="a", jobQueue="default", jobDefinition=definition, **fields)["jobId"]


def mounting(path):
    return {
        "volumes": [{"name": "v", "host": {"sourcePath": str(path)}}],
        "mountPoints": [{"sourceVolume": "v", "containerPath": "/v"}],
    }


def refused(batch, name, **fields):
    with pytest.raises(ClientError) as why:
        register(batch, name, **fields)
    assert why.value.response["Error"]["Code"] == "ClientException"
    return why.value.response["Error"]["Message"]


@pytest.mark.fault("SE09", "SE21", "SE34")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"privileged": True}, "A privileged container is not allowed to account lab."),
        (
            {"linuxParameters": {"devices": [{"hostPath": "/dev/fuse"}]}},
            "Device '/dev/fuse' of the host is not allowed",
        ),
        (mounting("/etc"), "Host path '/etc' is not allowed to account lab."),
        ({"user": "0"}, "User '0' of a container"),
        (
            {"logConfiguration": {"logDriver": "gelf", "options": {"gelf-address": "udp://127.0.0.1:9"}}},
            "Log driver 'gelf' is not allowed to account lab.",
        ),
        ({"image": "127.0.0.1:1/a:latest"}, "Registry '127.0.0.1:1' of image '127.0.0.1:1/a:latest' is not allowed"),
    ],
    ids=["privileged", "a device", "a path", "root", "a log driver", "a registry"],
)
def test_a_forbidden_definition_is_refused_and_permitted_to_an_admin(lab, fields, why):
    assert why in refused(lab.ada, "no", **fields)

    done = reaches(lab.amy, submit(lab.amy, register(lab.amy, "yes", **fields)), "SUCCEEDED", "FAILED")
    assert "not allowed" not in str(done), "the engine of this machine may refuse it for other reasons"


@pytest.mark.fault("SE09")
@pytest.mark.parametrize("path", ["/", "/run", "/proc", "/dev", "/tmp/../sys"])
def test_engine_and_kernel_paths_are_refused_to_everyone(lab, path):
    assert "which no job may mount" in refused(lab.amy, "no", **mounting(path))


@pytest.mark.fault("SE09")
def test_the_socket_of_the_engine_is_refused_without_the_permission_of_server_and_account(lab):
    socket = mounting("/var/run/docker.sock")

    assert "not allowed" in refused(lab.ada, "no", **socket)
    failed = reaches(lab.amy, submit(lab.amy, register(lab.amy, "socket", "true", **socket)), "SUCCEEDED", "FAILED")

    assert failed["status"] == "FAILED"
    assert "which no job may mount on this server" in failed["container"]["reason"]


@pytest.mark.fault("SE09", "SE31", "SE32")
def test_a_container_that_may_not_be_root_has_no_rights_of_root(lab):
    named = register(lab.ada, "named", *WHO, user="1001", **mounting(lab.allowed))
    unnamed = register(lab.ada, "unnamed", "true")

    done = reaches(lab.ada, submit(lab.ada, named), "SUCCEEDED", "FAILED")
    failed = reaches(lab.ada, submit(lab.ada, unnamed, retryStrategy={"attempts": 3}), "SUCCEEDED", "FAILED")

    ids, *privileges, last = output(lab.service, done["container"]["logStreamName"])
    assert (ids, last) == ("uid=1001 gid=1001 groups=1001", "written")
    sets = {name: int(value, 16) for name, value in map(str.split, privileges)}
    assert sets == {"CapEff:": 0, "CapBnd:": 0, "NoNewPrivs:": 1}
    (attempt,) = failed["attempts"]
    assert "user 'root' of its image is not a number above 0" in attempt["container"]["reason"]


@pytest.mark.fault("SE09", "SE10")
def test_a_path_replaced_by_a_link_after_the_registration_is_not_mounted(lab):
    within = lab.allowed / "within"
    definition = register(lab.ada, "within", "true", user="1000", **mounting(within / "new"))
    within.symlink_to(lab.outside)

    failed = reaches(lab.ada, submit(lab.ada, definition, retryStrategy={"attempts": 3}), "SUCCEEDED", "FAILED")

    (attempt,) = failed["attempts"]
    assert "is not below a path that the accounts of the job permit" in attempt["container"]["reason"]
    assert not lab.outside.exists()


@pytest.mark.fault("SE10")
def test_a_tightened_policy_applies_to_queued_jobs(lab):
    definition = register(lab.ada, "mounts", "true", user="1000", **mounting(lab.allowed))
    lab.amy.update_compute_environment(computeEnvironment="local", state="DISABLED")
    job = submit(lab.ada, definition, retryStrategy={"attempts": 3})
    reaches(lab.ada, job, "RUNNABLE")

    run("account", "set", "lab", "--volumes", "/nowhere", "--data", lab.service.data)
    lab.amy.update_compute_environment(computeEnvironment="local", state="ENABLED")

    failed = reaches(lab.ada, job, "SUCCEEDED", "FAILED")
    run("account", "set", "lab", "--volumes", lab.allowed, "--data", lab.service.data)
    (attempt,) = failed["attempts"]
    assert attempt["container"]["reason"].endswith(f"Host path '{lab.allowed}' is not allowed to account lab.")
    assert reaches(lab.ada, submit(lab.ada, definition), "SUCCEEDED", "FAILED")["status"] == "SUCCEEDED"


def held(batch, name, **members):
    """The id of a job that stays RUNNABLE, because its environment is disabled."""
    properties = container("true") | members
    batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)
    return batch.submit_job(jobName=name, jobQueue="default", jobDefinition=name)["jobId"]


@pytest.fixture
def queued(tmp_path):
    """Jobs that a server without restrictions has accepted and not started, by what they request."""
    with serving_forked(tmp_path / "data") as loose:
        batch = loose.client()
        batch.update_compute_environment(computeEnvironment="local", state="DISABLED")
        disk = {"linuxParameters": {"devices": [{"hostPath": "/dev/null"}]}}
        jobs = {
            "privileges": held(batch, "privileges", privileged=True),
            "a device": held(batch, "device", **disk),
            "a path": held(batch, "path", **mounting(tmp_path / "outside")),
            "a link": held(batch, "link", **mounting(tmp_path / "allowed" / "link")),
            "nothing": held(batch, "nothing"),
        }
        assert [reaches(batch, job, "RUNNABLE")["attempts"] for job in jobs.values()] == [[]] * len(jobs)
    return jobs


@pytest.fixture
def tightened(tmp_path, queued):
    """A server on the same data that permits one folder, in which a link leads outside."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "link").symlink_to(tmp_path)
    service = Service(tmp_path / "data", "--privileged", "refuse", "--volumes", str(allowed)).start()
    yield service
    service.stop()
    service.remove_containers()


def statuses(service, job_id):
    """All statuses in the history of the job."""
    return {job["status"] for job in service.native(f"jobs/{job_id}/history")[1]["history"]}


@pytest.mark.fault("SE09", "SE10")
def test_jobs_queued_under_an_older_policy_get_the_newer_one(tmp_path, queued, tightened):
    batch = tightened.client()

    batch.update_compute_environment(computeEnvironment="local", state="ENABLED")

    fine = reaches(batch, queued.pop("nothing"), "SUCCEEDED", "FAILED")
    refused = {what: reaches(batch, job_id, "SUCCEEDED", "FAILED") for what, job_id in queued.items()}
    assert fine["status"] == "SUCCEEDED"
    assert {what: job["status"] for what, job in refused.items()} == dict.fromkeys(refused, "FAILED")
    assert [len(job["attempts"]) for job in refused.values()] == [1] * len(refused)
    reasons = {what: job["attempts"][0]["container"]["reason"] for what, job in refused.items()}
    assert "privileged" in reasons["privileges"]
    assert "not below a path that this server permits" in reasons["a path"]
    assert [statuses(tightened, job_id) & {"RUNNING", "SUCCEEDED"} for job_id in queued.values()] == [set()] * len(
        refused
    )
    assert not (tmp_path / "outside").exists()
