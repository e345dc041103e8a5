"""Dependencies, followed to their end in the turn in which they are decided."""

from batchq.domain import status_reasons
from batchq.domain.ids import JobId
from batchq.domain.job import Status
from batchq.engine.dependents import settle
from tests.domain.lives import after, cancel, exited, failed, pending, placed, runnable, running, submitted, succeeded
from tests.engine.turns import changes, statuses, stored, turn_over

PENDING, RUNNABLE, FAILED = Status.PENDING, Status.RUNNABLE, Status.FAILED


async def test_a_new_job_that_depends_on_nothing_is_runnable_at_once():
    job, store = submitted(), await stored()
    turn = turn_over()
    turn.insert(job, None)

    await settle(turn, store, waited_for=True)

    assert statuses(turn, job) == [RUNNABLE]


async def test_new_jobs_are_judged_by_what_is_remembered():
    runs, done, lost = running(), succeeded(), failed()
    store = await stored(runs, done, lost)
    waits, goes, fails = submitted(depends_on=[runs, done]), submitted(depends_on=[done]), submitted(depends_on=[lost])
    turn = turn_over(runs)
    turn.insert(waits, None)
    turn.insert(goes, None)
    turn.insert(fails, None)

    await settle(turn, store, waited_for=True)

    assert statuses(turn, waits, goes, fails) == [PENDING, RUNNABLE, FAILED]
    assert turn.get(fails.id).status_reason == status_reasons.dependency_failed(lost.id)


async def test_a_dependency_that_nobody_remembers_has_failed():
    job, store = submitted(depends_on=[JobId("forgotten")]), await stored()
    turn = turn_over()
    turn.insert(job, None)

    await settle(turn, store, waited_for=True)

    assert statuses(turn, job) == [FAILED]


async def test_jobs_that_come_in_one_turn_may_depend_on_each_other():
    first = submitted()
    second = submitted(depends_on=[first])
    store = await stored()
    turn = turn_over()
    turn.insert(first, None)
    turn.insert(second, None)

    await settle(turn, store, waited_for=True)

    assert statuses(turn, first, second) == [RUNNABLE, PENDING]


async def test_a_new_job_that_was_cancelled_in_the_same_turn_is_not_judged():
    job, store = submitted(), await stored()
    turn = turn_over()
    turn.insert(job, None)
    turn.step(job.id, cancel())

    await settle(turn, store, waited_for=True)

    assert statuses(turn, job) == [FAILED]
    assert turn.get(job.id).is_cancelled


async def test_who_waited_for_a_job_is_free_when_it_succeeds():
    first = running()
    second = pending(depends_on=[first])
    store = await stored(first, second)
    turn = turn_over(first)
    turn.step(first.id, exited(0))

    await settle(turn, store, waited_for=True)

    assert statuses(turn, second) == [RUNNABLE]


async def test_who_waits_for_others_too_waits_on():
    first, other = running(), running()
    second = pending(depends_on=[first, other])
    store = await stored(first, other, second)
    turn = turn_over(first, other)
    turn.step(first.id, exited(0))

    await settle(turn, store, waited_for=True)

    assert turn.get(second.id) == second
    assert not turn.touched(second.id)


async def test_the_last_two_dependencies_may_end_in_one_turn():
    first, other = running(), running()
    second = pending(depends_on=[first, other])
    store = await stored(first, other, second)
    turn = turn_over(first, other)
    turn.step(first.id, exited(0))
    turn.step(other.id, exited(0))

    await settle(turn, store, waited_for=True)

    assert statuses(turn, second) == [RUNNABLE]


async def test_a_failure_reaches_the_whole_chain_in_this_turn():
    first = running()
    second = pending(depends_on=[first])
    third = pending(depends_on=[second])
    fourth = pending(depends_on=[third, second])
    store = await stored(first, second, third, fourth)
    turn = turn_over(first)
    turn.step(first.id, exited(1))

    await settle(turn, store, waited_for=True)

    assert statuses(turn, second, third, fourth) == [FAILED, FAILED, FAILED]
    assert [it.job_id for it in changes(turn).history] == [first.id, second.id, third.id, fourth.id]


async def test_a_failure_reaches_a_chain_that_came_in_this_turn():
    first = running()
    store = await stored(first)
    second, turn = submitted(depends_on=[first]), turn_over(first)
    third = submitted(depends_on=[second])
    turn.insert(third, None)
    turn.insert(second, None)
    turn.step(first.id, exited(1))

    await settle(turn, store, waited_for=True)

    assert statuses(turn, second, third) == [FAILED, FAILED]


async def test_a_cancel_reaches_those_who_waited_for_the_job():
    first = runnable()
    second = pending(depends_on=[first])
    store = await stored(first, second)
    turn = turn_over()
    turn.learn([first])
    turn.step(first.id, cancel())

    await settle(turn, store, waited_for=True)

    assert statuses(turn, second) == [FAILED]
    assert turn.get(second.id).status_reason == status_reasons.dependency_failed(first.id)


async def test_a_job_that_is_retried_decides_nothing():
    first = running(attempts=2)
    second = pending(depends_on=[first])
    store = await stored(first, second)
    turn = turn_over(first)
    turn.step(first.id, exited(1))

    await settle(turn, store, waited_for=True)

    assert not turn.knows(second.id)


async def test_a_job_that_ends_after_it_was_retried_decides():
    first = after(running(attempts=2), exited(1), placed())
    second = pending(depends_on=[first])
    store = await stored(first, second)
    turn = turn_over(first)
    turn.step(first.id, exited(0, 2))

    await settle(turn, store, waited_for=True)

    assert statuses(turn, second) == [RUNNABLE]


async def test_a_dependent_that_was_cancelled_in_this_turn_is_left_so():
    first = running()
    second = pending(depends_on=[first])
    store = await stored(first, second)
    turn = turn_over(first)
    turn.learn([second])
    turn.step(second.id, cancel("not wanted"))
    turn.step(first.id, exited(0))

    await settle(turn, store, waited_for=True)

    assert (turn.get(second.id).status, turn.get(second.id).status_reason) == (FAILED, "not wanted")
