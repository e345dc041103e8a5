"""The arguments of `batchq cancel` and `batchq terminate`: requests, and refused combinations."""

import json
import sys
from io import StringIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batchq.api.http.http import BODY_LIMIT
from batchq.cli.main import main
from batchq.domain.enums import ACTIVE, QUEUED, Status, in_order
from tests.cli.servers import ARRAY, GANG, NOWHERE, batchq, ended, row

MEMBERS = [
    ([f"{ARRAY},{GANG}"], {"jobs": [ARRAY, GANG]}),
    ([ARRAY, GANG, ARRAY], {"jobs": [ARRAY, GANG]}),
    (
        [f"{ARRAY}.3, {ARRAY}:4,{ARRAY}_5", f"{GANG}#1"],
        {"jobs": [f"{ARRAY}.3", f"{ARRAY}:4", f"{ARRAY}:5", f"{GANG}#1"]},
    ),
    (["-u", "ann"], {"users": ["ann"]}),
    (["-uann"], {"users": ["ann"]}),
    (["--me"], {"mine": True}),
    (["--held", "-d", "fit:3", "--exit-code", "3"], {"held": True, "jobDefinitions": ["fit:3"], "exitCodes": [3]}),
    (["-t", "PD", "-q", "debug"], {"jobStatuses": [*in_order(QUEUED)], "jobQueues": ["debug"]}),
    (["--state=pending,Running", "-t", "r"], {"jobStatuses": [*in_order(QUEUED | ACTIVE)]}),
    (["-n", "sim*,train", "--name", "eval"], {"jobNames": ["sim*", "train", "eval"]}),
    (["-A", "physics", "-w", "gpu1,gpu2"], {"accounts": ["physics"], "computeEnvironments": ["gpu1", "gpu2"]}),
    (
        ["-q", "arn:aws:batch:us-east-1:123456789012:job-queue/q"],
        {"jobQueues": ["arn:aws:batch:us-east-1:123456789012:job-queue/q"]},
    ),
    (["-t", "all", "--reason", "the room is too hot"], {"jobStatuses": [*Status], "reason": "the room is too hot"}),
]


@pytest.mark.parametrize("command", ["cancel", "terminate"])
async def test_flags_become_members_of_the_request(server, command):
    for words, content in MEMBERS:
        server.requests.clear()

        assert await batchq(command, *words) == 0

        assert server.requests == [(f"{command}jobs", {"dryRun": False} | content)]


@pytest.mark.parametrize("signal", ["INT", "sigint", "SIGINT", "2"])
async def test_terminate_sends_signal_and_grace(server, signal):
    assert await batchq("terminate", "-t", "running", "--signal", signal, "--grace", "5") == 0

    assert server.requests == [
        ("terminatejobs", {"dryRun": False, "jobStatuses": [*in_order(ACTIVE)], "signal": "SIGINT", "graceSeconds": 5})
    ]


INVALID = [
    [],
    [""],
    [","],
    [f"{ARRAY},"],
    [ARRAY[:8], "sim*"],
    [f"{ARRAY}:5-3"],
    [f"{ARRAY}.x/y"],
    [f"{GANG}#1.x"],
    [f"{ARRAY}:"],
    [f"{ARRAY}:007"],
    ["-n", ""],
    ["-u", "ann", ""],
    ["-u", "ann,,bob"],
    ["-t", "done"],
    ["-p", "debug"],
    ["-t", "all", "--url", "nowhere"],
    ["-t", "all", "--stat", "x"],
    ["-i", "-t", "all"],
    ["-t", "all", "--signal", "LOUD"],  # of cancel: an unknown flag, as all that follow
    ["-t", "all", "--signal", "0"],
    ["-t", "all", "--grace", "-1"],
    ["-t", "all", "--grace", "1.5"],
    ["-t", "all", "--grace", "86401"],
    [f"{ARRAY}:{index}" for index in range(5001)],
]


