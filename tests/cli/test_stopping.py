"""`batchq cancel` and `batchq terminate`: what they ask a server, what they say of its answer, and how they end."""

import asyncio
import json
import os
import sys

import pytest
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.native import stopping
from batchq.cli.choosing import STATES
from batchq.cli.main import main
from batchq.cli.telling import DONE
from batchq.domain.sweep import Outcome
from tests.support.server import serving

ARRAY = "3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001"
GANG = "9a1bd3c2-77aa-4f0e-8f21-6b0d5cf4a002"
NOWHERE = "http://127.0.0.1:1"


class Server:
    """It remembers what it was asked, and answers as it is told to."""

    def __init__(self):
        self.asked = []
        self.jobs = []
        self.refuses = None
        self.breaks_off = False
        self.url = ""

    def app(self):
        app = web.Application()
        app.router.add_post("/v1/batchq/{operation}", self._answer)
        return app

    async def _answer(self, request):
        content = await request.json()
        self.asked.append((request.match_info["operation"], content))
        if self.refuses:
            status, message = self.refuses
            return web.json_response({"message": message}, status=status)
        counts = {it["outcome"]: 1 for it in self.jobs}
        answer = {"jobs": self.jobs, "counts": counts, "dryRun": content["dryRun"]}
        if self.breaks_off:
            return await self._break_off(request, json.dumps(answer).encode())
        return web.json_response(answer)

    async def _break_off(self, request, text):
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(text[:-40])
        request.transport.abort()
        return response


