"""The read and the commit of a bulk stop do not read jobs that the caller may not see."""

import asyncio

import pytest

from batchq.domain.access.accounts import Visibility
from batchq.domain.bulk_stop import BulkStopOrder, JobFilter, Kind
from batchq.domain.job import Status
from batchq.engine.mailbox import BulkStopRequest
from batchq.store.sqlite_store import SqliteStore
from tests.engine.desk import Desk
from tests.engine.turns import ground
from tests.store.many import filled
from tests.store.test_many_jobs import EACH, Counter
from tests.support.builders import ADMIN, job

PATTERNS = frozenset(f"no-such-{number}*" for number in range(100))
REACHES = [Visibility(user="ann"), Visibility(user="cora", accounts=frozenset({"lab", "team"}))]


async def costs(data, count):
    """The steps of SQLite in the read and in the commit of each order, while so many jobs of others wait."""
    filled(data, count, job(number=0, status=Status.RUNNABLE))
    store = await SqliteStore.open(data)
    desk, costs = Desk(store, ground()), []
    await desk.loop.load()
    for visibility in REACHES:
        selection = JobFilter(names=PATTERNS, statuses=frozenset({Status.RUNNABLE}), visibility=visibility)
        for connection in (store._database._browser, store._database._writer):
            await connection.set_progress_handler(counter := Counter(), EACH)
            costs.append(counter)
        answer = asyncio.get_running_loop().create_future()
        order = BulkStopOrder(kind=Kind.CANCEL, reason="all")
        await desk.process(
            BulkStopRequest(
                order=order,
                selection=selection,
                as_of=count,
                report=lambda _: None,
                candidates=await desk.loop.candidate_reader.candidates(selection),
                answer=answer,
                caller=ADMIN,
            )
        )
        await answer
    await store.close()
    return [it.steps for it in costs]


@pytest.mark.fault("SE25")
async def test_the_cost_of_a_bulk_stop_does_not_grow_with_jobs_of_others(tmp_path):
    few = await costs(tmp_path / "few", 10)

    many = await costs(tmp_path / "many", 5_000)

    assert [cost for cost, before in zip(many, few, strict=True) if cost > before + 3] == []
