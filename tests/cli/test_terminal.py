"""Commands in a pseudo-terminal: tables of its width, colours, questions, and completion in bash."""

import os
import sys

import pytest

from batchq.domain.enums import Status
from tests.cli.responses import explanation
from tests.cli.servers import job, job_id, row
from tests.cli.terminal_session import on_terminal, session

pytestmark = pytest.mark.process

WHY = explanation("Next in queue default: needs 4 vCPUs, 1.5 of 8 are free. 3 jobs hold the rest of them.")
ROWS = [
    row("train", "RUNNABLE", why=WHY),
    row("a-long-name-of-a-job-that-has-failed-already", "FAILED", jobId=job_id("77ab01c9"), exitCode=2, stoppedAt=0),
]


async def batchq(*words, steps=(), **how):
    return await on_terminal(*words, steps=steps, **how)


@pytest.mark.parametrize("columns", [80, 200])
async def test_a_list_fits_into_the_terminal(native, columns):
    native.rows = ROWS

    shown = await batchq("list", "-a", columns=columns)

    titles, first, second, *rest = shown["screen"]
    assert titles.split() == ["JOB", "NAME", "STATE", "QUEUE", "OWNER", "TIME", "WHY"]
    assert first.startswith("8f2c51a7  train")
    assert first.endswith("…") == (columns == 80)
    assert (WHY["sentence"] in first) == (columns == 200)
    assert "d ago" not in first
    assert " ago " in second
    assert not any(rest)
    assert shown["status"] == 0
    assert {"red", "brown"} <= set(shown["colors"])


async def test_held_and_stopping_jobs_have_their_state_in_words(native):
    stop = {"kind": "TERMINATE", "at": 0, "reason": "enough"}
    pause = {**stop, "kind": "PAUSE", "finalCheckpointRequested": True}
    held = {"reason": "not yet", "heldAt": 0}
    native.rows = [
        row("a", "RUNNABLE", jobId=job_id("a"), hold=held),
        row("b", "RUNNABLE", jobId=job_id("b"), hold={**held, "paused": True}),
        row("c", "RUNNING", jobId=job_id("c"), stopOrder=pause, hold={**held, "paused": True}),
        row(
            "d",
            "RUNNING",
            jobId=job_id("d"),
            stopOrder={**pause, "finalCheckpoint": "epoch-2"},
            hold={**held, "paused": True},
        ),
        row("e", "RUNNING", jobId=job_id("e"), stopOrder={**stop, "killedAt": 1}),
        row("f", "RUNNING", jobId=job_id("f"), stopOrder={**stop, "kind": "CANCEL"}),
    ]

    shown = await batchq("list", "-a", columns=200)

    states = [" ".join(line.split()[2:4]) for line in shown["screen"][1:7]]
    assert states == [
        "RUNNING checkpoint",
        "RUNNING pausing",
        "RUNNING killed",
        "RUNNING default",
        "RUNNABLE held",
        "RUNNABLE paused",
    ]


async def test_checkpoints_are_a_table_with_readable_sizes(native):
    native.rows = ROWS
    made = {"type": "final", "sizeBytes": 1_610_612_736, "createdAt": 0, "epoch": 2, "complete": True}
    native.responses[f"/v1/batchq/jobs/{job_id('8f2c51a7')}/checkpoints"] = {
        "jobId": job_id("8f2c51a7"),
        "checkpoints": [made | {"id": "ckpt_8a1f02bb93c4", "name": "epoch-2"}],
        "totalSizeBytes": 1_610_612_736,
    }

    shown = await batchq("checkpoints", "8f2c51a7", columns=100)

    titles, only = shown["screen"][:2]
    assert titles.split() == ["ID", "NAME", "TYPE", "SIZE", "EPOCH", "STEP", "MADE"]
    assert only.split()[:6] == ["ckpt_8a1f02bb93c4", "epoch-2", "final", "1.5", "GiB", "2"]


async def test_a_watched_list_is_printed_again_until_ctrl_c(native):
    native.rows = ROWS

    shown = await batchq("list", "-a", "--watch", steps=[("train", ""), ("train", "\x03")])

    assert shown["status"] == 130
    assert shown["screen"][1].startswith("8f2c51a7  train")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
async def test_a_terminal_without_colours_gets_none(native, environment):
    native.rows = ROWS

    shown = await batchq("list", "-a", **environment)

    assert shown["screen"][1].startswith("8f2c51a7  train")
    assert shown["colors"] == ["default"]


