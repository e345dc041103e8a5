"""An acknowledged commit is durable, whatever happens to the process."""

import os
import re
import signal
import subprocess
import sys

import pytest

from batchq.ports.job_search import PageQuery
from batchq.store.sqlite_store import SqliteStore
from tests.house.rooms import ROOT

pytestmark = pytest.mark.process

ROUNDS = 3
ACKED_BEFORE_THE_KILL = 40


def started(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def acked_until_killed(data):
    """The orders of the jobs whose commits a writer had acknowledged before it was killed."""
    writer = started("tests.store.writer", data)
    lines = [writer.stdout.readline() for _ in range(ACKED_BEFORE_THE_KILL)]
    os.kill(writer.pid, signal.SIGKILL)
    lines += writer.stdout.read().splitlines(keepends=True)
    writer.stdout.close()
    assert writer.wait() == -signal.SIGKILL
    return [int(line) for line in lines if re.fullmatch(r"\d+\n", line)]


async def test_a_writer_killed_repeatedly_loses_no_acknowledged_commit(tmp_path):
    acked = [order for _ in range(ROUNDS) for order in acked_until_killed(tmp_path)]

    store = await SqliteStore.open(tmp_path)
    jobs = (await store.list(PageQuery(limit=10**6))).jobs
    histories = [await store.history(job.id) for job in jobs]
    await store.close()

    kept = [job.sequence for job in reversed(jobs)]
    assert len(acked) >= ROUNDS * ACKED_BEFORE_THE_KILL
    assert set(acked) <= set(kept)
    assert kept == list(range(len(kept)))
    assert {len(history) for history in histories} == {1}


@pytest.mark.fault("DB05", "DB18")
def test_a_commit_is_acknowledged_only_when_it_is_durable(tmp_path):
    """Every fsync fails with an input/output error: a commit that calls none would succeed."""
    process = started("tests.store.failing_fsync", tmp_path)

    lines = process.stdout.read().splitlines()
    process.stdout.close()

    assert process.wait() == 0
    assert lines == ["saved", "StoreFailed: disk I/O error", "kept: [0]"]
