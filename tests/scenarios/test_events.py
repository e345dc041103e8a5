"""A reader of the events gets every status change once, in order, also when the server is killed meanwhile."""

from batchq.domain.access.accounts import Caller
from batchq.domain.enums import Status
from batchq.ports.history import FeedFilter
from tests.support.scripts import LASTING, Script

ALL = FeedFilter()
EVE = Caller(user="eve", account="lab", lineage=("lab", "root"))


class Reader:
    """Follows the events from the beginning, across servers."""

    def __init__(self, world):
        self.world = world
        self.entries = []
        self.after = 0

    async def read(self, *, wait=0.0, wanted=ALL):
        page = await self.world.server.events.page(self.after, wanted, limit=3, wait=wait, caller=self.world.caller)
        assert not page.gap
        self.entries += page.entries
        self.after = page.next
        return page.entries

    async def read_all(self):
        while await self.read():
            pass

    async def read_until(self, job, status):
        while not any(entry.entry.job_id == job and entry.entry.status is status for entry in self.entries):
            await self.read(wait=20.0)

    def statuses(self, job):
        return [str(entry.entry.status) for entry in self.entries if entry.entry.job_id == job]


async def test_a_reader_is_sent_every_status_of_a_job_as_it_changes(world):
    reader = Reader(world)
    job = await world.submit(Script(seconds=1), name="Align")

    await reader.read_until(job, Status.SUCCEEDED)

    assert reader.statuses(job) == ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"]
    assert {(entry.job_name, entry.queue, entry.owner) for entry in reader.entries} == {
        ("Align", "default", world.caller.owner)
    }
    assert [entry.number for entry in reader.entries] == list(range(1, 6))


async def test_a_reader_across_kills_gets_every_number_once_and_in_order(world):
    reader = Reader(world)
    jobs = []
    for _ in range(3):
        jobs += await world.submit_many(5, Script(seconds=0.5, exit_code=1), attempts=2)
        await reader.read(wait=1.0)
        await world.restart()
    for job in jobs:
        await world.wait_for(job, Status.FAILED)

    await reader.read_all()

    assert [entry.number for entry in reader.entries] == list(range(1, len(reader.entries) + 1))
    for job in jobs:
        assert reader.statuses(job) == await world.statuses(job)


async def test_a_commit_whose_reply_was_lost_is_read_after_the_restart(world):
    reader = Reader(world)
    await world.crash_in_commit(world.submit(Script(seconds=0), name="lost"))
    await world.boot()

    while not any(entry.entry.status is Status.SUCCEEDED for entry in reader.entries):
        await reader.read(wait=20.0)

    assert [str(entry.entry.status) for entry in reader.entries] == [
        "SUBMITTED", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"
    ]  # fmt: skip
    assert {entry.job_name for entry in reader.entries} == {"lost"}


async def test_others_get_no_events_of_the_job(world):
    await world.run()

    page = await world.server.events.page(0, ALL, limit=100, wait=0, caller=EVE)

    assert page.entries == ()
    assert page.next > 0


async def test_filters_select_jobs_and_statuses(world):
    first, second = await world.submit(LASTING), await world.submit(LASTING)
    for job in (first, second):
        await world.wait_for(job, Status.RUNNING)

    wanted = FeedFilter(jobs=frozenset({second}), statuses=frozenset({Status.RUNNING}))
    page = await world.server.events.page(0, wanted, limit=100, wait=0, caller=world.caller)

    assert [(entry.entry.job_id, entry.entry.status) for entry in page.entries] == [(second, Status.RUNNING)]