@pytest.mark.parametrize("command", ["cancel", "terminate"])
async def test_invalid_arguments_stop_nothing_and_are_reported_in_one_line(server, capsys, command):
    for words in INVALID:
        assert await ended(command, *words) == 2, words

        described = capsys.readouterr()
        assert described.out == ""
        assert described.err.startswith("batchq: ")
        assert described.err.count("\n") == 1
        assert server.requests == []


async def test_the_maximum_number_of_ids_is_sent(server):
    assert await batchq("cancel", ",".join(f"{ARRAY}:{index}" for index in range(5000, 10_000))) == 0

    assert len(json.dumps(server.requests[0][1])) < BODY_LIMIT


HABITS = [
    "-n",
    "-u",
    "-A",
    "-q",
    "-t",
    "-w",
    "--state",
    "--signal",
    "--grace",
    "--reason",
    "-o",
    "json",
    "-Q",
    "--dry-run",
]
MORE = ["all", "-C", "--config", "--", "-", "", ",", ARRAY, f"{GANG}#0", "\0", "\udcff", "-h", "--help=", "%s", "{0}"]
WORDS = st.sampled_from([*HABITS, *MORE]) | st.text(max_size=8)


@given(st.sampled_from(["cancel", "terminate"]), st.lists(WORDS, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_arguments_end_with_a_documented_exit_status(monkeypatch, command, words):
    monkeypatch.setenv("BATCHQ_URL", NOWHERE)
    monkeypatch.setattr(sys, "stdin", StringIO("sim\n"))

    try:
        status = main([command, *words])
    except SystemExit as ended:
        status = ended.code

    assert status in {0, 2, 3}


@pytest.mark.parametrize(
    ("handles", "ids"),
    [
        (["sim", "3f2c9a1b"], [ARRAY]),
        (["@"], [ARRAY]),
        (["sim:190-192,3f2c9a1b.sidecar"], [f"{ARRAY}:190", f"{ARRAY}:191", f"{ARRAY}:192", f"{ARRAY}.sidecar"]),
        ([f"{ARRAY}_3.sidecar", "sim#1", "sim.0"], [f"{ARRAY}:3.sidecar", f"{ARRAY}#1", f"{ARRAY}.0"]),
    ],
)
@pytest.mark.parametrize("command", ["cancel", "terminate", "ccancel"])
async def test_handles_of_jobs_are_sent_as_complete_ids(native, command, handles, ids):
    native.rows = [row("sim", jobId=ARRAY)]

    await ended(command, *handles)

    stops = [
        content for _, path, content in native.requests if path in ("/v1/batchq/canceljobs", "/v1/batchq/terminatejobs")
    ]
    assert [stop["jobs"] for stop in stops] == [ids]


LISTED = f"{ARRAY}:1\n{GANG}\n"


@pytest.mark.parametrize(
    ("command", "stdin", "requests"),
    [
        ("cancel", LISTED, [[f"{ARRAY}:1", GANG]]),
        ("terminate", LISTED, [[f"{ARRAY}:1", GANG]]),
        ("cancel", "", []),
        ("terminate", "", []),
        ("ccancel", "", []),
    ],
)
async def test_the_jobs_of_stdin_are_stopped_and_an_empty_stdin_stops_nothing(
    server, monkeypatch, command, stdin, requests
):
    monkeypatch.setattr(sys, "stdin", StringIO(stdin))

    assert await ended(command, "-", "-t", "pending") == 0

    assert [content["jobs"] for _, content in server.requests] == requests


@pytest.mark.parametrize(("rows", "status"), [([], 1), ([row("sim"), row("sim", jobId=ARRAY)], 2)])
async def test_a_name_of_no_job_or_of_several_stops_nothing(native, rows, status):
    native.rows = rows

    assert await ended("terminate", GANG, "sim") == status

    assert [path for _, path, _ in native.requests] == ["/v1/batchq/listjobs", "/v1/batchq/listgroups"]
