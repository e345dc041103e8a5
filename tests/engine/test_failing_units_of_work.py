"""Random requests and events, and a store that fails, conflicts and is reloaded: memory always equals the store.

Each unit of work changes arrays, shares, consumable resources, bulk stops and the numbers of queued jobs in memory and
in the store. A seed chooses the requests of a run. Both are compared after each unit of work; at the end of the run,
when nothing fails any more, every job must end.
"""

import asyncio
from asyncio import Future
from collections import Counter
from datetime import timedelta
from random import Random

import pytest

from batchq.domain import events as on
from batchq.domain.access.accounts import Account, AccountLimits, Directory, Owner, Visibility
from batchq.domain.catalog import ResourceKind
from batchq.domain.enums import ACTIVE, FINISHED, DependencyType, Status, StopKind
from batchq.domain.ids import child_id
from batchq.domain.job import ConsumableRequirement, Dependency
from batchq.domain.job_selection import JobSelection
from batchq.domain.scheduling.fairshare import ShareKey, accrued
from batchq.domain.stop_request import StopRequest
from batchq.engine import bulk_stops, propagation
from batchq.engine.account_limits import AccountPolicies
from batchq.engine.mailbox import BulkStopRequest, CatalogChanged, JobEvent, UpdateTags
from batchq.engine.scheduling import placement_pass
from batchq.engine.scheduling.totals import NEGLIGIBLE
from batchq.errors import Conflict, StoreFailed
from tests.domain.lives import runnable
from tests.engine.harness import SURVEYED, LoopHarness, answer, catalog_of, harness_with, stored, submit
from tests.support.builders import ADMIN, consumable, job_id, policy, queue, retry
from tests.support.examples import quick_seeds

SEEDS = quick_seeds(8, of=25)
UNITS = 60
DECAY = timedelta(hours=1)
MAX_MILLICPUS_OF_LAB = 3500
OWNERS = [Owner(user="ada", account=name) for name in ("lab", "team", "other")]
DIRECTORY = Directory(
    accounts={
        "lab": Account(name="lab", limits=AccountLimits(queued=20, vcpus=MAX_MILLICPUS_OF_LAB / 1000)),
        "team": Account(name="team", parent="lab", limits=AccountLimits(queued=9)),
        "other": Account(name="other"),
    }
)
SEQUENTIAL = Dependency(job_id=None, type=DependencyType.SEQUENTIAL)


class FailingStore:
    """A store in which some commits fail with StoreFailed or Conflict."""

    def __init__(self, store, dice):
        self._store, self._dice = store, dice
        self.over = False

    async def commit(self, changes):
        thrown = self._dice.random()
        if not self.over and thrown < 0.1:
            raise Conflict("it is at another version")
        if not self.over and thrown < 0.25:
            raise StoreFailed("no space left on device")
        return await self._store.commit(changes)

    def __getattr__(self, name):
        return getattr(self._store, name)


