"""`batchq wait`: which ends it waits for, and the exit status of each."""

import json

import pytest
from aiohttp import web

from tests.cli.responses import stop_order
from tests.cli.servers import batchq, ended, job_id, row

JOB, OTHER = job_id("8f2c51a7"), job_id("77ab01c9")
TIMED_OUT, NO_EXIT_CODE = 124, 125


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (row(status="SUCCEEDED", exitCode=0), 0),
        (row(status="FAILED", exitCode=42), 42),
        (row(status="FAILED", exitCode=137, statusReason="Job attempt duration exceeded timeout"), TIMED_OUT),
        (row(status="FAILED", exitCode=143, stopOrder=stop_order()), NO_EXIT_CODE),
        (row(status="FAILED", exitCode=3, stopOrder=stop_order("CANCEL")), 3),
        (row(status="FAILED", statusReason="Dependent Job failed"), NO_EXIT_CODE),
        (row(status="FAILED", arraySize=3, exitCode=1), 1),
        (row(status="SUCCEEDED", arraySize=3), 0),
    ],
)
async def test_the_status_for_one_job_is_its_exit_code(native, end, status):
    native.rows = [end]

    assert await batchq("wait", JOB) == status


async def test_an_unfinished_job_is_read_again_until_it_ends(native, capsys):
    native.rows = [row()]
    respond = native._page

    def end_later(content):
        if len(native.listed) == 3:
            native.rows = [row(status="FAILED", exitCode=5, startedAt=1_795_000_000_000, stoppedAt=1_795_000_012_000)]
        return respond(content)

    native._page = end_later

    assert await batchq("wait", JOB) == 5

    assert capsys.readouterr().err == "batchq: train FAILED after 12 s: exit code 5\n"


@pytest.mark.parametrize(
    ("use", "printed"),
    [
        ({"cpuSeconds": 17.0, "peakMemoryBytes": 812 * 2**20}, "; 1.7 of 2 vCPUs; peak 812 of 512 MiB"),
        ({"cpuSeconds": 0.4}, "; 0.04 of 2 vCPUs"),
        ({"peakMemoryBytes": 3 * 2**19}, "; peak 1.5 of 512 MiB"),
        ({}, ""),
    ],
)
async def test_the_end_shows_what_was_measured(native, capsys, use, printed):
    times = {"startedAt": 1_795_000_000_000, "stoppedAt": 1_795_000_012_000}
    native.rows = [row(status="SUCCEEDED", use={"sampledAt": 1_795_000_010_000, **use}, **times)]

    assert await batchq("wait", JOB) == 0

    assert capsys.readouterr().err == f"batchq: train SUCCEEDED after 12 s{printed}\n"


@pytest.mark.parametrize(
    ("array", "printed"),
    [
        (
            row("sweep", "FAILED", arraySize=9, statusSummary={"SUCCEEDED": 6, "FAILED": 3, "RUNNING": 0}),
            "sweep FAILED; children: 6 SUCCEEDED, 3 FAILED",
        ),
        (
            row("sweep", "FAILED", arraySize=9, statusReason="enough", statusSummary={"SUCCEEDED": 2, "FAILED": 3}),
            "sweep FAILED: enough; children: 2 SUCCEEDED, 3 FAILED, 4 not created",
        ),
        (
            row("sweep", "FAILED", arraySize=9, statusReason="Dependent Job failed"),
            "sweep FAILED: Dependent Job failed",
        ),
    ],
)
async def test_the_end_of_an_array_counts_its_children(native, capsys, array, printed):
    native.rows = [array]

    await batchq("wait", JOB)

    assert capsys.readouterr().err == f"batchq: {printed}\n"


async def test_the_summary_of_several_jobs_counts_the_children_of_arrays(native, capsys):
    counts = {"SUCCEEDED": 6, "FAILED": 0, "RUNNING": 2, "RUNNABLE": 1}
    native.rows = [
        row("a", "PENDING", arraySize=9, statusSummary=counts),
        row("b", "SUCCEEDED", jobId=OTHER, arraySize=2, statusSummary={"SUCCEEDED": 2}),
    ]

    await batchq("wait", JOB, OTHER, "--timeout", "0s")

    assert capsys.readouterr().err.splitlines()[0] == (
        "batchq: 1 SUCCEEDED, 0 FAILED, 1 unfinished; children: 8 SUCCEEDED, 1 RUNNABLE, 2 RUNNING"
    )


def cost(total):
    return {"currency": "EUR", "total": total, "gpu": 0, "compute": total, "storage": 0, "estimatedSavings": None}


async def test_the_costs_of_several_jobs_are_printed_with_each_failure_and_as_a_sum(native, capsys):
    native.rows = [row("a", "SUCCEEDED"), row("b", "FAILED", jobId=OTHER, exitCode=1)]
    for job, total in ((JOB, 0.25), (OTHER, 1.5)):
        native.responses[f"/v1/batchq/jobs/{job}/cost"] = {"jobId": job, "cost": cost(total)}

    await batchq("wait", JOB, OTHER)

    assert capsys.readouterr().err.splitlines() == [
        "batchq: b FAILED; 1.50 EUR: exit code 1",
        "batchq: 1 SUCCEEDED, 1 FAILED; 1.75 EUR",
    ]


@pytest.mark.parametrize(
    ("states", "flags", "status"),
    [
        (["SUCCEEDED", "SUCCEEDED"], [], 0),
        (["SUCCEEDED", "FAILED"], [], 1),
        (["SUCCEEDED", "RUNNING"], ["--any"], 0),
        (["FAILED", "RUNNING"], ["--any"], 1),
        (["FAILED", "RUNNING"], ["--fail-fast"], 1),
        (["SUCCEEDED", "RUNNING"], ["--timeout", "0s"], TIMED_OUT),
        (["RUNNING", "RUNNING"], ["--fail-fast", "--timeout", "0.1s"], TIMED_OUT),
    ],
)
async def test_the_status_for_several_jobs(native, states, flags, status):
    native.rows = [row(status=other_status, jobId=job) for other_status, job in zip(states, [JOB, OTHER], strict=True)]

    assert await batchq("wait", JOB, OTHER, *flags) == status


async def test_with_filters_the_unfinished_jobs_are_waited_for(native, capsys):
    assert await batchq("wait", "-n", "al-*") == 0

    assert native.listed[0] | {"maxResults": 0} == {
        "jobNames": ["al-*"],
        "mine": True,
        "jobStatuses": ["SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"],
        "maxResults": 0,
    }
    assert capsys.readouterr().err == "batchq: no job matches\n"


async def test_a_job_that_does_not_exist_is_refused_with_the_servers_reason(native, capsys):
    def missing(_):
        raise web.HTTPNotFound(text=json.dumps({"message": f"Job {JOB} not found."}))

    native.responses[f"/v1/batchq/jobs/{JOB}"] = missing

    assert await batchq("wait", JOB) == 1

    assert capsys.readouterr().err == f"batchq: Job {JOB} not found.\n"


async def test_nothing_is_waited_for_without_a_selection(native):
    assert await ended("wait") == 2

    assert native.requests == []
