"""`batchq list`: its requests, and what it prints into a pipe and on a terminal."""

import asyncio
import json
import os
import sys
from datetime import datetime, timedelta
from io import StringIO

import pytest

from batchq.cli import quantities
from batchq.domain.times import milliseconds
from tests.cli.responses import AT, explanation, stop_order
from tests.cli.servers import batchq, ended, job_id, row

WAITING, ACTIVE = ["SUBMITTED", "PENDING", "RUNNABLE"], ["STARTING", "RUNNING"]
UNFINISHED = [*WAITING, *ACTIVE]
FIRST, SECOND = job_id("8f2c51a7"), job_id("77ab01c9")
WHY = explanation("Next in queue default: needs 4 vCPUs, 1.5 of 8 are free.")


def ms(**ago):
    return milliseconds(quantities.now() - timedelta(**ago))


async def test_without_filters_own_unfinished_and_recently_ended_jobs_are_listed(native, capsys):
    native.rows = [row("train", "RUNNABLE", why=WHY), row("sim", "FAILED", jobId=SECOND, stoppedAt=ms(minutes=3))]

    assert await batchq("list") == 0

    *unfinished, recent = native.listed
    assert [request.pop("jobStatuses") for request in unfinished] == [ACTIVE, WAITING]
    assert unfinished == [{"mine": True, "explain": True, "maxResults": 100}] * 2
    assert ms(minutes=61) < recent.pop("endedAfter") < ms(minutes=59)
    assert recent == {"mine": True, "explain": True, "jobStatuses": ["SUCCEEDED", "FAILED"], "maxResults": 100}
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[:5] for line in lines] == [
        [FIRST, "train", "RUNNABLE", "default", "ada"],
        [SECOND, "sim", "FAILED", "default", "ada"],
    ]
    assert lines[0][6] == WHY["sentence"]
    assert lines[1][5] == quantities.iso_text(quantities.local_time(native.rows[1]["stoppedAt"]))


async def test_running_jobs_are_first_and_a_limit_leaves_out_waiting_ones(native, capsys):
    native.rows = [row("waits", "RUNNABLE"), row("runs", "RUNNING", jobId=SECOND)]

    assert await batchq("list", "--limit", "1", "-o", "ids") == 0
    assert await batchq("list", "-a", "--columns", "name") == 0

    assert capsys.readouterr().out.splitlines() == [SECOND, "runs", "waits"]


@pytest.mark.parametrize(
    ("words", "content"),
    [
        (["-a"], {"mine": True}),
        (["-aU"], {}),
        (["-t", "pd"], {"mine": True, "jobStatuses": ["SUBMITTED", "PENDING", "RUNNABLE"]}),
        (["-t", "R,F", "-u", "bob"], {"users": ["bob"], "jobStatuses": ["STARTING", "RUNNING", "FAILED"]}),
        (
            ["-t", "all", "-A", "lab", "-q", "gpu,night"],
            {"accounts": ["lab"], "jobQueues": ["gpu", "night"], "jobStatuses": [*UNFINISHED, "SUCCEEDED", "FAILED"]},
        ),
        (["-a", "--me", "-u", "bob"], {"users": ["bob"], "mine": True}),
        (
            ["-a", "-n", "sim*", "--definition", "train:3"],
            {"mine": True, "jobNames": ["sim*"], "jobDefinitions": ["train:3"]},
        ),
        (["-a", "--exit-code", "3,137"], {"mine": True, "exitCodes": [3, 137]}),
        (["--since", "2026-11-22T00:00Z"], {"mine": True, "createdAfter": 1_795_305_600_000}),
        (
            ["-t", "failed", "--since", "2026-11-22T00:00Z", "--until", "2026-11-23T00:00Z"],
            {
                "mine": True,
                "jobStatuses": ["FAILED"],
                "endedAfter": 1_795_305_600_000,
                "endedBefore": 1_795_392_000_000,
            },
        ),
        (["-a", "--children"], {"mine": True, "children": True}),
        ([FIRST], {"jobs": [FIRST]}),
    ],
)
async def test_flags_become_members_of_one_request(native, words, content):
    assert await batchq("list", *words) == 0

    assert native.listed == [{"explain": True, "maxResults": 100} | content]


