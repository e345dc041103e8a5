"""A disk that is full, fails or is slow, under a real server: what was answered is on it, and nothing else is.

By strace at the very call, on a process that runs; and on a file system that is really full.
"""

import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from botocore.exceptions import ClientError

from tests.faults.disk import SCRIPTS, check_kept, names_kept, register, submit
from tests.service.waiting import reaches
from tests.support.service import serving
from tests.support.tracing import injected

pytestmark = pytest.mark.strace

SIMULATED = ("--runtime", "simulated")
REFUSED = (500, "ServerException")
SWEPT = range(1, 9)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("disk") / "data", *SIMULATED) as service:
        register(service.client())
        yield service


@pytest.fixture
def batch(service):
    """A client that does not try again."""
    return service.client(tries=1)


def tried(batch, names, definition="good"):
    """How each submission was answered: by a job's id, or by the status and the code of a refusal."""
    return {name: _tried(batch, name, definition) for name in names}


def _tried(batch, name, definition):
    try:
        return submit(batch, name, definition)
    except ClientError as refused:
        return refused.response["ResponseMetadata"]["HTTPStatusCode"], refused.response["Error"]["Code"]


def acknowledged(answers):
    return {name for name, value in answers.items() if isinstance(value, str)}


def all_over(batch, answers):
    return {name: reaches(batch, answers[name], "SUCCEEDED", "FAILED") for name in acknowledged(answers)}


def each_ran_once(jobs):
    return {(job["status"], len(job["attempts"])) for job in jobs.values()} <= {("SUCCEEDED", 1)}


def kept(data, answers):
    """The submitted jobs that are on disk."""
    return {name: count for name, count in names_kept(data).items() if name in answers}


def ends_unseen(batch, job_id):
    """Wait until a slow job has long ended; its description meanwhile."""
    time.sleep(SCRIPTS["slow"]["seconds"] + 1)
    (job,) = batch.describe_jobs(jobs=[job_id])["jobs"]
    return job["status"]


def at_once(batch, names):
    with ThreadPoolExecutor(len(names)) as threads:
        return {
            name: value
            for each in threads.map(lambda name: tried(batch, [name]), names)
            for name, value in each.items()
        }


# ------------------------------------------------------------------------------------------------------------- full


@pytest.mark.fault("DB03", "DB04")
@pytest.mark.parametrize("error", ["enospc", "erofs"])
def test_while_writes_fail_changes_are_refused_and_ends_are_saved_later(service, batch, error):
    running = submit(batch, "running", "slow")
    reaches(batch, running, "RUNNING")

    with injected(service.process.pid, f"pwrite64:error={error.upper()}"):
        refused = tried(batch, [f"{error}-1", f"{error}-2"])
        with pytest.raises(ClientError, match="ServerException"):
            batch.terminate_job(jobId=running, reason="cannot be stored")
        meanwhile = ends_unseen(batch, running)
        health = service.health()
    ended = reaches(batch, running, "SUCCEEDED", "FAILED")
    again = tried(batch, [f"{error}-1"])

    assert set(refused.values()) == {REFUSED}
    assert meanwhile == "RUNNING"
    assert health["status"] == "degraded"
    assert health["store"] != "ok"
    assert (ended["status"], len(ended["attempts"])) == ("SUCCEEDED", 1)
    assert each_ran_once(all_over(batch, again))
    assert kept(service.data, refused) == {f"{error}-1": 1}


# ------------------------------------------------------------------------------------------------------------ fails


@pytest.mark.fault("DB05")
@pytest.mark.parametrize("number", SWEPT)
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
def test_at_any_failing_call_the_answers_agree_with_the_disk(service, batch, call, number):
    names = [f"{call}-{number}-{index}" for index in range(4)]

    with injected(service.process.pid, f"{call}:error=EIO:when={number}"):
        answers = tried(batch, names)
        jobs = all_over(batch, answers)

    assert kept(service.data, answers) == dict.fromkeys(acknowledged(answers), 1)
    assert {answer for answer in answers.values() if not isinstance(answer, str)} <= {REFUSED}
    assert each_ran_once(jobs)
    check_kept(service.data)


@pytest.mark.fault("DB05")
def test_health_reports_a_disk_failure_for_a_limited_time(service, batch):
    with injected(service.process.pid, "fdatasync:error=EIO"):
        answers = tried(batch, ["ill"])
        ill = service.health()
    well = tried(batch, ["well"])
    all_over(batch, well)

    assert answers == {"ill": REFUSED}
    assert (ill["status"], ill["store"]) == ("degraded", "disk I/O error")
    assert service.health()["status"] == "ok"


# ------------------------------------------------------------------------------------------------------------- slow


@pytest.mark.fault("DB06")
def test_a_slow_disk_only_makes_the_server_slow(service, batch):
    names = [f"slowly-{index}" for index in range(8)]

    with injected(service.process.pid, "fdatasync:delay_enter=600000"):
        answers = at_once(batch, names)
        jobs = all_over(batch, answers)
        health = service.health()

    assert acknowledged(answers) == set(names)
    assert each_ran_once(jobs)
    assert health["status"] == "ok"


@pytest.mark.fault("DB07")
def test_the_server_waits_a_limited_time_for_another_writer(service, batch):
    with closing(sqlite3.connect(service.data / "batchq.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        refused = tried(batch, ["locked-out"])
        took = time.monotonic() - began
        listed = batch.list_jobs(jobQueue="default", jobStatus="SUCCEEDED")["jobSummaryList"]
        other.execute("ROLLBACK")
    afterwards = tried(batch, ["let-in"])

    assert refused == {"locked-out": REFUSED}
    assert 4 < took < 45  # one or two such waits, on a machine that may be busy
    assert listed
    assert each_ran_once(all_over(batch, afterwards))
    assert kept(service.data, refused) == {}
