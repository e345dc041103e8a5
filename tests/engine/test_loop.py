"""Units of work of the loop: all messages, one commit, and only then the effects."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain.catalog import State
from batchq.domain.ids import JobId
from batchq.domain.job import Status
from batchq.engine.loop import FAILURE_SHOWN_FOR, RETRY_DELAY
from batchq.engine.mailbox import CatalogChanged, EngineLost, JobEvent, SurveyCompleted, UpdateTags
from batchq.errors import Invalid, StoreFailed, Unavailable
from batchq.ports.jobs import Changes
from tests.domain.lives import (
    after,
    cancel,
    exited,
    failed,
    lost,
    placed,
    runnable,
    running,
    started,
    starting,
    terminate,
)
from tests.domain.part_lives import runs, tasked
from tests.engine.desk import LOOKED, ONE, TWO, answer, desk_over, news, request, submit
from tests.engine.turns import HOST, ground
from tests.support.builders import ADMIN, environment, queue, submission, task_container

# -------------------------------------------------------------------------------------------------------- one at a time


async def test_effects_are_carried_out_after_the_commit():
    job = runnable()
    desk = await desk_over(job)
    saved_when_asked = []
    desk.loop._execute = lambda effect, asked: saved_when_asked.append((effect, desk.store.all_jobs()[asked.id].status))

    await desk.process(LOOKED)

    (stored_job,) = (await desk.store.jobs([job.id])).values()
    assert saved_when_asked == [(do.StartContainer(tag=stored_job.tag), Status.STARTING)]


async def test_a_unit_of_work_that_is_not_saved_changes_nothing():
    job = running()
    desk = await desk_over(job)
    wish = request(job, terminate())
    desk.store.failing = True

    await desk.process(wish)

    assert isinstance(wish.answer.exception(), StoreFailed)
    assert desk.asked == []
    assert await desk.store.history(job.id) == ()
    assert desk.loop.state.active == {job.id: job}
    assert desk.loop.store_failure is not None


async def test_events_of_a_failed_unit_of_work_are_handled_again():
    job = running()
    desk = await desk_over(job)
    desk.store.failing = True
    await desk.process(news(job, exited(0)))

    desk.store.failing = False
    await asyncio.sleep(RETRY_DELAY)
    await desk.process(*await desk.inbox.take(10))

    assert await desk.status(job) is Status.SUCCEEDED
    assert desk.loop.store_failure is None


async def test_a_store_failure_is_reported_for_a_limited_time():
    job = running()
    desk = await desk_over(job)
    desk.store.failing = True
    await desk.process(request(job, terminate()))
    ill = desk.loop.store_failure

    await asyncio.sleep(2 * FAILURE_SHOWN_FOR.total_seconds())

    assert (ill, desk.loop.store_failure) == ("no space left on device", None)


async def test_surveys_of_failed_units_of_work_are_dropped():
    job = running()
    desk = await desk_over(job)
    desk.store.failing = True
    ended = news(job, exited(0))

    await desk.process(LOOKED, ended, LOOKED)

    await asyncio.sleep(RETRY_DELAY)
    assert await desk.inbox.take(10) == [ended]


async def test_a_request_is_answered_when_it_is_durable():
    job = running()
    desk = await desk_over(job)
    wish = request(job, terminate("enough"))

    await desk.process(wish)

    assert wish.answer.done()
    assert (await desk.store.jobs([job.id]))[job.id].stop.reason == "enough"


async def test_a_request_about_an_unknown_job_has_no_effect():
    desk = await desk_over()
    wish = JobEvent(job_id=JobId("no such job"), event=cancel(), answer=answer())

    await desk.process(wish)

    assert wish.answer.result() is None


async def test_a_failing_message_does_not_affect_other_messages():
    job, other = running(), running()
    desk = await desk_over(job, other)
    amend = UpdateTags(job_id=job.id, change=lambda _: 1 / 0, answer=answer(), caller=ADMIN)

    await desk.process(news(job, placed()), amend, news(other, exited(0)))

    assert isinstance(amend.answer.exception(), Unavailable)
    assert [await desk.status(job), await desk.status(other)] == [Status.RUNNING, Status.SUCCEEDED]


async def test_a_rejected_or_failed_message_is_logged_with_the_jobs_recent_history(caplog):
    job = running()
    desk = await desk_over(job)
    amend = UpdateTags(job_id=job.id, change=lambda _: 1 / 0, answer=answer(), caller=ADMIN)

    await desk.process(news(job, placed()), amend)

    rejected, failed = [it.getMessage() for it in caplog.records]
    assert rejected.startswith("message rejected: Placed cannot happen to ")
    assert failed.startswith("message failed: ")
    for line in (rejected, failed):
        assert line.count("attempt 1 placed on local") == 1


async def test_a_failing_request_is_answered_with_the_error():
    job = running()
    desk = await desk_over(job)
    wish = request(job, placed())

    await desk.process(wish)

    assert "Placed cannot happen" in str(wish.answer.exception())


async def test_requests_are_answered_although_a_step_after_the_commit_fails():
    job = running()
    desk = await desk_over(job)
    desk.loop._execute = lambda *_: 1 / 0
    wish = request(job, terminate())

    with pytest.raises(ZeroDivisionError):
        await desk.process(wish)

    assert wish.answer.result() is None


async def test_a_conflict_reloads_the_state():
    job = running()
    desk = await desk_over(job)
    await desk.store.commit(Changes(updated=(replace(job, tags=(("by", "hand"),)),)))
    desk.tasks.supervise("scheduler", desk.loop.run)

    desk.inbox.post(news(job, exited(0)))
    await asyncio.sleep(5)

    await desk.tasks.cancel()
    assert await desk.status(job) is Status.SUCCEEDED


# ---------------------------------------------------------------------------------------------------- races in one unit


@pytest.mark.fault("SP08")
async def test_terminate_before_an_exit_makes_it_failed():
    job = running(attempts=3)
    desk = await desk_over(job)

    await desk.process(LOOKED, news(job, started()), request(job, terminate()), news(job, exited(0)))

    assert await desk.status(job) is Status.FAILED


@pytest.mark.fault("SP07")
async def test_an_exit_before_terminate_decides():
    job = running()
    desk = await desk_over(job)

    await desk.process(LOOKED, news(job, exited(0)), request(job, terminate()))

    assert await desk.status(job) is Status.SUCCEEDED


@pytest.mark.fault("SP15")
async def test_a_cancel_before_the_placement_wins():
    job = runnable()
    desk = await desk_over(job)

    await desk.process(LOOKED, request(job, cancel()))

    assert (await desk.status(job), desk.asked) == (Status.FAILED, [])


@pytest.mark.fault("SP13")
async def test_terminate_between_two_attempts_prevents_the_next_attempt():
    job = running(attempts=3)
    desk = await desk_over(job)

    await desk.process(LOOKED, news(job, exited(1)), request(job, terminate()))

    assert await desk.status(job) is Status.FAILED
    assert desk.asked == [do.CleanUpContainer(tag=job.tag)]


async def test_a_lost_attempt_is_retried_in_the_same_unit_of_work():
    job = running(attempts=2)
    desk = await desk_over(job)

    await desk.process(LOOKED, news(job, lost()))

    again = desk.loop.state.active[job.id]
    assert desk.asked == [do.CleanUpContainer(tag=job.tag), do.StartContainer(tag=again.tag)]


# -------------------------------------------------------------------------------------------------------------- submits


async def test_a_new_job_is_placed_in_its_first_unit_of_work():
    desk = await desk_over()
    message = submit(ONE)

    await desk.process(LOOKED, message)

    assert message.answer.result().status is Status.STARTING
    assert [it.status for it in await desk.store.history(ONE)] == [Status.SUBMITTED, Status.RUNNABLE, Status.STARTING]


async def test_new_jobs_get_ascending_orders_above_all_earlier_ones():
    before = failed()
    desk = await desk_over(before)
    first, second = submit(ONE), submit(TWO)

    await desk.process(first, second)

    assert [first.answer.result().order, second.answer.result().order] == [before.order + 1, before.order + 2]


async def test_a_submission_repeated_in_a_later_unit_of_work_returns_the_first_job():
    desk = await desk_over()
    first, again = submit(ONE, submission()), submit(TWO, submission())
    await desk.process(first)

    await desk.process(again)

    assert again.answer.result().id == ONE
    assert await desk.store.jobs([TWO]) == {}


async def test_a_submission_repeated_in_the_same_unit_of_work_returns_the_first_job():
    desk = await desk_over()
    first, again = submit(ONE, submission()), submit(TWO, submission())

    await desk.process(first, again)

    assert again.answer.result().id == first.answer.result().id == ONE


async def test_two_submissions_without_a_key_are_two_jobs():
    desk = await desk_over()

    await desk.process(submit(ONE), submit(TWO))

    assert len(await desk.store.jobs([ONE, TWO])) == 2


async def test_a_job_for_a_deleted_queue_is_refused():
    desk = await desk_over()
    message = submit(ONE, queue="gone")

    await desk.process(message)

    assert isinstance(message.answer.exception(), Invalid)
    assert await desk.store.jobs([ONE]) == {}


async def test_a_job_for_a_queue_disabled_before_the_unit_of_work_is_refused():
    desk = await desk_over(on_ground=ground(queue(state=State.DISABLED)))
    message = submit(ONE)

    await desk.process(message)

    assert isinstance(message.answer.exception(), Invalid)
    assert await desk.store.jobs([ONE]) == {}


# ------------------------------------------------------------------------------------------------- while nobody answers


async def test_no_job_is_placed_before_the_first_survey():
    desk = await desk_over()
    message = submit(ONE)

    await desk.process(message)

    assert message.answer.result().status is Status.RUNNABLE
    assert desk.asked == []


async def test_waiting_jobs_are_placed_when_the_engine_answers():
    job = runnable()
    desk = await desk_over(job)
    await desk.process(EngineLost())

    await desk.process(LOOKED)

    assert await desk.status(job) is Status.STARTING


async def test_no_job_is_placed_while_the_engine_is_lost():
    desk = await desk_over()
    await desk.process(LOOKED)

    await desk.process(EngineLost(), submit(ONE))

    assert desk.asked == []


async def test_a_running_job_is_not_lost_while_the_engine_does_not_answer():
    job = running()
    desk = await desk_over(job)

    await desk.process(EngineLost())

    assert await desk.status(job) is Status.RUNNING


# -------------------------------------------------------------------------------------------------------------- surveys


async def test_a_survey_repeats_the_start_of_a_starting_job():
    job = starting()
    desk = await desk_over(job)

    await desk.process(LOOKED)

    assert desk.asked == [do.StartContainer(tag=job.tag)]


async def test_a_survey_without_the_container_loses_the_attempt():
    job = running()
    desk = await desk_over(job)

    await desk.process(SurveyCompleted(containers=(), expected=desk.loop.running(), capacity=HOST))

    assert await desk.status(job) is Status.FAILED


async def test_a_changed_catalog_makes_jobs_schedulable_and_places_them():
    huge, on_ground = runnable(millicpus=9000), ground()
    desk = await desk_over(huge, on_ground=on_ground)
    await desk.process(LOOKED)
    on_ground.environments.update(ground(environments=[environment(max_millicpus=9000)]).environments)

    await desk.process(CatalogChanged())

    assert await desk.status(huge) is Status.STARTING


async def test_the_loss_of_one_container_abandons_the_start_of_another():
    job = after(tasked(task_container("app"), task_container("other")), runs("0/app"))
    desk = await desk_over(job)
    app, other = (replace(job.tag, container_key=key) for key in ("0/app", "0/other"))

    await desk.process(SurveyCompleted(containers=(), expected=frozenset({app}), capacity=HOST))

    about_other = [it for it in desk.asked if it.tag == other]
    assert about_other[-2:] == [do.StartContainer(tag=other), do.AbandonStart(tag=other)]
