"""`batchq cancel` and `batchq terminate`: output and exit status for each response of the server."""

import asyncio
import json
import os
import re
import signal
import sys
from datetime import datetime
from io import StringIO

import pytest

from batchq.cli import bulk_stop
from batchq.domain.enums import Outcome
from batchq.domain.stop_messages import DONE
from tests.cli.servers import ARRAY, GANG, NOWHERE, batchq, job, job_id

NOON_TODAY = int(datetime.now().astimezone().replace(hour=12, minute=0, second=0, microsecond=0).timestamp() * 1000)
AT_ONCE = "FAILED at once, no container is created"
NEVER = "FAILED whatever the exit code, never retried"
LAST = "the attempt continues and is the last one"
OUTCOMES = [
    ("CANCELLED", 0, ["cancelled  sim (RUNNABLE)", f"1 cancelled ({AT_ONCE})"]),
    ("TERMINATED", 0, ["terminated  sim (RUNNABLE)", f"1 terminated ({AT_ONCE})"]),
    ("STOPPING", 0, ["stopping  sim (RUNNABLE)", f"1 stopping (SIGTERM, SIGKILL after the grace period, {NEVER})"]),
    ("NOT_RETRIED", 0, ["running on, not retried  sim (RUNNABLE)", f"1 running on, not retried ({LAST})"]),
    ("ALREADY_FINISHED", 0, ["is as it is", "1 already finished"]),
    ("NOT_MATCHED", 0, ["is as it is", "1 not matched"]),
    ("NOT_FOUND", 1, ["is as it is", "1 not found"]),
    ("REFUSED", 1, ["is as it is", "1 refused"]),
]


@pytest.mark.parametrize(("outcome", "status", "printed"), OUTCOMES)
async def test_each_outcome_has_a_line_and_a_status(server, capsys, outcome, status, printed):
    why = {} if outcome in DONE else {"message": f"Job {ARRAY} is as it is."}
    server.jobs = [job(outcome, **why)]

    assert await batchq("terminate", ARRAY) == status

    assert capsys.readouterr().out.splitlines() == [f"{ARRAY}  {printed[0]}", printed[1]]


async def test_more_jobs_than_a_request_names_are_those_that_are_as_old_as_the_question(server, capsys, monkeypatch):
    server.jobs = [job("STOPPING", jobId=job_id("8f2c51a7", number), status="RUNNING") for number in range(21)]
    monkeypatch.setattr(bulk_stop, "MAX_IDS", 20)
    monkeypatch.setattr(bulk_stop, "can_ask", lambda: True)
    monkeypatch.setattr(bulk_stop, "fetch_server_time", lambda _: NOON_TODAY)
    monkeypatch.setattr(sys, "stdin", StringIO("y\n"))

    assert await batchq("terminate", "-n", "sim*") == 0

    (_, asked), (_, ordered) = server.requests
    assert NOON_TODAY - 60_000 < ordered.pop("createdBefore") <= NOON_TODAY
    assert ordered | {"dryRun": True} == asked
    assert "terminate 21 jobs, and those created before now that match by then? [y/N]" in capsys.readouterr().err


def test_the_outcomes_of_the_server_are_known():
    assert {*DONE, "ALREADY_FINISHED", "NOT_MATCHED", "NOT_FOUND", "REFUSED"} == set(Outcome)


