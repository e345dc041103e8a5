"""Two requests that one unit of work handles have the result of two units of work, one after the other."""

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.enums import Status
from batchq.domain.ids import child_id
from batchq.domain.lifecycle.arrays import Moved, begin_array, count_children, spawn
from batchq.domain.lifecycle.transitions import step
from batchq.domain.training import CheckpointRules
from tests.domain.lives import apply_events, pending, placed, runnable, running, started, starting
from tests.domain.part_lives import task_job
from tests.engine.harness import SURVEYED, harness_with, request
from tests.support.builders import NOON, job, task_container
from tests.support.examples import pairs

REQUESTS = (
    on.CancelRequested(reason="not needed", user="ada"),
    on.TerminateRequested(reason="enough", user="ada"),
    on.TerminateRequested(reason="enough", user="bob", signal="SIGINT"),
    on.TerminateRequested(reason="save first", user="ada", checkpoint=True),
    on.StopForced(reason="at once", user="bob"),
    on.HoldRequested(reason="not yet", user="ada"),
    on.ReleaseRequested(user="bob"),
    on.PauseRequested(reason="not now", user="ada"),
    on.ResumeRequested(user="bob"),
    on.ForceFailed(reason="stuck", user="ada"),
)
STOPS = tuple(each for each in REQUESTS if not isinstance(each, on.HoldEvent))
CHECKPOINTS = CheckpointRules(signal="USR1")


def held():
    return step(runnable(), on.HoldRequested(reason="not yet", user="ada"), NOON)[0]


def pausing():
    return step(running(), on.PauseRequested(reason="not now", user="ada"), NOON)[0]


LIVES = {
    "pending": pending,
    "runnable": runnable,
    "held": held,
    "starting": starting,
    "running": running,
    "with checkpoints": lambda: running(checkpoints=CHECKPOINTS),
    "pausing": pausing,
    "of two containers": lambda: task_job(task_container("a"), task_container("b")),
}


def family():
    """An array, a RUNNING child of it and a RUNNABLE one; the third is not created yet."""
    parent = begin_array(job(array_size=3), NOON)
    parent, children = spawn(parent, 2, NOON)
    second = replace(children[1], status=Status.RUNNABLE, runnable_at=NOON)
    first = apply_events(
        replace(second, id=children[0].id, sequence=children[0].sequence, child=children[0].child), placed(), started()
    )[0]
    moved = [Moved(index=each.child.index, before=None, after=each.status) for each in (first, second)]
    return count_children(parent, moved, NOON), first, second


async def result_of(jobs, *units):
    """The answers, and what is stored after these units of work, and after all that follows from them."""
    harness = await harness_with(*jobs)
    await harness.mailbox.take(99) if not harness.mailbox.is_empty else None
    answers = []
    for unit in units:
        messages = [request(replace(jobs[0], id=job_id), event) for job_id, event in unit]
        await harness.process(*messages)
        answers += messages
    stored = [await state_of(harness, jobs)]
    await harness.process(SURVEYED)
    for _ in range(20):
        if not harness.mailbox.is_empty:
            await harness.process(*await harness.mailbox.take(99))
    stored.append(await state_of(harness, jobs))
    await harness.store.close()
    failures = [each.answer.exception() if each.answer.done() else "no answer" for each in answers]
    return [str(failure) for failure in failures], stored, harness.effects


async def state_of(harness, jobs):
    size = jobs[0].spec.array_size or 0
    ids = [jobs[0].id, *(child_id(jobs[0].id, index) for index in range(size))]
    found = await harness.store.jobs(ids)
    histories = [(job_id, await harness.store.history(job_id)) for job_id in sorted(found)]
    return {key: replace(each, version=0) for key, each in found.items()}, histories


@pytest.mark.parametrize("life", LIVES)
async def test_two_requests_to_a_job_at_once_have_the_result_of_one_after_the_other(life):
    for first, second in pairs(REQUESTS, offset=[*LIVES].index(life)):
        one = LIVES[life]()
        pair = (one.id, first), (one.id, second)

        assert await result_of([one], pair) == await result_of([one], *[[each] for each in pair]), pair


@pytest.mark.parametrize("parts", [(0, 0), (0, 1), (1, 0), (0, 2), (2, 0)], ids=str)
async def test_two_requests_to_an_array_and_its_children_at_once_end_as_one_after_the_other(parts):
    """Without holds: those of the array reach its children later, and those of children wait for that."""
    for first, second in pairs(STOPS, offset=sum(parts)):
        jobs = family()
        ids = [jobs[0].id, child_id(jobs[0].id, 0), child_id(jobs[0].id, 1)]
        pair = (ids[parts[0]], first), (ids[parts[1]], second)

        answers, stored, _ = await result_of(jobs, pair)

        others, later, _ = await result_of(jobs, *[[each] for each in pair])
        assert (answers, _ends(stored)) == (others, _ends(later)), pair


def _ends(stored):
    """What the units of work led to. A CancelJob has no effect on an active child that is stopped too."""
    jobs, _ = stored[-1]
    return {job_id: (each.status, each.status_reason, each.stop is None) for job_id, each in jobs.items()}


async def test_a_cancelled_array_is_not_shown_as_held():
    jobs = family()

    _, stored, _ = await result_of(jobs, [(jobs[0].id, REQUESTS[5])], [(jobs[0].id, REQUESTS[0])])

    array = stored[-1][0][jobs[0].id]
    assert (array.status, array.hold, array.status_reason) == (Status.PENDING, None, None)
