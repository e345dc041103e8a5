"""Jobs that run what another user wrote: whose rights they have, and which user is named before the order."""

import re
from html import unescape
from http import HTTPStatus
from uuid import uuid4

import pytest

from batchq.compute.simulated.script import Script
from tests.roles.people import MODELARTS, Request, sagemaker
from tests.roles.resources import absent, modelarts_job, training_job
from tests.roles.test_pages import PageRow, Visitors
from tests.service.job_queue import batchq

BOTH = "a job has only the rights that both of you have"


@pytest.fixture(scope="module")
def visitors(server):
    return Visitors(server)


@pytest.fixture
def failed(resources):
    """A job of ada that has FAILED."""
    definition = resources.defined("ada", Script(seconds=0, exit_code=1))
    job = resources.submit("ada", definition, queue="default")
    resources.until(job, "FAILED")
    return job, definition


def authors_of(server, job):
    (found,) = server.do("amy", "DescribeJobs", jobs=[job])["jobs"]
    return [author["user"] for author in found["batchq"].get("authors", ())]


def page(visitors, user, name, *, form=(), query=""):
    """The status, the headers, the text and the hidden fields of a page."""
    status, headers, body = visitors.send(user, name, PageRow(form=form, query=query), absent())
    text = unescape(body.decode())
    return status, headers, text, dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', text))


@pytest.mark.fault("SE62")
def test_the_console_names_the_author_before_a_job_is_submitted_again(visitors, server, failed):
    job, _ = failed

    _, _, text, fields = page(visitors, "amy", "GET /rerun", query=f"?job={job}")
    _, headers, _, _ = page(visitors, "amy", "POST /rerun", form=fields)

    assert f"Job {job} and 1 more by ada of account lab: {BOTH}." in text
    assert authors_of(server, headers["Location"].rpartition("/")[2]) == ["ada"]
    assert BOTH not in page(visitors, "bob", "GET /rerun", query=f"?job={job}")[2]


@pytest.mark.fault("SE62")
@pytest.mark.parametrize("source", ["definition", "like"])
def test_the_console_submits_what_another_user_wrote_only_after_it_has_named_the_user(visitors, server, failed, source):
    job, definition = failed
    form = {"definition": definition, "queue": "still", "invocation": str(uuid4())}
    form |= {"like": job, "retry": "1"} if source == "like" else {}

    status, _, text, fields = page(visitors, "amy", "POST /submit", form=form)
    confirmed, headers, _, _ = page(visitors, "amy", "POST /submit", form=form | fields)

    assert (status, confirmed) == (HTTPStatus.BAD_REQUEST, HTTPStatus.SEE_OTHER)
    assert "Other users wrote what this job runs" in text
    assert f"by ada of account lab: {BOTH}." in text
    assert authors_of(server, headers["Location"].rpartition("/")[2]) == ["ada"]


TRAINED = {"image": "batchq-test:latest", "queue": "still"}
REQUESTS = {
    "sagemaker": lambda name: sagemaker("CreateTrainingJob", **training_job(name)),
    "modelarts": lambda name: Request(path=f"{MODELARTS}/training-jobs", body=modelarts_job(name)),
    "training": lambda name: Request(path="/v2/training/jobs", body=TRAINED | {"name": name}),
}


@pytest.fixture
def shell(server, monkeypatch, tmp_path):
    """Run a command as amy. Returns its status, the lines of stdout, and stderr."""
    monkeypatch.setenv("BATCHQ_URL", server.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.keys["amy"].access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.keys["amy"].secret_key)
    return batchq


@pytest.mark.fault("SE62")
@pytest.mark.parametrize("command", ["submit", "run", "rerun"])
def test_the_shell_names_the_author_before_the_order(server, shell, failed, command):
    """The order is refused, so what is printed before the refusal was printed before the order."""
    job, definition = failed
    words = [job, "--new-queue", "none"] if command == "rerun" else ["-d", definition, "-q", "none"]

    done = shell(command, *words)

    notice, refusal = done.err.splitlines()
    assert notice.endswith(f"by ada of account lab: {BOTH}")
    assert "JobQueue none not found" in refusal
    if command != "rerun":
        named = f"job definition {definition}:1 {notice[notice.index('by ada') :]}"
        assert notice.endswith(named)
        assert named in shell(command, "-d", f"{definition}:1", "-q", "none").err


@pytest.mark.fault("SE63")
@pytest.mark.parametrize("way", [*REQUESTS, "submit IMAGE", "console"])
def test_an_equal_definition_of_another_user_is_not_used(server, visitors, shell, way):
    """An operator may register revisions in an admin's name, with the content that the admin's next job needs."""
    image = f"lab/{way.replace(' ', '-').lower()}"

    def create(name):
        if way in REQUESTS:
            assert server.send("amy", REQUESTS[way](name)).status < HTTPStatus.BAD_REQUEST
        elif way == "console":
            form = {"image": image, "name": name, "queue": "still", "invocation": str(uuid4())}
            assert page(visitors, "amy", "POST /submit", form=form)[0] == HTTPStatus.SEE_OTHER
        else:
            assert shell("submit", image, "--name", name, "-q", "still").status == 0

    def created(kind):
        name = f"{way.replace(' ', '-')}-{kind}"
        create(name)
        (row,) = server.send("amy", Request(path="/v1/batchq/listjobs", body={"jobNames": [name]})).content["jobs"]
        return row["jobId"], row["jobDefinition"]

    _, ref = created("first")
    (first,) = server.do("amy", "DescribeJobDefinitions", jobDefinitions=[ref])["jobDefinitions"]
    members = {other_name: first[other_name] for other_name in ("jobDefinitionName", "type", "containerProperties")}
    server.do("oda", "RegisterJobDefinition", **members)

    job, used = created("second")

    (again,) = server.do("amy", "DescribeJobDefinitions", jobDefinitions=[used])["jobDefinitions"]
    assert (again["containerProperties"], again["batchq"]["author"]["user"]) == (first["containerProperties"], "amy")
    assert authors_of(server, job) == []


@pytest.mark.fault("SE64")
def test_a_revision_that_an_operator_registers_in_an_admins_name_is_the_operators(server, resources):
    name = resources.defined("amy")
    content = server.do("amy", "DescribeJobDefinitions", jobDefinitionName=name)["jobDefinitions"][0]
    members = {name: content[name] for name in ("jobDefinitionName", "type", "containerProperties")}

    server.do("oda", "RegisterJobDefinition", **members)

    assert authors_of(server, resources.submit("amy", f"{name}:1")) == []
    assert authors_of(server, resources.submit("amy", name)) == ["oda"]
