"""Each order to stop a job is stored with who gave it, when and why, and when the job was signalled and killed."""

import pytest
from msgspec.structs import replace

from batchq.domain.enums import Status, StopKind, StopProgress
from batchq.domain.ids import child_id
from batchq.domain.stop_request import StopRequest
from tests.support.builders import ADMIN
from tests.support.scripts import IGNORES_SIGTERM, Script

#: It exits a second after the stop signal, so that the delivery is stored before the exit.
HANDLES_SIGTERM = Script(seconds=None, on_term=3, term_delay=1, output=("ready",))
FAILS = Script(seconds=None, on_term=1, output=("ready",))


@pytest.fixture
async def by(world):
    """Requests are made by the user of this name from now on. Async: it ends with the test."""

    def by(user):
        world.caller = replace(ADMIN, user=user)

    return by


def facts(job):
    return [(order.kind, order.user, order.reason) for order in job.stop_orders]


async def steps(world, job):
    return [
        (other_job.stop.progress, other_job.stop.kind, other_job.stop.user)
        for other_job in await world.store.history(job)
        if other_job.stop is not None
    ]


def in_order(*times):
    assert None not in times
    assert list(times) == sorted(times)


@pytest.mark.fault("SP16")
async def test_a_cancel_of_a_running_job_is_visible_at_once_and_it_is_not_retried(world, by):
    job = await world.start(FAILS, attempts=3)

    by("cora")
    await world.cancel(job, "too hot")

    (seen,) = await world.described(job)
    assert (seen.status, seen.is_cancelled, facts(seen)) == (
        Status.RUNNING,
        False,
        [(StopKind.CANCEL, "cora", "too hot")],
    )
    await world.finish(job)
    done = await world.wait_for(job, Status.FAILED, status_reason="too hot", is_cancelled=True)
    assert (len(done.attempts), facts(done)) == (1, facts(seen))
    assert await steps(world, job) == [(StopProgress.ORDERED, StopKind.CANCEL, "cora")]


async def test_a_second_terminate_by_another_user_changes_nothing_and_names_the_first(world, by):
    job = await world.start(IGNORES_SIGTERM)
    by("cora")
    await world.terminate(job, "too hot")

    by("bob")
    await world.terminate(job, "me too")
    order = StopRequest(kind=StopKind.TERMINATE, reason="me too")
    (again,) = await world.outcomes(order, job)

    assert (again.standing.user, again.standing.reason) == ("cora", "too hot")
    assert again.note.startswith("already stopping since ")
    assert again.note.endswith(", by cora")
    done = await world.wait_for(job, Status.FAILED, status_reason="too hot")
    assert facts(done) == [(StopKind.TERMINATE, "cora", "too hot")]
    in_order(done.stop.ordered_at, done.stop.signalled_at, done.stop.killed_at, done.stopped_at)
    assert await steps(world, job) == [
        (progress, StopKind.TERMINATE, "cora")
        for progress in (StopProgress.ORDERED, StopProgress.SIGNALLED, StopProgress.KILLED)
    ]


async def test_a_terminate_after_a_cancel_shows_both_orders(world, by):
    job = await world.start(HANDLES_SIGTERM, attempts=3)

    by("cora")
    await world.cancel(job, "too hot")
    by("bob")
    await world.terminate(job, "far too hot")

    done = await world.wait_for(job, Status.FAILED, status_reason="far too hot", is_terminated=True, is_cancelled=False)
    assert facts(done) == [(StopKind.CANCEL, "cora", "too hot"), (StopKind.TERMINATE, "bob", "far too hot")]
    in_order(done.stop_orders[0].ordered_at, done.stop.ordered_at, done.stop.signalled_at)
    assert done.stop.killed_at is None


async def test_a_cancel_of_a_queued_job_is_in_its_history_before_its_end(world, by):
    _, job = await world.submit_behind()

    by("cora")
    await world.cancel(job, "too hot")

    *_, order, end = await world.store.history(job)
    assert (order.status, order.stop.user, order.stop.reason) == (Status.RUNNABLE, "cora", "too hot")
    assert (end.status, end.stop) == (Status.FAILED, None)


async def test_an_order_to_an_array_is_shown_with_each_child(world, by):
    array = await world.submit(HANDLES_SIGTERM, array_size=3)
    await world.wait_for_output(child_id(array, 2), "ready")

    by("cora")
    await world.terminate(array, "too hot")

    parent = await world.wait_for(array, Status.FAILED, status_reason="too hot")
    children = [await world.job(child_id(array, index)) for index in range(3)]
    assert {(*facts(child), child.stop.ordered_at) for child in (parent, *children)} == {
        ((StopKind.TERMINATE, "cora", "too hot"), parent.stop.ordered_at)
    }
    assert (await steps(world, child_id(array, 2)))[0] == (StopProgress.ORDERED, StopKind.TERMINATE, "cora")


async def test_an_order_that_was_saved_before_a_kill_of_the_server_keeps_its_facts(world, by):
    job = await world.start(HANDLES_SIGTERM)
    by("cora")
    await world.crash_in_commit(world.terminate(job, "too hot"))
    ordered_at = (await world.job(job)).stop.ordered_at

    await world.boot()

    done = await world.wait_for(job, Status.FAILED, status_reason="too hot")
    assert facts(done) == [(StopKind.TERMINATE, "cora", "too hot")]
    assert done.stop.ordered_at == ordered_at
    in_order(ordered_at, done.stop.signalled_at)


async def test_a_timeout_is_shown_as_an_order_of_the_server(world, by):
    job = await world.submit(HANDLES_SIGTERM, limit=1)

    done = await world.wait_for(job, Status.FAILED)

    assert [(order.kind, order.user) for order in done.stop_orders] == [(StopKind.TIMEOUT, "")]
    in_order(done.started_at, done.stop.ordered_at, done.stop.signalled_at)


async def test_a_bulk_stop_gives_each_job_its_author_and_time(world, by):
    jobs = [await world.submit(HANDLES_SIGTERM) for _ in range(2)]
    for job in jobs:
        await world.wait_for_output(job, "ready")

    by("cora")
    await world.terminate_all(*map(str, jobs), reason="too hot")

    done = [await world.wait_for(job, Status.FAILED, status_reason="too hot") for job in jobs]
    assert [facts(job) for job in done] == [[(StopKind.TERMINATE, "cora", "too hot")]] * 2
    assert len({job.stop.ordered_at for job in done}) == 1
