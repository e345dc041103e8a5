"""Dependents of an ended job are decided a page in each unit of work; other requests are served in between."""

import sys

import pytest

from batchq.domain import events as on
from batchq.domain.job import Status
from batchq.engine import unit_of_work as turns
from batchq.engine.dependents import propagate
from batchq.engine.messages import ContinueWork
from tests.domain.lives import cancel, pending, runnable, submitted
from tests.engine.desk import ONE, Desk, desk_over, request, submit
from tests.engine.turns import ground, stored, turn_over


@pytest.fixture(autouse=True)
def few_a_turn(monkeypatch):
    monkeypatch.setattr(turns, "MAX_DEPENDENTS", 20)


def failed(store):
    return [job.id for job in store.all_jobs().values() if job.status is Status.FAILED]


async def work_on(desk, most=1000):
    """Turns until nothing is left to do."""
    while not desk.inbox.is_empty and most > 0:
        await desk.inbox.take(1000)
        await desk.process(ContinueWork())
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
    desk, new = await desk_over(*jobs), submit(ONE)

    await desk.process(request(jobs[0], on.CancelRequested(reason="enough")))
    first_page = len(failed(desk.store))
    await desk.process(new)

    assert 1 < first_page <= 21
    assert new.answer.done()
    assert len(failed(desk.store)) < len(jobs)
    await work_on(desk)
    assert sorted(failed(desk.store)) == sorted(it.id for it in jobs)


@pytest.mark.fault("CO11")
@pytest.mark.parametrize("made", [fan, chain])
async def test_a_cascade_continues_after_a_crash(made):
    jobs = made(100)
    desk = await desk_over(*jobs)
    await desk.process(request(jobs[0], on.CancelRequested(reason="enough")))

    after = Desk(desk.store, ground())
    await after.loop.load()
    await work_on(after)

    assert sorted(failed(desk.store)) == sorted(it.id for it in jobs)


@pytest.mark.fault("CO11")
async def test_the_cost_of_a_chain_in_one_unit_of_work_is_linear():
    few, many = await calls_of_a_chain(50), await calls_of_a_chain(200)

    assert many < 6 * few


async def calls_of_a_chain(number):
    """The calls of Python functions."""
    jobs, store = [submitted()], await stored()
    for _ in range(number):
        jobs.append(submitted(depends_on=[jobs[-1]]))
    unit, calls = turn_over(), 0
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
    assert {unit.get(it.id).status for it in jobs} == {Status.FAILED}
    return calls
