"""Units of work of the loop: all messages, one commit, and only then the effects."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.enums import State, Status
from batchq.domain.ids import JobId
from batchq.engine.loop import FAILURE_SHOWN_FOR, RETRY_DELAY
from batchq.engine.mailbox import JobEvent, UpdateTags
from batchq.errors import Invalid, StoreFailed, Unavailable
from batchq.ports.jobs import Changes
from tests.domain.lives import after, cancel, exited, placed, runnable, running, terminate
from tests.domain.part_lives import runs, task_job
from tests.engine.harness import (
    ONE,
    SURVEYED,
    TWO,
    answer,
    catalog_of,
    event_message,
    harness_with,
    request,
    submit,
)
from tests.support.builders import ADMIN, queue, submission, task_container


async def test_effects_are_carried_out_after_the_commit():
    job = runnable()
    harness = await harness_with(job)
    statuses = []
    harness.loop._execute = lambda effect, job: statuses.append((effect, harness.store.all_jobs()[job.id].status))

    await harness.process(SURVEYED)

    (stored_job,) = (await harness.store.jobs([job.id])).values()
    assert statuses == [(do.StartContainer(tag=stored_job.tag), Status.STARTING)]


async def test_the_next_container_starts_before_the_ended_one_is_cleaned_up():
    ended, waiting = running(), replace(runnable(), id=TWO, sequence=2)
    harness = await harness_with(ended, waiting)

    await harness.process(SURVEYED, event_message(ended, exited(0)))

    assert [type(effect) for effect in harness.effects] == [do.StartContainer, do.CleanUpContainer]


async def test_a_unit_of_work_that_is_not_saved_changes_nothing():
    job = running()
    harness = await harness_with(job)
    message = request(job, terminate())
    harness.store.failing = True

    await harness.process(message)

    assert isinstance(message.answer.exception(), StoreFailed)
    assert harness.effects == []
    assert await harness.store.history(job.id) == ()
    assert harness.loop.state.active == {job.id: job}
    assert harness.loop.store_failure is not None


async def test_events_of_a_failed_unit_of_work_are_handled_again():
    job = running()
    harness = await harness_with(job)
    harness.store.failing = True
    await harness.process(event_message(job, exited(0)))

    harness.store.failing = False
    await asyncio.sleep(RETRY_DELAY)
    await harness.process(*await harness.mailbox.take(10))

    assert await harness.status(job) is Status.SUCCEEDED
    assert harness.loop.store_failure is None


async def test_a_store_failure_is_reported_for_a_limited_time():
    job = running()
    harness = await harness_with(job)
    harness.store.failing = True
    await harness.process(request(job, terminate()))
    ill = harness.loop.store_failure

    await asyncio.sleep(2 * FAILURE_SHOWN_FOR.total_seconds())

    assert (ill, harness.loop.store_failure) == ("no space left on device", None)


async def test_surveys_of_failed_units_of_work_are_dropped():
    job = running()
    harness = await harness_with(job)
    harness.store.failing = True
    ended = event_message(job, exited(0))

    await harness.process(SURVEYED, ended, SURVEYED)

    await asyncio.sleep(RETRY_DELAY)
    assert await harness.mailbox.take(10) == [ended]


async def test_a_request_is_answered_when_it_is_durable():
    job = running()
    harness = await harness_with(job)
    message = request(job, terminate("enough"))

    await harness.process(message)

    assert message.answer.done()
    assert (await harness.store.jobs([job.id]))[job.id].stop.reason == "enough"


async def test_a_refusal_waits_for_the_commit_of_the_state_that_it_names():
    job = running()
    harness = await harness_with(job)
    pauses = [request(job, on.PauseRequested(reason="later")) for _ in range(2)]

    harness.store.failing = True
    await harness.process(event_message(job, exited(0)), pauses[0])
    harness.store.failing = False
    await harness.process(event_message(job, exited(0)), pauses[1])

    assert [type(pause.answer.exception()) for pause in pauses] == [StoreFailed, Invalid]
    assert "SUCCEEDED" in str(pauses[1].answer.exception())


async def test_a_request_about_an_unknown_job_has_no_effect():
    harness = await harness_with()
    message = JobEvent(job_id=JobId("no such job"), event=cancel(), answer=answer())

    await harness.process(message)

    assert message.answer.result() is None


async def test_a_failing_message_does_not_affect_other_messages():
    job, other = running(), running()
    harness = await harness_with(job, other)
    amend = UpdateTags(job_id=job.id, change=lambda _: 1 / 0, answer=answer(), caller=ADMIN)

    await harness.process(event_message(job, placed()), amend, event_message(other, exited(0)))

    assert isinstance(amend.answer.exception(), Unavailable)
    assert [await harness.status(job), await harness.status(other)] == [Status.RUNNING, Status.SUCCEEDED]


async def test_a_rejected_or_failed_message_is_logged_with_the_jobs_recent_history(caplog):
    job = running()
    harness = await harness_with(job)
    amend = UpdateTags(job_id=job.id, change=lambda _: 1 / 0, answer=answer(), caller=ADMIN)

    await harness.process(event_message(job, placed()), amend)

    rejected, failed = [record.getMessage() for record in caplog.records]
    assert rejected.startswith("message rejected: Placed cannot happen to ")
    assert failed.startswith("message failed: ")
    for line in (rejected, failed):
        assert line.count("attempt 1 placed on local") == 1


async def test_a_failing_request_is_answered_with_the_error():
    job = running()
    harness = await harness_with(job)
    message = request(job, placed())

    await harness.process(message)

    assert "Placed cannot happen" in str(message.answer.exception())


async def test_requests_are_answered_although_a_step_after_the_commit_fails():
    job = running()
    harness = await harness_with(job)
    harness.loop._execute = lambda *_: 1 / 0
    message = request(job, terminate())

    with pytest.raises(ZeroDivisionError):
        await harness.process(message)

    assert message.answer.result() is None


async def test_a_conflict_reloads_the_state():
    job = running()
    harness = await harness_with(job)
    await harness.store.commit(Changes(updated=(replace(job, tags=(("by", "hand"),)),)))
    harness.tasks.supervise("scheduler", harness.loop.run)

    harness.mailbox.post(event_message(job, exited(0)))
    await asyncio.sleep(5)

    await harness.tasks.cancel()
    assert await harness.status(job) is Status.SUCCEEDED


@pytest.mark.fault("SP07")
async def test_an_exit_before_terminate_decides():
    job = running()
    harness = await harness_with(job)

    await harness.process(SURVEYED, event_message(job, exited(0)), request(job, terminate()))

    assert await harness.status(job) is Status.SUCCEEDED


async def test_a_new_job_is_placed_in_its_first_unit_of_work():
    harness = await harness_with()
    message = submit(ONE)

    await harness.process(SURVEYED, message)

    assert message.answer.result().status is Status.STARTING
    assert [job.status for job in await harness.store.history(ONE)] == [
        Status.SUBMITTED,
        Status.RUNNABLE,
        Status.STARTING,
    ]


async def test_a_submission_repeated_in_the_same_unit_of_work_returns_the_first_job():
    harness = await harness_with()
    first, again = submit(ONE, submission()), submit(TWO, submission())

    await harness.process(first, again)

    assert again.answer.result().id == first.answer.result().id == ONE


async def test_a_job_for_a_deleted_queue_is_refused():
    harness = await harness_with()
    message = submit(ONE, queue="gone")

    await harness.process(message)

    assert isinstance(message.answer.exception(), Invalid)
    assert await harness.store.jobs([ONE]) == {}


async def test_a_job_for_a_queue_disabled_before_the_unit_of_work_is_refused():
    harness = await harness_with(catalog=catalog_of(queue(state=State.DISABLED)))
    message = submit(ONE)

    await harness.process(message)

    assert isinstance(message.answer.exception(), Invalid)
    assert await harness.store.jobs([ONE]) == {}


async def test_no_job_is_placed_before_the_first_survey():
    harness = await harness_with()
    message = submit(ONE)

    await harness.process(message)

    assert message.answer.result().status is Status.RUNNABLE
    assert harness.effects == []


async def test_the_loss_of_one_container_abandons_the_start_of_another():
    job = after(task_job(task_container("app"), task_container("other")), runs("0/app"))
    harness = await harness_with(job)
    app, other = (replace(job.tag, container_key=key) for key in ("0/app", "0/other"))

    await harness.process(replace(SURVEYED, expected=frozenset({app})))

    about_other = [effect for effect in harness.effects if effect.tag == other]
    assert about_other[-2:] == [do.StartContainer(tag=other), do.AbandonStart(tag=other)]
