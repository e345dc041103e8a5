"""An array with a pending order is shown at once as its children will be, and never differently after that."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as any_
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.access.audit import AuditQuery
from batchq.domain.ids import QueueName, child_id
from batchq.domain.job import FINISHED, QUEUED, Status
from batchq.engine import arrays
from batchq.engine.mailbox import ContinueWork, JobEvent, UpdateTags
from batchq.ports.jobs import ChildQuery, JobQuery
from batchq.services.pending_orders_view import PendingOrdersView
from tests.engine.desk import LOOKED, ONE, TWO, answer, desk_over, submit
from tests.support.builders import ADMIN, NOON
from tests.support.examples import examples

CANCEL, TERMINATE = on.CancelRequested(reason="enough"), on.TerminateRequested(reason="now")
DEFAULT = QueueName("default")
SIZE = 6


@pytest.fixture(autouse=True)
def few_at_a_time(monkeypatch):
    monkeypatch.setattr(arrays, "MAX_CHILDREN", 2)


async def array_of(size, *messages, **asked):
    """A desk at which all children of an array are there."""
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=size, **asked), *messages)
    await at_rest(desk)
    return desk


async def at_rest(desk):
    while desk.loop._arrays.busy:
        await desk.process(ContinueWork())


def shown_by(desk):
    return PendingOrdersView(desk.store, lambda: desk.loop.pending_array_orders, lambda: None)


def family_of(size):
    return [ONE, *(child_id(ONE, index) for index in range(size))]


async def shown(desk, size=SIZE):
    """All that there is of the array, as it is shown, but for what DescribeJobs does not tell."""
    found = await shown_by(desk).jobs(family_of(size))
    return {job_id: _told(job) for job_id, job in found.items()}


async def stored(desk, size=SIZE):
    return {job_id: _told(job) for job_id, job in (await desk.store.jobs(family_of(size))).items()}


def _told(job):
    family = job.array_state and replace(job.array_state, order_applied_to=0)
    return replace(job, version=0, tags=(), array_state=family)


async def listed(desk, status):
    """The ids in ListJobs of the array and of its queue, and what they are said to be."""
    show = shown_by(desk)
    children = await show.list_children(ChildQuery(parent=ONE, status=status, limit=1000))
    return {it.id: it.status for it in (*children, *await show.list(JobQuery(queue=DEFAULT, status=status, limit=9)))}


def to(job_id, event):
    return JobEvent(job_id=job_id, event=event, answer=answer())


@pytest.mark.parametrize("order", [CANCEL, TERMINATE])
async def test_waiting_children_are_shown_as_ended_once_the_order_is_saved(order):
    desk = await array_of(SIZE)

    await desk.process(to(ONE, order))
    at_once, rows = await shown(desk), await stored(desk)
    lists = {status: set(await listed(desk, status)) for status in Status}
    await at_rest(desk)

    assert {it.status for it in rows.values()} == {Status.PENDING, Status.RUNNABLE}
    assert {it.status for it in at_once.values()} == {Status.FAILED}
    assert at_once[ONE].array_state.counts == ((Status.FAILED, SIZE),)
    assert lists == {status: set(family_of(SIZE) if status is Status.FAILED else ()) for status in Status}
    assert await stored(desk) == at_once


async def test_pages_of_failed_children_continue_where_they_ended():
    desk = await array_of(SIZE)
    await desk.process(to(ONE, CANCEL))
    await desk.process(ContinueWork())
    show, asked = shown_by(desk), ChildQuery(parent=ONE, status=Status.FAILED, limit=4)

    first = await show.list_children(asked)
    second = await show.list_children(replace(asked, before=first[-1].order))

    assert [it.child.index for it in (*first, *second)] == [5, 4, 3, 2, 1, 0]
    assert {it.status for it in (*first, *second)} == {Status.FAILED}


async def test_a_restarted_server_shows_the_same_ends():
    desk = await array_of(SIZE)
    await desk.process(to(ONE, TERMINATE))
    await desk.process(ContinueWork())
    before = await shown(desk)

    desk.loop._arrays = arrays.ArrayCoordinator()
    await desk.loop.load()

    assert await shown(desk) == before


async def test_an_order_that_is_not_saved_is_not_shown():
    desk = await array_of(SIZE)
    before = await shown(desk)
    desk.store.failing = True
    order = to(ONE, CANCEL)

    await desk.process(order)

    assert order.answer.exception() is not None
    assert await shown(desk) == before


async def test_an_order_saved_during_a_read_is_shown_by_the_next_read():
    """Whoever is shown an end is shown it ever after; this one was not."""
    desk = await array_of(SIZE)
    before, sealed_before = await shown(desk), desk.loop.pending_array_orders
    await desk.process(to(ONE, CANCEL))

    found = await PendingOrdersView(desk.store, lambda: sealed_before, lambda: None).jobs(family_of(SIZE)[1:])

    assert {it: _told(job) for it, job in found.items()} == {it: before[it] for it in family_of(SIZE)[1:]}


async def test_an_end_that_was_shown_stands_after_a_later_order_for_the_child():
    desk = await array_of(SIZE)
    await desk.process(to(ONE, CANCEL))
    before = await shown(desk)

    await desk.process(to(child_id(ONE, 5), on.TerminateRequested(reason="this one too")))
    await desk.process(to(ONE, TERMINATE))
    await at_rest(desk)

    assert await shown(desk) == await stored(desk) == before


async def test_an_order_for_a_child_shown_as_ended_does_not_end_it_again():
    desk = await array_of(SIZE)
    await desk.process(to(ONE, CANCEL))

    await desk.process(replace(to(child_id(ONE, 5), TERMINATE), caller=ADMIN))

    assert (await desk.store.jobs([child_id(ONE, 5)]))[child_id(ONE, 5)].status_reason == "enough"
    assert await desk.store.audit_records(AuditQuery(limit=10, resource=f"job/{child_id(ONE, 5)}")) == ()


async def test_dependents_of_a_child_are_decided_when_its_row_is_written():
    desk = await array_of(SIZE)
    await desk.process(submit(TWO, depends_on=[child_id(ONE, 5)]))
    await desk.process(to(ONE, CANCEL))
    waits = (await shown_by(desk).jobs([TWO]))[TWO]

    await at_rest(desk)

    assert waits.status is Status.PENDING
    assert (await desk.store.jobs([TWO]))[TWO].status is Status.FAILED


async def test_a_child_shown_as_ended_is_in_no_queue_snapshot():
    desk = await array_of(SIZE)
    await desk.process(submit(TWO))
    await desk.process(to(ONE, CANCEL))

    assert [job_id for job_id, _ in (await desk.loop.snapshot(DEFAULT)).jobs] == [TWO]


async def test_the_history_has_the_end_that_was_shown():
    desk = await array_of(SIZE)
    await desk.loop._clock.sleep(1)
    await desk.process(to(ONE, CANCEL))
    ends = {job_id: job.stopped_at for job_id, job in (await shown(desk)).items()}
    await desk.loop._clock.sleep(1)
    await at_rest(desk)

    assert {job_id: (await desk.store.history(job_id))[-1].at for job_id in ends} == ends
    assert set(ends.values()) == {(await desk.store.jobs([ONE]))[ONE].array_state.ordered_at}


async def test_an_array_does_not_end_while_a_child_placed_with_the_order_runs():
    """As what restored data does not know of is taken up."""
    desk = await array_of(2)
    runs, waits = family_of(2)[1:]

    await desk.process(to(runs, on.Placed(environment="local")), to(ONE, CANCEL))
    at_once = await shown(desk, 2)

    assert [at_once[it].status for it in (ONE, runs, waits)] == [Status.PENDING, Status.STARTING, Status.FAILED]


DEEDS = any_.lists(
    any_.tuples(
        any_.sampled_from(["turn", "cancel", "terminate", "child", "tag", "runs", "ends", "fails", "restart"]),
        any_.integers(0, SIZE - 1),
    ),
    max_size=20,
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deeds=DEEDS, turns=any_.integers(0, 4), attempts=any_.integers(1, 2))
async def test_an_end_that_was_shown_is_the_end_that_is_written(deeds, turns, attempts):
    desk = await desk_over()
    await desk.process(submit(ONE, array_size=SIZE, attempts=attempts, millicpus=2000))
    over = {}
    for deed in [*[("turn", 0)] * turns, ("cancel", 0), *deeds, ("terminate", 0)]:
        await happen(desk, *deed)
        await hold(desk, over)
    await at_rest(desk)
    for index in range(SIZE):
        await happen(desk, "ends", index)

    assert await stored(desk) == over | await shown(desk)
    assert {it.status for it in (await stored(desk)).values()} <= FINISHED


async def happen(desk, what, index):
    """Of what does not fit nothing comes."""
    child = child_id(ONE, index)
    there = (await desk.store.jobs([child])).get(child)
    attempt = 1 if there is None else len(there.attempts) + 1
    await desk.loop._clock.sleep(0.5)
    match what:
        case "turn":
            await desk.process(LOOKED)
        case "cancel":
            await desk.process(to(ONE, CANCEL))
        case "terminate":
            await desk.process(to(ONE, TERMINATE))
        case "child":
            await desk.process(to(child, on.CancelRequested(reason="this one")))
        case "tag":
            await desk.process(UpdateTags(job_id=child, change=_tagged, caller=None, answer=answer()))
        case "runs":
            await desk.process(JobEvent(job_id=child, event=on.ContainerStarted(attempt=attempt, started_at=NOON)))
        case "ends" | "fails":
            ended = on.ContainerExited(attempt=attempt, exit_code=what == "fails", started_at=NOON, stopped_at=NOON)
            await desk.process(JobEvent(job_id=child, event=ended))
        case "restart":
            await desk.loop.load()


def _tagged(job):
    return replace(job, tags=(("a", "b"),))


async def hold(desk, over):
    """Who was over is as it was; lists say what is shown; and so does the array of its children."""
    now = await shown(desk)
    assert {it: now[it] for it in over} == over
    over.update({it: job for it, job in now.items() if job.status in FINISHED})
    for status in Status:
        assert await listed(desk, status) == {it: status for it, job in now.items() if job.status is status}
    counts = {}
    for job_id, job in now.items():
        if job_id != ONE:
            counts[job.status] = counts.get(job.status, 0) + 1
    assert dict(now[ONE].array_state.counts) == counts
    if now[ONE].array_state.ordered_at is not None:
        assert not QUEUED.intersection(counts)


class ReadLate:
    """A store whose answers come when the order to the array is carried out whole: it shows what was before."""

    def __init__(self, desk):
        self._desk = desk

    def __getattr__(self, name):
        async def read(*args, **how):
            found = await getattr(self._desk.store, name)(*args, **how)
            await at_rest(self._desk)
            return found

        return read


@pytest.mark.parametrize(
    "read",
    [
        lambda it: it.jobs([child_id(ONE, SIZE - 1)]),
        lambda it: it.list_children(ChildQuery(parent=ONE, status=Status.FAILED, limit=100)),
        lambda it: it.list(JobQuery(queue=DEFAULT, status=Status.FAILED, limit=100)),
    ],
)
async def test_an_order_applied_during_a_read_is_shown_by_that_read(read):
    desk = await array_of(SIZE)
    await desk.process(to(ONE, CANCEL))

    found = await read(PendingOrdersView(ReadLate(desk), lambda: desk.loop.pending_array_orders, lambda: None))

    shown = list(found.values()) if isinstance(found, dict) else list(found)
    assert {it.status for it in shown} == {Status.FAILED}