@pytest.mark.parametrize(
    "words",
    [
        ["-t", "done"],
        ["-n", ""],
        ["--since", "soon"],
        ["--since", "1h", "--until", "2h"],
        ["--limit", "0"],
        ["--group-by", "colour"],
        ["--reason", " "],
        ["--exit-code", "three"],
        ["--exit-code", "4294967296"],
        ["--columns", "job,colour"],
        ["--columns", "job", "-o", "json"],
        ["--columns", "job", "-o", "jsonl"],
        ["--columns", "job", "-o", "ids"],
        ["--columns", "job", "--query", "jobs"],
        ["--sort", "cpu", "-o", "json"],
        ["--sort", "cpu", "--query", "jobs"],
        ["a b"],
        ["--watch"],
        ["--query", "["],
    ],
)
async def test_invalid_arguments_are_reported_without_a_request(native, capsys, words):
    assert await ended("list", *words) == 2

    assert native.requests == []
    assert capsys.readouterr().err.count("\n") == 1


async def test_all_pages_are_read_up_to_the_limit(native, capsys):
    native.rows = [row(jobId=job_id("8f2c51a7", number)) for number in range(10)]
    native.page_size = 3

    assert await batchq("list", "-a", "--limit", "7", "-o", "ids") == 0

    printed = capsys.readouterr()
    assert printed.out.splitlines() == [other_row["jobId"] for other_row in native.rows[:7]]
    assert printed.err.startswith("batchq: more jobs may match, searched back to 2026-")
    assert [request["maxResults"] for request in native.listed] == [7, 4, 1]


async def test_no_match_is_a_remark_on_stderr(native, capsys):
    assert await batchq("list") == 0

    assert capsys.readouterr() == ("", "batchq: no job matches\n")


async def test_json_is_the_response_of_the_api(native, capsys):
    native.rows = [row()]

    assert await batchq("list", "-a", "-o", "json") == 0

    printed = capsys.readouterr().out
    assert json.loads(printed) == {"jobs": native.rows, "complete": True}


async def test_the_reason_is_compared_by_the_command(native, capsys):
    native.rows = [
        row(status="FAILED", statusReason="OutOfMemoryError: Container killed"),
        row(status="FAILED", jobId=SECOND, statusReason="too hot"),
    ]

    assert await batchq("list", "-t", "F", "--reason", "outofmemory", "-o", "ids") == 0

    assert capsys.readouterr().out.splitlines() == [FIRST]


async def test_each_printed_reason_selects_its_group(native, capsys):
    exited = "Essential container in task exited"
    native.rows = [
        row(status="FAILED", exitCode=1, statusReason=exited),
        row(status="FAILED", jobId=job_id("2"), exitCode=137, statusReason=exited),
        row(status="FAILED", jobId=job_id("3"), statusReason="too hot \x1b[2J"),
        row(status="RUNNABLE", jobId=job_id("4"), statusReason="HELD: not yet"),
        row(jobId=job_id("5"), stopOrder=stop_order(user="cora")),
    ]

    async def groups(*words):
        await batchq("list", "-a", "--group-by", "reason", *words)
        return [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]

    printed = await groups()

    assert len(printed) == len(native.rows)
    assert [await groups("--reason", reason) for reason in printed] == [[reason] for reason in printed]
    await batchq("list", "-a", "--reason", "EXIT CODE 1", "-o", "json")
    (found,) = json.loads(capsys.readouterr().out)["jobs"]
    assert found["exitCode"] == 1


async def test_a_reason_is_searched_beyond_the_printed_jobs(native, capsys):
    native.rows = [row(status="FAILED", jobId=job_id("8f2c51a7", at), statusReason=f"r{at}") for at in range(300)]

    assert await batchq("list", "-a", "--reason", "r29", "--reason", "r299", "--limit", "1", "-o", "ids") == 0

    shown = capsys.readouterr()
    assert (shown.out.split(), "more jobs may match" in shown.err) == ([job_id("8f2c51a7", 29)], True)


async def test_groups_have_the_number_of_jobs_in_each_state(native, capsys):
    states = ["RUNNING", "FAILED", "FAILED"]
    native.rows = [row("sim", state, jobId=job_id("2", at)) for at, state in enumerate(states)] + [row("train")]

    assert await batchq("list", "-a", "--group-by", "name", "-o", "csv") == 0

    assert capsys.readouterr().out.splitlines() == ["NAME,jobs,RUNNING,FAILED", "sim,3,1,2", "train,1,1,0"]


