"""ForceFail by HTTP, and the command `batchq force-fail`."""

import asyncio

import pytest

from batchq.cli.main import main
from batchq.domain import events as on
from batchq.domain.ids import JobId

UNKNOWN_ID = "5d1f6c1e-0000-4000-8000-000000000000"


@pytest.fixture
def force(http):
    """Send the request; returns the status and the answer."""

    async def force(job_id, content=None):
        path = f"/v1/batchq/jobs/{job_id.replace('#', '%23')}/forcefail"
        status, _, answer = await http.send("POST", path, data=content or b'{"reason":"it hangs"}')
        return status, answer

    return force


@pytest.fixture
def command(server, capsys):
    """Run `batchq force-fail` against the server. Returns the exit status and the output."""

    async def command(*words):
        status = await asyncio.to_thread(main, ["force-fail", *words, "--url", server.url])
        output = capsys.readouterr()
        return status, (output.out + output.err).strip()

    return command


async def test_a_running_job_is_failed_with_the_reason(server, submit, described, force):
    job_id = await submit()
    await server.runs(job_id)

    status, answer = await force(job_id)

    assert (status, answer) == (200, {"jobId": job_id, "status": "FAILED", "statusReason": "Force-failed: it hangs"})
    job = await described(job_id)
    assert (job["status"], job["statusReason"], job["isTerminated"]) == ("FAILED", "Force-failed: it hangs", False)
    assert "exitCode" not in job["attempts"][0]["container"]
    assert job["attempts"][0]["stoppedAt"] == job["stoppedAt"]


async def test_an_unknown_job_is_not_found(default_queue, force):
    assert await force(UNKNOWN_ID) == (404, {"__type": "ClientException", "message": f"Job {UNKNOWN_ID} not found."})


async def test_an_array_is_refused_with_the_children_that_have_containers(server, submit, force):
    job_id = await submit(arrayProperties={"size": 2})
    await server.engine.happens(JobId(job_id), on.DependenciesMet())

    status, answer = await force(job_id)

    message = f"Job {job_id} is an array: force-fail its children; none of them has a container at present."
    assert (status, answer["message"]) == (400, message)


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"",
        b'{"reason":""}',
        b'{"reason":"a\\u0000b"}',
        b'{"reason":"it hangs","force":true}',
        b'{"reason":"' + b"x" * 1025 + b'"}',
    ],
)
async def test_an_invalid_reason_is_refused_and_changes_nothing(server, submit, force, described, body):
    job_id = await submit()
    await server.runs(job_id)

    status, answer = await force(job_id, body or b" ")

    assert status == 400
    assert answer["message"]
    assert (await described(job_id))["status"] == "RUNNING"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "its container does not end"),
        (["--reason", "it hangs"], "it hangs"),
        (["--reason", "a\x1b[31m\nbatchq: all is well"], "a\\x1b[31m\\nbatchq: all is well"),
    ],
    ids=["default reason", "reason", "control characters"],
)
async def test_the_command_takes_the_beginning_of_an_id_and_prints_the_reason(server, submit, command, words, reason):
    job_id = await submit()
    await server.runs(job_id)

    assert await command(job_id[:8], *words) == (0, f"job {job_id} is FAILED: Force-failed: {reason}")


async def test_the_command_prints_why_a_job_was_refused(submit, command):
    job_id = await submit()

    status, output = await command(f"{job_id}#0")

    assert status == 1
    assert output == f"batchq: Job {job_id}#0 is a node: force-fail the whole job {job_id}."


@pytest.mark.parametrize("name", ["../../v1/submitjob", "", "a\x1b[31m"])
async def test_the_command_reports_a_malformed_id(server, command, name):
    status, output = await command(name)

    assert status == 2
    assert output == f"batchq: {name!r} is not a job: give an id, its first 8 digits or more, a name, or @"