async def test_the_output_of_a_job_does_not_drive_the_terminal(native):
    native.rows = [row()]
    lines = [{"at": 0, "message": text} for text in ("one", "\x1b[2J\x1b[1;1Hforged", "\x1b[32mgreen\x1b[0m")]
    native.responses[f"/v1/batchq/jobs/{job_id('8f2c51a7')}/log"] = {"lines": lines, "next": "3", "over": True}

    shown = await batchq("logs", "train")

    assert shown["screen"][:3] == ["one", r"\x1b[2J\x1b[1;1Hforged", "green"]
    assert "green" in shown["colors"]


async def test_the_progress_of_an_array_counts_its_children(native):
    counts = {"SUCCEEDED": 110, "FAILED": 2, "RUNNING": 7, "STARTING": 1, "RUNNABLE": 20}
    native.rows = [row("sweep", "PENDING", arraySize=200, statusSummary=counts)]

    shown = await batchq(
        "wait", "sweep", steps=[("sweep [########x>......] 112/200: 110 succeeded, 2 failed, 8 running", "\x03")]
    )

    assert shown["status"] == 130


EFFECT = "21 would be stopped (SIGTERM, SIGKILL after the grace period, FAILED whatever the exit code, never retried)"
QUESTION = "batchq: terminate 21 jobs? [y/N] "


@pytest.fixture
def crowd(server):
    server.jobs = [job("STOPPING", jobId=job_id("8f2c51a7", number), status="RUNNING") for number in range(21)]
    return server


async def test_many_jobs_are_stopped_after_a_confirmation(crowd):
    shown = await batchq("terminate", "-t", "all", "-Q", steps=[(QUESTION, "y\n")])

    assert shown["status"] == 0
    assert f"batchq: {EFFECT}" in "".join(shown["screen"])
    (_, first), (_, second) = crowd.requests
    assert first == {"jobStatuses": [*Status], "dryRun": True}
    assert second == {
        "jobStatuses": [*Status],
        "dryRun": False,
        "jobs": [other_job["jobId"] for other_job in crowd.jobs],
    }


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"])
async def test_nothing_is_stopped_without_a_confirmation(crowd, answer):
    shown = await batchq("terminate", "-t", "all", steps=[(QUESTION, answer)])

    assert shown["status"] == 1
    assert "batchq: nothing is changed" in "\n".join(shown["screen"])
    assert [content["dryRun"] for _, content in crowd.requests] == [True]


async def test_jobs_are_stopped_at_once_with_the_flag(crowd):
    shown = await batchq("terminate", "-t", "all", "-y")

    assert shown["status"] == 0
    assert [content["dryRun"] for _, content in crowd.requests] == [False]


async def test_children_of_a_named_array_count_as_jobs(server):
    array = job_id("8f2c51a7")
    server.jobs = [job("STOPPING", jobId=array, status="PENDING", children=5000)]

    shown = await batchq("terminate", array, steps=[("terminate 1 job with 5,000 children? [y/N] ", "y\n")])

    assert shown["status"] == 0
    text = " ".join(" ".join(shown["screen"]).split())
    assert "batchq: 1 would be stopped with 5,000 children (SIGTERM" in text
    assert " 1 stopping with 5,000 children (SIGTERM" in text
    assert [content for _, content in server.requests] == [
        {"jobs": [array], "dryRun": True},
        {"jobs": [array], "dryRun": False},
    ]


async def test_up_to_20_jobs_are_stopped_without_a_question(crowd):
    crowd.jobs = crowd.jobs[:20]

    shown = await batchq("terminate", "-t", "all")

    assert shown["status"] == 0
    assert [content["dryRun"] for _, content in crowd.requests] == [True, False]


async def test_bash_completes_commands_and_values(native, tmp_path):
    native.rows = ROWS[:1]
    command = tmp_path / "batchq"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m batchq "$@"\n')
    command.chmod(0o700)
    steps = [
        ("ready> ", 'eval "$(batchq completion bash)"; echo prepared\n'),
        ("prepared\r\n", ""),
        ("ready> ", "batchq sho\t"),
        ("show ", "8f\t"),
        ("8f2c51a7 ", "--quer\t"),
        ("--query ", "\x15exit\n"),
    ]

    shown = await session("bash", "--norc", "-i", steps=steps, PATH=f"{tmp_path}:{os.environ['PATH']}", PS1="ready> ")

    assert shown["status"] == 0
