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
    return [it["user"] for it in found["batchq"].get("authors", ())]


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


WAYS = {
    "sagemaker": lambda name: sagemaker("CreateTrainingJob", **training_job(name)),
    "modelarts": lambda name: Request(path=f"{MODELARTS}/training-jobs", body=modelarts_job(name)),
}


@pytest.mark.fault("SE63")
@pytest.mark.parametrize("dialect", WAYS)
def test_an_equal_definition_of_another_user_is_not_used(server, dialect):
    """An operator may register revisions in an admin's name, with the content that the admin's next job needs."""

    def created(name):
        assert server.send("amy", WAYS[dialect](name)).status < HTTPStatus.BAD_REQUEST
        (row,) = server.send("amy", Request(path="/v1/batchq/listjobs", body={"jobNames": [name]})).content["jobs"]
        return row["jobId"], row["jobDefinition"]

    _, ref = created(f"{dialect}-first")
    (first,) = server.do("amy", "DescribeJobDefinitions", jobDefinitions=[ref])["jobDefinitions"]
    members = {it: first[it] for it in ("jobDefinitionName", "type", "containerProperties")}
    server.do("oda", "RegisterJobDefinition", **members)

    job, used = created(f"{dialect}-second")

    (again,) = server.do("amy", "DescribeJobDefinitions", jobDefinitions=[used])["jobDefinitions"]
    assert (again["revision"], again["batchq"]["author"]["user"]) == (first["revision"] + 2, "amy")
    assert authors_of(server, job) == []


@pytest.mark.fault("SE64")
def test_a_revision_that_an_operator_registers_in_an_admins_name_is_the_operators(server, resources):
    name = resources.defined("amy")
    content = server.do("amy", "DescribeJobDefinitions", jobDefinitionName=name)["jobDefinitions"][0]
    members = {it: content[it] for it in ("jobDefinitionName", "type", "containerProperties")}

    server.do("oda", "RegisterJobDefinition", **members)

    assert authors_of(server, resources.submit("amy", f"{name}:1")) == []
    assert authors_of(server, resources.submit("amy", name)) == ["oda"]