@pytest.mark.parametrize(
    ("words", "jobs", "lines"),
    [
        (["cancel", "-n", "unknown"], [], ["no job matches"]),
        (
            ["terminate", "-t", "all", "--dry-run"],
            [job("STOPPING")],
            [
                f"{ARRAY}  would be stopped  sim (RUNNABLE)",
                f"1 would be stopped (SIGTERM, SIGKILL after the grace period, {NEVER}); nothing is changed",
            ],
        ),
        (
            ["terminate", ARRAY, "--signal", "INT", "--grace", "5"],
            [job("STOPPING")],
            [f"{ARRAY}  stopping  sim (RUNNABLE)", f"1 stopping (SIGINT, SIGKILL after 5 s, {NEVER})"],
        ),
        (
            ["terminate", ARRAY],
            [job("TERMINATED", status="PENDING", children=1), job("TERMINATED", children=4999)],
            [
                f"{ARRAY}  terminated  sim (PENDING)",
                f"{ARRAY}  terminated  sim (RUNNABLE)",
                f"2 terminated with 5,000 children ({AT_ONCE})",
            ],
        ),
        (
            ["cancel", ARRAY],
            [job("STOPPING")],
            [
                f"{ARRAY}  stopping  sim (RUNNABLE)",
                "1 stopping (children that run continue and are not retried, FAILED when none is left)",
            ],
        ),
    ],
)
async def test_the_summary_names_the_consequences_of_the_request(server, capsys, words, jobs, lines):
    server.jobs = jobs

    assert await batchq(*words) == 0

    assert server.requests[0][1]["dryRun"] == ("--dry-run" in words)
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("order", "outcome", "lines"),
    [
        (
            {"kind": "TERMINATE", "user": "cora", "at": NOON_TODAY, "reason": "too hot"},
            "STOPPING",
            ["stopping  sim (RUNNABLE): already stopping since 12:00:00, by cora ('too hot')", "1 already stopping"],
        ),
        (
            {"kind": "CANCEL", "user": "cora", "at": NOON_TODAY, "reason": "too hot"},
            "NOT_RETRIED",
            [
                "running on, not retried  sim (RUNNABLE): already cancelled since 12:00:00, by cora ('too hot')",
                "1 already cancelled",
            ],
        ),
        (
            {"kind": "TIMEOUT", "at": NOON_TODAY, "reason": "late"},
            "STOPPING",
            [
                "stopping  sim (RUNNABLE): already stopping since 12:00:00, by its timeout ('late')",
                "1 already stopping",
            ],
        ),
    ],
)
async def test_an_earlier_order_is_named_with_its_author_and_time(server, capsys, order, outcome, lines):
    server.jobs = [job(outcome, standing=order, message="already stopping since ..., by ...")]

    assert await batchq("terminate", ARRAY) == 0

    assert capsys.readouterr().out.splitlines() == [f"{ARRAY}  {lines[0]}", lines[1]]


@pytest.mark.parametrize("jobs", [[], [job("CANCELLED")], [job("CANCELLED"), job("NOT_FOUND")]], ids=len)
async def test_json_prints_the_whole_response(server, capsys, jobs):
    server.jobs = jobs

    await batchq("cancel", ARRAY, "-o", "json")

    counts = {other_job["outcome"]: 1 for other_job in jobs}
    assert json.loads(capsys.readouterr().out) == {"jobs": jobs, "counts": counts, "dryRun": False}


async def test_quiet_prints_only_jobs_that_were_not_stopped(server, capsys):
    server.jobs = [job("CANCELLED"), job("NOT_FOUND", jobId=GANG, message="There is none.")]

    assert await batchq("cancel", ARRAY, GANG, "-Q") == 1

    assert capsys.readouterr().out == f"{GANG}  There is none\n"


@pytest.mark.fault("SE12")
async def test_control_characters_in_a_job_name_are_escaped(server, capsys):
    server.jobs = [job("CANCELLED", jobName="a\n\x1b[31mb\u202e")]

    await batchq("cancel", ARRAY)

    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(("http", "status"), [(400, 2), (403, 2), (413, 2), (429, 3), (500, 3), (503, 3)])
async def test_a_refusal_is_printed_with_the_servers_message(server, capsys, http, status):
    server.refuses = http, "It cannot be."

    assert await batchq("cancel", ARRAY) == status

    assert capsys.readouterr() == ("", "batchq: It cannot be.\n")


async def test_an_unreachable_server_is_an_error_of_status_3(server, capsys):
    assert await batchq("cancel", ARRAY, "--url", NOWHERE) == 3

    assert capsys.readouterr().err.startswith(f"batchq: cannot reach a batchq server at {NOWHERE}: ")


