"""Dependencies are decided completely in the unit of work of the event that decides them."""

import sys

import pytest

from batchq.domain import events as on
from batchq.domain.enums import Status
from batchq.engine import unit_of_work
from batchq.engine.mailbox import ContinueWork
from batchq.engine.propagation import propagate
from tests.domain.lives import cancel, exited, pending, runnable, running, submitted
from tests.engine.harness import ONE, LoopHarness, catalog_of, harness_with, new_unit, request, statuses, stored, submit

PENDING, RUNNABLE, FAILED = Status.PENDING, Status.RUNNABLE, Status.FAILED


async def test_jobs_submitted_in_one_unit_of_work_may_depend_on_each_other():
    first = submitted()
    second = submitted(depends_on=[first])
    store = await stored()
    unit = new_unit()
    unit.insert(first, None)
    unit.insert(second, None)

    await propagate(unit, store, has_dependencies=True)

    assert statuses(unit, first, second) == [RUNNABLE, PENDING]


async def test_a_new_job_cancelled_in_the_same_unit_of_work_stays_cancelled():
    job, store = submitted(), await stored()
    unit = new_unit()
    unit.insert(job, None)
    unit.step(job.id, cancel())

    await propagate(unit, store, has_dependencies=True)

    assert statuses(unit, job) == [FAILED]
    assert unit.get(job.id).is_cancelled


async def test_the_last_two_dependencies_may_end_in_one_unit_of_work():
    first, other = running(), running()
    second = pending(depends_on=[first, other])
    store = await stored(first, other, second)
    unit = new_unit(first, other)
    unit.step(first.id, exited(0))
    unit.step(other.id, exited(0))

    await propagate(unit, store, has_dependencies=True)

    assert statuses(unit, second) == [RUNNABLE]


async def test_a_failure_fails_a_chain_submitted_in_the_same_unit_of_work():
    first = running()
    store = await stored(first)
    second, unit = submitted(depends_on=[first]), new_unit(first)
    third = submitted(depends_on=[second])
    unit.insert(third, None)
    unit.insert(second, None)
    unit.step(first.id, exited(1))

    await propagate(unit, store, has_dependencies=True)

    assert statuses(unit, second, third) == [FAILED, FAILED]


async def test_a_dependent_cancelled_in_this_unit_of_work_stays_cancelled():
    first = running()
    second = pending(depends_on=[first])
    store = await stored(first, second)
    unit = new_unit(first)
    unit.load([second])
    unit.step(second.id, cancel("not wanted"))
    unit.step(first.id, exited(0))

    await propagate(unit, store, has_dependencies=True)

    assert (unit.get(second.id).status, unit.get(second.id).status_reason) == (FAILED, "not wanted")


@pytest.fixture(autouse=True)
def few_dependents(monkeypatch):
    monkeypatch.setattr(unit_of_work, "MAX_DEPENDENTS", 20)


def failed_in(store):
    return [job.id for job in store.all_jobs().values() if job.status is Status.FAILED]


async def process_all(harness, most=1000):
    """Process units of work until nothing is left to do."""
    while not harness.mailbox.is_empty and most > 0:
        await harness.mailbox.take(1000)
        await harness.process(ContinueWork())
        most -= 1


def fan(number):
    first = runnable()
    return [first, *(pending(depends_on=[first]) for _ in range(number))]


def chain(number):
    jobs = [runnable()]
    for _ in range(number):
        jobs.append(pending(depends_on=[jobs[-1]]))
    return jobs


@pytest.mark.fault("CO11")
@pytest.mark.parametrize("made", [fan, chain])
async def test_other_messages_are_handled_between_the_pages_of_a_cascade(made):
    jobs = made(100)
    harness, new = await harness_with(*jobs), submit(ONE)

    await harness.process(request(jobs[0], on.CancelRequested(reason="enough")))
    first_page = len(failed_in(harness.store))
    await harness.process(new)

    assert 1 < first_page <= 21
    assert new.answer.done()
    assert len(failed_in(harness.store)) < len(jobs)
    await process_all(harness)
    assert sorted(failed_in(harness.store)) == sorted(job.id for job in jobs)


@pytest.mark.fault("CO11")
@pytest.mark.parametrize("made", [fan, chain])
async def test_a_cascade_continues_after_a_crash(made):
    jobs = made(100)
    harness = await harness_with(*jobs)
    await harness.process(request(jobs[0], on.CancelRequested(reason="enough")))

    after = LoopHarness(harness.store, catalog_of())
    await after.loop.load()
    await process_all(after)

    assert sorted(failed_in(harness.store)) == sorted(job.id for job in jobs)


@pytest.mark.fault("CO11")
async def test_the_cost_of_a_chain_in_one_unit_of_work_is_linear():
    few, many = await calls_of_a_chain(50), await calls_of_a_chain(200)

    assert many < 6 * few


async def calls_of_a_chain(number):
    """The calls of Python functions."""
    jobs, store = [submitted()], await stored()
    for _ in range(number):
        jobs.append(submitted(depends_on=[jobs[-1]]))
    unit, calls = new_unit(), 0
    for job in jobs:
        unit.insert(job, None)
    await propagate(unit, store, has_dependencies=False)

    def count(_, event, __):
        nonlocal calls
        calls += event == "call"

    unit.step(jobs[0].id, cancel())
    sys.setprofile(count)
    await propagate(unit, store, has_dependencies=False)
    sys.setprofile(None)
    assert {unit.get(job.id).status for job in jobs} == {Status.FAILED}
    return calls