class RandomRun:
    def __init__(self, harness, dice):
        self.harness, self.dice = harness, dice
        self.ids, self.sizes = [], {}

    async def process(self):
        """Process the posted messages and up to three random ones. Sometimes the state is loaded again first."""
        inbox = [] if self.harness.mailbox.is_empty else await self.harness.mailbox.take(1000)
        if self.harness.loop._must_load or self.dice.random() < 0.1:
            await self.harness.loop.load()
        more = [self._message() for _ in range(self.dice.randrange(4))]
        for message in more:
            if not isinstance(message, CatalogChanged):
                message.answer.add_done_callback(Future.exception)
        targeted = await self._targeted()
        await self.harness.process(*inbox, *more, *self._reports())
        assert targeted.isdisjoint(self.harness.loop.state.active), "the target of a stop order was started"
        await asyncio.sleep(self.dice.choice([0, 0, 1.5, 60]))

    def _message(self):
        kind = self.dice.randrange(11)
        if kind < 5 or not self.ids:
            return self._submit()
        if kind == 5:
            return CatalogChanged()
        if kind == 6:
            return UpdateTags(job_id=self._any(), change=lambda value: value, answer=answer(), caller=ADMIN)
        if kind == 7:
            return self._bulk_stop()
        order = self.dice.choice([on.CancelRequested(reason="enough"), on.TerminateRequested(reason="now")])
        return JobEvent(job_id=self._any(), event=order, answer=answer())

    def _bulk_stop(self):
        request = StopRequest(kind=self.dice.choice([StopKind.CANCEL, StopKind.TERMINATE]), reason="all of them")
        selection = self.dice.choice(
            [
                JobSelection(queues=frozenset({self.dice.choice(["default", "fair"])})),
                JobSelection(statuses=frozenset(self.dice.sample([*Status], 3))),
                JobSelection(accounts=frozenset({"team"}), visibility=Visibility(user="ada")),
                JobSelection(ids=(*self.dice.sample(self.ids, len(self.ids) // 3), self._any())),
            ]
        )
        as_of = self.harness.loop.state.next_sequence
        return BulkStopRequest(
            request=request, selection=selection, as_of=as_of, report=lambda _: None, answer=answer(), caller=ADMIN
        )

    async def _targeted(self):
        """The waiting jobs, and children of arrays, that a saved bulk stop includes."""
        store, found = self.harness.store, set()
        for bulk_stop in await store.bulk_stops():
            for first, last in await store.target_ranges(bulk_stop.number):
                found |= {job.id for job in (await self.known()).values() if first <= job.sequence <= last}
        return found - self.harness.loop.state.active.keys()

    def _submit(self):
        new, size = job_id(2_000_000 + len(self.ids)), self.dice.choice([None, None, 2, 5, 9])
        fields = {
            "array_size": size,
            "depends_on": [*self._dependencies(size)],
            "retry": retry(self.dice.choice([1, 2])),
            "millicpus": self.dice.choice([500, 1000, 3000, 5000]),
            "needs": self.dice.choice([(), (ConsumableRequirement(resource="licence", quantity=1),)]),
            "queue": self.dice.choice(["default", "fair"]),
            "owner": self.dice.choice(OWNERS),
        }
        fields |= {"share_identifier": self.dice.choice(["red", "blue"])} if fields["queue"] == "fair" else {}
        self.ids.append(new)
        self.sizes[new] = size
        return submit(new, **fields)

    def _dependencies(self, size):
        if self.ids and self.dice.random() < 0.4:
            yield from {Dependency(job_id=self._any()) for _ in range(self.dice.randrange(1, 4))}
        if size and self.dice.random() < 0.3:
            yield SEQUENTIAL
        same = [identifier for identifier in self.ids if size and self.sizes[identifier] == size]
        if same and self.dice.random() < 0.6:
            yield Dependency(job_id=self.dice.choice(same), type=DependencyType.N_TO_N)

    def _any(self):
        chosen = self.dice.choice(self.ids)
        size = self.sizes[chosen]
        return chosen if size is None or self.dice.random() < 0.5 else child_id(chosen, self.dice.randrange(size))

    def _reports(self, chance=0.4):
        jobs = [job for job in self.harness.loop.state.active.values() if self.dice.random() < chance]
        return [JobEvent(job_id=job.id, event=self._report_of(job)) for job in jobs]

    def _report_of(self, job):
        number, now = job.attempt.number, self.harness.loop._clock.now()
        code = self.dice.choice([0, 0, 1])
        exited = on.ContainerExited(attempt=number, exit_code=code, started_at=now, stopped_at=now)
        if job.status is Status.RUNNING:
            return exited
        if job.stop is not None and self.dice.random() < 0.5:
            return on.StartAbandoned(attempt=number)
        started = on.ContainerStarted(attempt=number, started_at=now)
        return self.dice.choice([exited, started, on.StartFailed(attempt=number, reason="no image")])

    async def known(self):
        """Every job in the store, by its id."""
        own = await self.harness.store.jobs(self.ids)
        children = [child_id(job_id, index) for job_id in own for index in range(self.sizes[job_id] or 0)]
        return {**own, **await self.harness.store.jobs(children)}

    async def end(self):
        """Without further faults, run until every job has ended."""
        self.harness.store.over = True
        for _ in range(400):
            await asyncio.sleep(2)
            await self.harness.loop.load()
            inbox = [] if self.harness.mailbox.is_empty else await self.harness.mailbox.take(1000)
            await self.harness.process(*inbox, SURVEYED, *self._reports(chance=1))
            if self.harness.mailbox.is_empty and not self.harness.loop.state.active:
                return


async def memory_equals_the_store(harness):
    loop, store = harness.loop, harness.store
    if loop._must_load:
        return
    assert loop.state.active == {job.id: job for job in await store.active()}
    assert loop.arrays.unfinished == {job.id: job for job in await store.arrays_with_work()}
    assert known_shares(loop) == {key: use for key, use in (await store.shares()).items() if counts(use, loop)}
    assert loop._bulk_stops.in_progress == {stop.number: stop for stop in await store.bulk_stops()}
    assert loop.scheduler.queued_jobs.queued == +Counter(await store.queued())
    assert loop.scheduler.share_usage.used_up == await store.used_up()
    marks = loop.scheduler._blocked_jobs.marks.values()
    heads = await store.jobs([mark.job_id for mark in marks])
    assert [(heads[mark.job_id].status_reason, heads[mark.job_id].blocked_at) for mark in marks] == [
        (mark.reason, mark.since) for mark in marks
    ]


def known_shares(loop):
    return {key: use for key, use in loop.scheduler.share_usage.shares.items() if counts(use, loop)}


def counts(use, loop):
    """A negligible use may be dropped from memory."""
    return use.active or use.millicpus or accrued(use, loop._clock.now(), DECAY).used >= NEGLIGIBLE


async def counts_are_correct(run):
    """The counts of the arrays and of the shares agree with the jobs."""
    jobs, now = await run.known(), await run.harness.store.shares()
    labs = [job for job in jobs.values() if job.status in ACTIVE and job.spec.owner.account != "other"]
    assert sum(lab.spec.resources.millicpus for lab in labs) <= MAX_MILLICPUS_OF_LAB
    for job in jobs.values():
        if job.array_state is not None:
            children = [
                other_job
                for other_job in jobs.values()
                if other_job.child is not None and other_job.child.parent == job.id
            ]
            assert Counter(child.status for child in children) == Counter(dict(job.array_state.counts)), job
            assert len(children) == job.array_state.spawned
            assert (job.status in FINISHED) == (
                sum(child.status in FINISHED for child in children) == run.sizes[job.id]
            )
    for share in ("red", "blue"):
        mine = [job for job in jobs.values() if job.spec.share_identifier == share]
        held = sum(job.spec.resources.millicpus for job in mine if job.status in ACTIVE)
        lives = sum(job.status not in FINISHED for job in mine if job.child is None)
        use = now.get(ShareKey("fair", share))
        assert (lives, held) == ((0, 0) if use is None else (use.active, use.millicpus))


async def no_job_waits_for_finished_jobs(run):
    """Every job has finished, except unschedulable jobs and jobs that depend on these."""
    jobs = await run.known()
    over = {job.id for job in jobs.values() if job.status in FINISHED}
    for job in jobs.values():
        if job.id in over or job.unschedulable or job.array_state is not None:
            continue
        named = {other_job.job_id for other_job in job.spec.depends_on if other_job.job_id is not None}
        assert job.status is Status.PENDING, job
        assert job.child is not None or not named <= over, job


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(propagation, "MAX_CHILDREN", 3)
    monkeypatch.setattr(bulk_stops, "MAX_STOPS", 3)
    monkeypatch.setattr(placement_pass, "MAX_DECISIONS", 4)
    monkeypatch.setattr(placement_pass, "UNSCHEDULABLE_PAGE", 2)


@pytest.mark.parametrize("seed", SEEDS)
async def test_memory_equals_the_store_whatever_fails(seed):
    dice = Random(seed)
    licences = consumable("licence", total=12, kind=ResourceKind.NON_REPLENISHABLE)
    catalog = catalog_of(queue(), queue("fair", policy="fair"), policies=[policy(decay=DECAY)], consumables=[licences])
    harness = LoopHarness(
        FailingStore(await stored(), dice), catalog, AccountPolicies(directory=lambda: DIRECTORY, enforced=True)
    )
    await harness.loop.load()
    await harness.process(SURVEYED)
    run = RandomRun(harness, dice)

    for _ in range(UNITS):
        await run.process()
        await memory_equals_the_store(harness)
        await counts_are_correct(run)
    await run.end()

    await memory_equals_the_store(harness)
    await counts_are_correct(run)
    await no_job_waits_for_finished_jobs(run)
    await harness.tasks.cancel()


async def test_a_unit_of_work_that_is_not_saved_is_not_repeated_at_once(monkeypatch):
    monkeypatch.setattr(placement_pass, "MAX_DECISIONS", 1)
    harness = await harness_with(*(runnable() for _ in range(3)))

    async def full(_):
        raise StoreFailed("no space left on device")

    with monkeypatch.context() as while_full:
        while_full.setattr(harness.store, "commit", full)
        await harness.process(SURVEYED)

    assert harness.mailbox.is_empty
    await harness.process(SURVEYED)
    assert not harness.mailbox.is_empty


async def test_units_of_work_that_are_not_saved_do_not_repeat_time_limits(monkeypatch):
    harness = await harness_with(runnable())
    harness.tasks.supervise("time limits", harness.loop.scheduler.time_limits.run)

    async def full(_):
        raise StoreFailed("no space left on device")

    monkeypatch.setattr(harness.store, "commit", full)
    units = 0
    await harness.process(CatalogChanged(), SURVEYED)
    while units < 20 and (await asyncio.sleep(0) or not harness.mailbox.is_empty):
        await harness.mailbox.take(1000)
        await harness.process(SURVEYED)
        units += 1
        for _ in range(5):
            await asyncio.sleep(0)

    assert units <= 1
    await harness.tasks.cancel()