async def test_an_interrupted_response_is_reported_with_the_outcomes_before_it(server, capsys):
    server.jobs, server.breaks_off = [job("CANCELLED")], True

    assert await batchq("cancel", "-t", "all") == 3

    described = capsys.readouterr()
    assert described.out == f"{ARRAY}  cancelled  sim (RUNNABLE)\n"
    until = "before that: 1 cancelled. The server completes the request"
    assert described.err == f"batchq: the response of {os.environ['BATCHQ_URL']} is incomplete; {until}\n"


LINE, LAST = json.dumps(job("CANCELLED")), json.dumps({"counts": {"CANCELLED": 1}, "dryRun": False})
NOT_AN_ANSWER = {
    "empty": "",
    "not JSON": "<html>\n",
    "not UTF-8": b"\xff\n",
    "not objects": "[]\n1\n",
    "no outcome": "{}\n",
    "an outcome of another version": LINE.replace("CANCELLED", "OF_LATER") + "\n",
    "no last line": f"{LINE}\n",
    "half of the last line": f"{LINE}\n{LAST[:10]}",
    "one array": f"[{LINE}, {LAST}]\n",
    "deeply nested": '{"jobId": ' + "[" * 100_000,
    "a line without an end": '{"jobId": "' + "x" * 2_000_000,
}


@pytest.mark.parametrize("answer", NOT_AN_ANSWER.values(), ids=NOT_AN_ANSWER)
async def test_an_incomplete_or_invalid_response_is_an_error(server, capsys, answer):
    server.answer = answer if isinstance(answer, bytes) else answer.encode()

    assert await batchq("cancel", "-t", "all") == 3

    assert re.search("not (from )?batchq|is incomplete", capsys.readouterr().err)


async def test_a_response_of_another_media_type_is_an_error(server, capsys):
    server.media = "text/html"

    assert await batchq("cancel", "-t", "all") == 3

    assert capsys.readouterr().err.endswith("is not batchq\n")


@pytest.mark.process
async def test_output_that_cannot_be_written_is_reported(server):
    server.jobs = [job("CANCELLED")]

    shell = f"{sys.executable} -m batchq cancel -t all > /dev/full"
    running = await asyncio.create_subprocess_exec("sh", "-c", shell, env=os.environ, stderr=asyncio.subprocess.PIPE)
    _, err = await running.communicate()

    assert (running.returncode, err) == (0, b"batchq: cannot write the output: No space left on device\n")


@pytest.mark.process
@pytest.mark.parametrize("more", [[], ["-o", "json"]])
async def test_a_closed_pipe_does_not_end_the_command(server, more):
    server.jobs = [job("CANCELLED")] * 3000 + [job("NOT_FOUND")]

    shell = f"{sys.executable} -m batchq cancel -t all {' '.join(more)} | head -1; echo ${{PIPESTATUS[0]}}"
    running = await asyncio.create_subprocess_exec(
        "bash", "-c", shell, env=os.environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await running.communicate()

    assert err == b""
    assert out.splitlines()[-1] == b"1"


@pytest.mark.process
@pytest.mark.parametrize(
    ("holds_after", "printed"),
    [
        (0, "batchq: interrupted; it is unknown whether the server has accepted the request\n"),
        (1, "batchq: interrupted; before that: 1 cancelled. The server completes the request\n"),
    ],
)
async def test_an_interrupt_reports_the_outcomes_so_far(server, holds_after, printed):
    server.jobs, server.holds_after = [job("CANCELLED")], holds_after
    command = [sys.executable, "-u", "-m", "batchq", "cancel", "-t", "all"]
    piped = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(*command, env=os.environ, stdout=piped, stderr=piped)
    await server.requested.wait()
    described = [await running.stdout.readline() for _ in range(holds_after)]

    running.send_signal(signal.SIGINT)

    _, err = await running.communicate()
    assert (running.returncode, err.decode()) == (130, printed)
    assert len(described) == holds_after