@pytest.fixture
async def server(monkeypatch):
    for name in ("BATCHQ_URL", "AWS_CA_BUNDLE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "")
    server = Server()
    async with serving(server.app()) as url:
        monkeypatch.setenv("BATCHQ_URL", url)
        server.url = url
        yield server


async def batchq(*words):
    return await asyncio.to_thread(main, words)


def job(outcome, **more):
    return {"jobId": ARRAY, "jobName": "sim", "status": "RUNNABLE", "outcome": outcome} | more


@pytest.mark.parametrize(
    ("words", "content"),
    [
        ([f"{ARRAY},{GANG}"], {"jobs": [ARRAY, GANG]}),
        ([ARRAY, GANG, ARRAY], {"jobs": [ARRAY, GANG]}),
        (
            [f"{ARRAY}.3, {ARRAY}:4,{ARRAY}_5", f"{GANG}#1"],
            {"jobs": [f"{ARRAY}.3", f"{ARRAY}:4", f"{ARRAY}:5", f"{GANG}#1"]},
        ),
        (["-u", "ann"], {"users": ["ann"]}),
        (["-uann"], {"users": ["ann"]}),
        (["-t", "PD", "-p", "debug"], {"states": ["PENDING"], "jobQueues": ["debug"]}),
        (["--state=pending,Running", "-t", "r"], {"states": ["PENDING", "RUNNING"]}),
        (["-n", "sim*,train", "--name", "eval"], {"jobNames": ["sim*", "train", "eval"]}),
        (["-A", "physics", "-w", "gpu1,gpu2"], {"accounts": ["physics"], "computeEnvironments": ["gpu1", "gpu2"]}),
        (
            ["-p", "arn:aws:batch:us-east-1:123456789012:job-queue/q"],
            {"jobQueues": ["arn:aws:batch:us-east-1:123456789012:job-queue/q"]},
        ),
        (["-t", "all", "--reason", "the room is too hot"], {"states": ["ALL"], "reason": "the room is too hot"}),
    ],
)
@pytest.mark.parametrize("command", ["cancel", "terminate"])
async def test_what_the_fingers_know_is_what_is_asked(server, command, words, content):
    assert await batchq(command, *words) == 0

    assert server.asked == [(f"{command}jobs", {"dryRun": False} | content)]


@pytest.mark.parametrize("signal", ["INT", "sigint", "SIGINT", "2"])
async def test_a_terminate_may_say_signal_and_grace(server, signal):
    assert await batchq("terminate", "-t", "running", "--signal", signal, "--grace", "5") == 0

    assert server.asked == [
        ("terminatejobs", {"dryRun": False, "states": ["RUNNING"], "signal": "SIGINT", "graceSeconds": 5})
    ]


@pytest.mark.parametrize(
    "words",
    [
        [],
        [""],
        [","],
        [f"{ARRAY},"],
        [ARRAY[:8]],
        [ARRAY, "sim"],
        [f"{ARRAY}.x"],
        [f"{ARRAY}:"],
        [f"{ARRAY}:007"],
        ["-n", ""],
        ["-u", "ann", ""],
        ["-u", "ann,,bob"],
        ["-t", "done"],
        ["-t", "succeeded"],
        ["-t", "all", "--url", "nowhere"],
        ["-t", "all", "--stat", "x"],
        ["-i", "-t", "all"],
    ],
)
@pytest.mark.parametrize("command", ["cancel", "terminate"])
async def test_what_is_said_wrong_stops_nothing_and_is_told_in_a_line(server, capsys, command, words):
    assert await ended(command, *words) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("batchq: ")
    assert told.err.count("\n") == 1
    assert server.asked == []


@pytest.mark.parametrize(
    "words", [["--signal", "LOUD"], ["--signal", "0"], ["--grace", "-1"], ["--grace", "1.5"], ["--grace", "86401"]]
)
async def test_so_is_no_signal_and_no_grace(server, words):
    assert await ended("terminate", "-t", "all", *words) == 2

    assert server.asked == []


async def test_a_cancel_knows_neither_signal_nor_grace(server):
    assert await ended("cancel", "-t", "all", "--grace", "5") == 2

    assert server.asked == []


OUTCOMES = [
    ("CANCELLED", 0, ["cancelled  sim (RUNNABLE)", "1 cancelled"]),
    ("TERMINATED", 0, ["terminated  sim (RUNNABLE)", "1 terminated"]),
    ("STOPPING", 0, ["stopping  sim (RUNNABLE)", "1 stopping"]),
    ("NOT_RETRIED", 0, ["running on, not retried  sim (RUNNABLE)", "1 running on, not retried"]),
    ("ALREADY_FINISHED", 0, ["is as it is", "1 already finished"]),
    ("NOT_MATCHED", 0, ["is as it is", "1 not matched"]),
    ("NOT_FOUND", 1, ["is as it is", "1 not found"]),
    ("FORBIDDEN", 1, ["is as it is", "1 forbidden"]),
    ("OF_LATER", 1, ["is as it is", "1 of later"]),
]


@pytest.mark.parametrize(("outcome", "status", "said"), OUTCOMES)
async def test_each_outcome_has_a_line_and_a_status(server, capsys, outcome, status, said):
    server.jobs = [job(outcome, message=f"Job {ARRAY} is as it is.")]

    assert await batchq("terminate", ARRAY) == status

    assert capsys.readouterr().out.splitlines() == [f"{ARRAY}  {said[0]}", said[1]]


def test_the_states_and_outcomes_of_the_server_are_known():
    assert set(STATES) == {*stopping.STATES, "ALL"}
    assert {*DONE, "ALREADY_FINISHED", "NOT_MATCHED", "NOT_FOUND"} == set(Outcome)


async def test_no_match_is_success(server, capsys):
    assert await batchq("cancel", "-n", "nobody") == 0

    assert capsys.readouterr().out == "no job matches\n"


async def test_a_dry_run_says_that_it_is_one(server, capsys):
    server.jobs = [job("STOPPING")]

    assert await batchq("terminate", "-t", "all", "--dry-run") == 0

    assert server.asked == [("terminatejobs", {"dryRun": True, "states": ["ALL"]})]
    assert capsys.readouterr().out.splitlines() == [
        f"{ARRAY}  would be stopped  sim (RUNNABLE)",
        "1 would be stopped; nothing is changed",
    ]


@pytest.mark.parametrize("jobs", [[], [job("CANCELLED")], [job("CANCELLED"), job("NOT_FOUND")]], ids=len)
async def test_as_json_it_is_the_answer(server, capsys, jobs):
    server.jobs = jobs

    await batchq("cancel", ARRAY, "--json")

    counts = {it["outcome"]: 1 for it in jobs}
    assert json.loads(capsys.readouterr().out) == {"jobs": jobs, "counts": counts, "dryRun": False}


async def test_quiet_tells_only_of_what_was_not_done(server, capsys):
    server.jobs = [job("CANCELLED"), job("NOT_FOUND", jobId=GANG, message="There is none.")]

    assert await batchq("cancel", ARRAY, GANG, "-Q") == 1

    assert capsys.readouterr().out == f"{GANG}  There is none\n"


async def test_what_is_in_a_name_turns_no_line(server, capsys):
    server.jobs = [job("CANCELLED", jobName="a\n\x1b[31mb\u202e")]

    await batchq("cancel", ARRAY)

    assert all(it.isprintable() for it in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(("http", "status"), [(400, 2), (403, 2), (413, 2), (429, 3), (500, 3), (503, 3)])
async def test_a_refusal_is_told_in_the_servers_words(server, capsys, http, status):
    server.refuses = http, "It cannot be."

    assert await batchq("cancel", ARRAY) == status

    assert capsys.readouterr() == ("", "batchq: It cannot be.\n")


async def test_where_nobody_answers_it_says_so(server, capsys):
    assert await batchq("cancel", ARRAY, "--url", NOWHERE) == 3

    assert capsys.readouterr().err.startswith(f"batchq: no batchq answers at {NOWHERE}: ")


async def test_an_answer_that_breaks_off_tells_what_came_and_that_the_order_stands(server, capsys):
    server.jobs, server.breaks_off = [job("CANCELLED")], True

    assert await batchq("cancel", "-t", "all") == 3

    told = capsys.readouterr()
    assert told.out == f"{ARRAY}  cancelled  sim (RUNNABLE)\n"
    assert told.err.endswith("; until then: 1 cancelled. What was ordered goes on without you\n")


@pytest.mark.parametrize("more", [[], ["--json"]])
async def test_when_nobody_reads_it_goes_on_to_the_end(server, more):
    server.jobs = [job("CANCELLED")] * 3000 + [job("NOT_FOUND")]

    shell = f"{sys.executable} -m batchq cancel -t all {' '.join(more)} | head -1; echo ${{PIPESTATUS[0]}}"
    running = await asyncio.create_subprocess_exec(
        "bash", "-c", shell, env=os.environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await running.communicate()

    assert err == b""
    assert out.splitlines()[-1] == b"1"


HABITS = ["-n", "-u", "-A", "-p", "-t", "-w", "--state", "--signal", "--grace", "--reason", "--json", "-Q", "--dry-run"]
MORE = ["all", "-C", "--config", "--", "-", "", ",", ARRAY, f"{GANG}#0", "\0", "\udcff", "-h", "--help=", "%s", "{0}"]
WORDS = st.sampled_from([*HABITS, *MORE]) | st.text(max_size=8)


@given(st.sampled_from(["cancel", "terminate"]), st.lists(WORDS, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_is_said_ends_with_a_status_that_is_documented(monkeypatch, command, words):
    monkeypatch.setenv("BATCHQ_URL", NOWHERE)

    try:
        status = main([command, *words])
    except SystemExit as ended:
        status = ended.code

    assert status in {0, 2, 3}


async def ended(*words):
    """The status, also where nothing was asked."""
    try:
        return await batchq(*words)
    except SystemExit as left:
        return left.code
