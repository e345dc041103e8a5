"""Handles of jobs: which requests resolve them, and which handles are refused."""

import asyncio

import pytest

from batchq.cli.job_handles import resolve_job, resolve_jobs
from batchq.errors import NotFound, UsageError
from tests.cli.servers import job_id, row

FIRST, SECOND = job_id("8f2c51a7"), job_id("8f2c51a7", 2)


async def resolved(native, *handles):
    return await asyncio.to_thread(resolve_jobs, native.url, handles)


@pytest.mark.parametrize("handle", ["8f2c51a7", "8f2c51a7-0000", "train"])
async def test_a_prefix_or_a_name_of_one_job_is_its_id(native, handle):
    native.rows = [row("train", jobId=FIRST), row("sim", jobId=job_id("77ab01c9"))]

    assert await resolved(native, handle) == [FIRST]
    assert await resolved(native, f"{handle}:12") == [f"{FIRST}:12"]


async def test_at_is_the_latest_job_of_the_caller(native):
    native.rows = [row(jobId=SECOND), row(jobId=FIRST)]

    assert await resolved(native, "@") == [SECOND]

    assert native.listed == [{"mine": True, "maxResults": 1}]


@pytest.mark.parametrize("handle", ["8f2c51a7", "train"])
async def test_the_jobs_of_an_ambiguous_handle_are_listed(native, handle):
    native.rows = [row(jobId=FIRST), row(status="RUNNABLE", jobId=SECOND)]

    with pytest.raises(UsageError) as refused:
        await resolved(native, handle)

    listed = f"{FIRST} (train, RUNNING), {SECOND} (train, RUNNABLE)"
    assert str(refused.value) == f"'{handle}' is ambiguous: {listed}; give a complete id"


async def test_a_name_is_that_of_the_only_unfinished_job(native):
    native.rows = [row(status="FAILED", jobId=FIRST), row(jobId=SECOND)]

    assert await resolved(native, "train") == [SECOND]


async def test_a_name_of_eight_hexadecimal_digits_is_found(native):
    native.rows = [row("deadbeef", jobId=FIRST)]

    assert await resolved(native, "deadbeef") == [FIRST]


async def test_a_range_is_not_one_job(native):
    with pytest.raises(UsageError, match="selects 2 jobs"):
        await asyncio.to_thread(resolve_job, native.url, f"{FIRST}:0-1")


@pytest.mark.parametrize(
    ("handle", "error"),
    [
        ("@", "you have no job that @ could stand for"),
        ("train", "no job or group has the name 'train', or an id that begins so"),
    ],
)
async def test_a_handle_of_no_job_is_not_found(native, handle, error):
    with pytest.raises(NotFound, match=error):
        await resolved(native, handle)
