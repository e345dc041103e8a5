"""Fixtures of the log service on fakes: an engine with output, an archive and a store in memory, virtual time."""

import pytest

from batchq.domain.enums import Status
from batchq.domain.ids import JobId, Tag
from batchq.logs.service import CloudWatchLogs
from batchq.ports.jobs import Changes
from tests.logs.fakes import Engine, StillClock
from tests.support.builders import attempt, job, log_stream
from tests.support.clock import pytest_asyncio_loop_factories  # noqa: F401 - a hook
from tests.support.inline import InlineLogFiles, InlineStore
from tests.support.stubs import UNLIMITED

TAG = Tag(job_id=JobId("a-job"), attempt=1)


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def clock():
    return StillClock()


@pytest.fixture
def archive():
    return InlineLogFiles()


@pytest.fixture
def store(request):
    return getattr(request, "param", None) or InlineStore()


@pytest.fixture
async def logs(store, archive, engine, clock):
    logs = CloudWatchLogs(store=store, archive=archive, runtime=engine, clock=clock, quota=UNLIMITED)
    yield logs
    await logs.close()


@pytest.fixture
def running(store):
    """Makes a running job with a stream, and answers the stream."""

    async def make(**changes):
        of = job(status=Status.RUNNING)
        stream = log_stream(of, **changes)
        await store.commit(Changes(inserted=(of,), streams=(stream,)))
        return stream

    return make


@pytest.fixture
def ended(store):
    """Makes a job that has ended `ago` with a stream, and answers the stream."""

    async def make(attempt_ended_at, **changes):
        of = job(status=Status.RUNNING)
        stream = log_stream(of, **changes)
        over = job(
            id=of.id, sequence=of.sequence, status=Status.SUCCEEDED, attempts=(attempt(stopped_at=attempt_ended_at),)
        )
        await store.commit(Changes(inserted=(over,), streams=(stream,)))
        return stream

    return make
