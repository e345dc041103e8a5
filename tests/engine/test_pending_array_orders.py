"""An array with a pending order is shown at once as its children will be, and never differently after that."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as any_
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.access.audit import AuditQuery
from batchq.domain.enums import FINISHED, QUEUED, Status
from batchq.domain.ids import QueueName, child_id
from batchq.domain.job_selection import JobSelection
from batchq.engine import propagation
from batchq.engine.mailbox import ContinueWork, JobEvent, UpdateTags
from batchq.ports.job_search import PageQuery, SearchPosition
from batchq.services.job_reads import PendingOrdersView
from tests.engine.harness import ONE, SURVEYED, TWO, answer, harness_with, submit
from tests.support.builders import ADMIN, NOON
from tests.support.examples import examples

CANCEL, TERMINATE = on.CancelRequested(reason="enough"), on.TerminateRequested(reason="now")
DEFAULT = QueueName("default")
SIZE = 6


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(propagation, "MAX_CHILDREN", 2)


async def array_of(size, *messages, **fields):
    """A harness at which all children of an array are there."""
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=size, **fields), *messages)
    await at_rest(harness)
    return harness


async def at_rest(harness):
    while harness.loop.arrays.unfinished:
        await harness.process(ContinueWork())


def shown_by(harness):
    return PendingOrdersView(harness.store, lambda: harness.loop.arrays.pending_orders, lambda: None)


def family_of(size):
    return [ONE, *(child_id(ONE, index) for index in range(size))]


async def shown(harness, size=SIZE):
    """The array and its children as they are shown, without the members that no response contains."""
    found = await shown_by(harness).jobs(family_of(size))
    return {job_id: _compared(job) for job_id, job in found.items()}


async def stored(harness, size=SIZE):
    return {job_id: _compared(job) for job_id, job in (await harness.store.jobs(family_of(size))).items()}


def _compared(job):
    family = job.array_state and replace(job.array_state, order_applied_to=0)
    return replace(job, version=0, tags=(), array_state=family)


def of_status(status, limit=1000, **selection):
    return PageQuery(selection=JobSelection(statuses=frozenset({status}), **selection), limit=limit)


async def jobs_of(read):
    return (await read).jobs


async def listed(harness, status):
    """The jobs that ListJobs returns for the array and for its queue, with their statuses."""
    show = shown_by(harness)
    children = (await show.list(of_status(status, parent=ONE))).jobs
    return {child.id: child.status for child in (*children, *(await show.list(of_status(status))).jobs)}


def to(job_id, event):
    return JobEvent(job_id=job_id, event=event, answer=answer())


async def test_pages_of_failed_children_continue_where_they_ended():
    harness = await array_of(SIZE)
    await harness.process(to(ONE, CANCEL))
    await harness.process(ContinueWork())
    show, query = shown_by(harness), of_status(Status.FAILED, parent=ONE, limit=4)

    first = await jobs_of(show.list(query))
    second = await jobs_of(show.list(replace(query, before=SearchPosition(0, first[-1].sequence))))

    assert [job.child.index for job in (*first, *second)] == [5, 4, 3, 2, 1, 0]
    assert {job.status for job in (*first, *second)} == {Status.FAILED}


async def test_the_statuses_of_children_are_those_of_the_children_as_shown():
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=SIZE))
    for message in (ContinueWork(), to(child_id(ONE, 4), CANCEL), to(ONE, TERMINATE), ContinueWork()):
        array, *_ = (await shown(harness)).values()
        runs = await shown_by(harness).child_runs(array)
        statuses = [run.status for run in runs for _ in range(run.first, run.end)]
        each = [await shown_by(harness).job(child_id(ONE, index), visibility=None) for index in range(SIZE)]
        assert statuses == [element.status for element in each if element is not None]
        await harness.process(message)


async def test_an_order_that_is_not_saved_is_not_shown():
    harness = await array_of(SIZE)
    before = await shown(harness)
    harness.store.failing = True
    order = to(ONE, CANCEL)

    await harness.process(order)

    assert order.answer.exception() is not None
    assert await shown(harness) == before


async def test_an_order_saved_during_a_read_is_shown_by_the_next_read():
    """The read began before the order, so it shows the state before the order."""
    harness = await array_of(SIZE)
    before, orders_before = await shown(harness), harness.loop.arrays.pending_orders
    await harness.process(to(ONE, CANCEL))

    found = await PendingOrdersView(harness.store, lambda: orders_before, lambda: None).jobs(family_of(SIZE)[1:])

    assert {key: _compared(job) for key, job in found.items()} == {
        job_id: before[job_id] for job_id in family_of(SIZE)[1:]
    }


async def test_an_order_for_a_child_shown_as_ended_does_not_end_it_again():
    harness = await array_of(SIZE)
    await harness.process(to(ONE, CANCEL))

    await harness.process(replace(to(child_id(ONE, 5), TERMINATE), caller=ADMIN))

    assert (await harness.store.jobs([child_id(ONE, 5)]))[child_id(ONE, 5)].status_reason == "enough"
    assert await harness.store.audit_records(AuditQuery(limit=10, resource=f"job/{child_id(ONE, 5)}")) == ()


async def test_dependents_of_a_child_are_decided_when_its_row_is_written():
    harness = await array_of(SIZE)
    await harness.process(submit(TWO, depends_on=[child_id(ONE, 5)]))
    await harness.process(to(ONE, CANCEL))
    waits = (await shown_by(harness).jobs([TWO]))[TWO]

    await at_rest(harness)

    assert waits.status is Status.PENDING
    assert (await harness.store.jobs([TWO]))[TWO].status is Status.FAILED


async def test_a_child_shown_as_ended_is_in_no_queue_snapshot():
    harness = await array_of(SIZE)
    await harness.process(submit(TWO))
    await harness.process(to(ONE, CANCEL))

    assert [job_id for job_id, _ in (await harness.loop.snapshot(DEFAULT)).jobs] == [TWO]


async def test_the_history_has_the_end_that_was_shown():
    harness = await array_of(SIZE)
    await harness.loop._clock.sleep(1)
    await harness.process(to(ONE, CANCEL))
    ends = {job_id: job.stopped_at for job_id, job in (await shown(harness)).items()}
    await harness.loop._clock.sleep(1)
    await at_rest(harness)

    assert {job_id: (await harness.store.history(job_id))[-1].at for job_id in ends} == ends
    assert set(ends.values()) == {(await harness.store.jobs([ONE]))[ONE].array_state.ordered_at}


async def test_an_array_does_not_end_while_a_child_placed_with_the_order_runs():
    """As a restored server attaches a container that its data does not have."""
    harness = await array_of(2)
    runs, waits = family_of(2)[1:]

    await harness.process(to(runs, on.Placed(environment="local")), to(ONE, CANCEL))
    at_once = await shown(harness, 2)

    assert [at_once[job_id].status for job_id in (ONE, runs, waits)] == [Status.PENDING, Status.STARTING, Status.FAILED]


STEPS = any_.lists(
    any_.tuples(
        any_.sampled_from(["turn", "cancel", "terminate", "child", "tag", "runs", "ends", "fails", "restart"]),
        any_.integers(0, SIZE - 1),
    ),
    max_size=20,
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, units=any_.integers(0, 4), attempts=any_.integers(1, 2))
async def test_an_end_that_was_shown_is_the_end_that_is_written(steps, units, attempts):
    harness = await harness_with()
    await harness.process(submit(ONE, array_size=SIZE, attempts=attempts, millicpus=2000))
    finished = {}
    for step in [*[("turn", 0)] * units, ("cancel", 0), *steps, ("terminate", 0)]:
        await carry_out(harness, *step)
        await check(harness, finished)
    await at_rest(harness)
    for index in range(SIZE):
        await carry_out(harness, "ends", index)

    assert await stored(harness) == finished | await shown(harness)
    assert {job.status for job in (await stored(harness)).values()} <= FINISHED


async def carry_out(harness, what, index):
    """Carry out one random step, if the state of the child allows it."""
    child = child_id(ONE, index)
    there = (await harness.store.jobs([child])).get(child)
    attempt = 1 if there is None else len(there.attempts) + 1
    await harness.loop._clock.sleep(0.5)
    match what:
        case "turn":
            await harness.process(SURVEYED)
        case "cancel":
            await harness.process(to(ONE, CANCEL))
        case "terminate":
            await harness.process(to(ONE, TERMINATE))
        case "child":
            await harness.process(to(child, on.CancelRequested(reason="this one")))
        case "tag":
            await harness.process(UpdateTags(job_id=child, change=_tagged, caller=None, answer=answer()))
        case "runs":
            await harness.process(JobEvent(job_id=child, event=on.ContainerStarted(attempt=attempt, started_at=NOON)))
        case "ends" | "fails":
            ended = on.ContainerExited(attempt=attempt, exit_code=what == "fails", started_at=NOON, stopped_at=NOON)
            await harness.process(JobEvent(job_id=child, event=ended))
        case "restart":
            await harness.loop.load()


def _tagged(job):
    return replace(job, tags=(("a", "b"),))


async def check(harness, finished):
    """Finished jobs are unchanged; lists agree with the shown jobs; the array's counts agree with its children."""
    now = await shown(harness)
    assert {job_id: now[job_id] for job_id in finished} == finished
    finished.update({key: job for key, job in now.items() if job.status in FINISHED})
    for status in Status:
        assert await listed(harness, status) == {key: status for key, job in now.items() if job.status is status}
    counts = {}
    for job_id, job in now.items():
        if job_id != ONE:
            counts[job.status] = counts.get(job.status, 0) + 1
    assert dict(now[ONE].array_state.counts) == counts
    if now[ONE].array_state.ordered_at is not None:
        assert not QUEUED.intersection(counts)


class DelayedStore:
    """A store whose answers come when the order to the array is carried out whole: it shows what was before."""

    def __init__(self, harness):
        self._harness = harness

    def __getattr__(self, name):
        async def read(*args, **how):
            found = await getattr(self._harness.store, name)(*args, **how)
            await at_rest(self._harness)
            return found

        return read


@pytest.mark.parametrize(
    "read",
    [
        lambda server: server.jobs([child_id(ONE, SIZE - 1)]),
        lambda value: jobs_of(value.list(of_status(Status.FAILED, parent=ONE))),
        lambda value: jobs_of(value.list(of_status(Status.FAILED))),
    ],
)
async def test_an_order_applied_during_a_read_is_shown_by_that_read(read):
    harness = await array_of(SIZE)
    await harness.process(to(ONE, CANCEL))

    found = await read(
        PendingOrdersView(DelayedStore(harness), lambda: harness.loop.arrays.pending_orders, lambda: None)
    )

    shown = list(found.values()) if isinstance(found, dict) else list(found)
    assert {job.status for job in shown} == {Status.FAILED}