async def test_groups_are_printed_as_json(native, capsys):
    native.rows = [row("sim", "FAILED")]

    assert await batchq("list", "-a", "--group-by", "name", "-o", "json") == 0

    assert json.loads(capsys.readouterr().out) == {"groups": [{"group": "sim", "jobs": 1, "FAILED": 1}]}


async def test_the_limit_is_that_of_both_searches_together(native, capsys):
    native.rows = [row(jobId=FIRST), row(status="FAILED", jobId=SECOND, stoppedAt=ms(minutes=3))]

    assert await batchq("list", "--limit", "1", "-o", "ids") == 0

    shown = capsys.readouterr()
    assert shown.out.splitlines() == [FIRST]
    assert "more jobs may match" in shown.err


async def test_a_job_that_ends_between_the_two_searches_is_listed_once(native, capsys):
    native.rows = [row(jobId=FIRST), row(status="FAILED", jobId=FIRST, stoppedAt=ms(seconds=0))]

    assert await batchq("list") == 0

    assert [line.split("\t")[:3] for line in capsys.readouterr().out.splitlines()] == [[FIRST, "train", "FAILED"]]


@pytest.mark.parametrize("command", ["list", "wait", "logs", "events", "rerun", "hold"])
async def test_an_empty_stdin_selects_no_job(native, capsys, monkeypatch, command):
    monkeypatch.setattr(sys, "stdin", StringIO(""))

    assert await batchq(command, "-") == 0

    assert (native.requests, capsys.readouterr().out) == ([], "")


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (row(why=WHY, statusReason="x"), WHY["sentence"]),
        (
            row(status="FAILED", exitCode=2, statusReason="Essential container in task exited"),
            "exit code 2: Essential container in task exited",
        ),
        (row(status="SUCCEEDED", exitCode=0, statusReason="Essential container in task exited"), ""),
        (
            row(stopOrder=stop_order("CANCEL", user="cora")),
            "will not be retried: cancelled by cora at ORDERED, 'too hot'",
        ),
        (row(stopOrder=stop_order(reason="")), "stopping: terminated at ORDERED"),
    ],
)
async def test_the_last_column_says_why(native, capsys, job, why):
    native.rows = [job]

    await batchq("list", "-a")

    ordered = datetime.fromtimestamp(AT / 1000).astimezone()
    assert capsys.readouterr().out.rstrip("\n").split("\t")[6] == why.replace("ORDERED", f"{ordered:%H:%M}")


async def test_the_columns_are_those_of_the_flag_or_of_the_config_file(native, capsys, tmp_path):
    native.rows = [row(exitCode=3)]
    config = tmp_path / "config.toml"
    config.write_text('[defaults]\ncolumns = "name,job"\n')

    assert await batchq("list", "-a", "--columns", "exit,owner,Name", "-o", "csv") == 0
    assert await batchq("list", "-a", "-C", str(config)) == 0

    assert capsys.readouterr().out.splitlines() == ["EXIT,OWNER,NAME", "3,ada,train", f"train\t{FIRST}"]


@pytest.mark.process
async def test_a_reader_that_leaves_ends_the_output_without_an_error(native):
    native.rows = [row(jobId=job_id("8f2c51a7", number)) for number in range(3000)]

    shell = f"{sys.executable} -m batchq list -a --limit 3000 | head -1; echo ${{PIPESTATUS[0]}}"
    piped = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec("bash", "-c", shell, env=os.environ, stdout=piped, stderr=piped)
    out, err = await running.communicate()

    assert err == b""
    assert out.splitlines()[0].startswith(native.rows[0]["jobId"].encode())


@pytest.mark.process
async def test_text_that_the_encoding_of_stdout_does_not_have_is_escaped(native):
    native.rows = [row(status="RUNNABLE", statusReason="\ud800 \N{SNOWMAN} é")]

    command = [sys.executable, "-m", "batchq", "list", "-a"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    running = await asyncio.create_subprocess_exec(*command, env=environment, stdout=asyncio.subprocess.PIPE)
    out, _ = await running.communicate()

    assert running.returncode == 0
    assert out.rstrip().endswith(b"\\ud800 \\u2603 \xe9")
