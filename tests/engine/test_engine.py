"""The engine's requests, whose callers may be cancelled."""

import asyncio
import gc
import weakref

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain import events as on
from batchq.domain.bulk_stop import JobOutcome
from batchq.domain.container import Resources
from batchq.domain.enums import Outcome, StopKind
from batchq.domain.job_selection import JobSelection
from batchq.domain.machines import one_machine
from batchq.domain.stop_request import StopRequest
from batchq.engine.engine import Engine
from batchq.engine.mailbox import Mailbox
from batchq.errors import Invalid, StoreFailed
from tests.engine.harness import ONE, harness_with
from tests.support import builders
from tests.support.builders import NO_ACCOUNTS
from tests.support.clock import VirtualClock
from tests.support.inline import InlineStore, temporary_checkpoints
from tests.support.stubs import NoObserver

UNKNOWN = builders.spec(queue="unknown")


async def test_a_request_is_carried_out_although_its_caller_was_cancelled():
    engine, harness = unstarted(mailbox := Mailbox()), await harness_with(waiting := builders.job())
    call = asyncio.create_task(
        engine.deliver(waiting.id, on.CancelRequested(reason="not needed"), caller=builders.ADMIN)
    )
    (message,) = await mailbox.take(1)

    call.cancel()
    await asyncio.wait([call])
    await harness.process(message)

    assert await harness.status(waiting) == "FAILED"


async def test_a_refused_request_of_a_cancelled_caller_raises_no_error():
    engine, harness = unstarted(mailbox := Mailbox()), await harness_with()
    call = asyncio.create_task(engine.submit(job_id=ONE, spec=UNKNOWN, tags=(), key=None, caller=builders.ADMIN))
    (message,) = await mailbox.take(1)

    call.cancel()
    await asyncio.wait([call])
    await harness.process(message)

    assert message.answer.cancelled()


async def test_no_error_is_logged_when_a_caller_is_cancelled_while_it_is_refused():
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
    mailbox = Mailbox()
    engine = unstarted(mailbox)
    call = asyncio.create_task(
        engine.deliver(builders.job_id(1), on.CancelRequested(reason="not needed"), caller=builders.ADMIN)
    )
    (message,) = await mailbox.take(1)

    message.answer.set_exception(StoreFailed("no space left on device"))
    call.cancel()
    await asyncio.wait([call])
    del call, message
    gc.collect()

    assert errors == []


async def test_requests_sent_together_succeed_or_fail_independently():
    engine = unstarted(mailbox := Mailbox())
    harness = await harness_with(first := builders.job(number=1), second := builders.job(number=2))
    request = on.CancelRequested(reason="not needed")
    requests = [(first.id, request), (second.id, on.ForceFailed(reason="it hangs")), (second.id, request)]
    call = asyncio.create_task(engine.deliver_all(requests, caller=builders.ADMIN))

    await harness.process(*await mailbox.take(len(requests)))

    accepted, refused, accepted_too = await call
    assert (accepted, type(refused), accepted_too) == (None, Invalid, None)
    assert (await harness.status(first), await harness.status(second)) == ("FAILED", "FAILED")


async def test_a_request_sent_with_others_that_has_no_outcome_is_not_reported_as_done():
    engine = unstarted(mailbox := Mailbox())
    requests = [(builders.job_id(number), on.CancelRequested(reason="not needed")) for number in (1, 2)]
    call = asyncio.create_task(engine.deliver_all(requests, caller=builders.ADMIN))
    done, without_outcome = await mailbox.take(2)

    done.answer.set_result(None)
    without_outcome.answer.cancel()
    await asyncio.wait([call])

    assert call.cancelled()


async def test_requests_sent_together_are_carried_out_although_their_caller_was_cancelled():
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda _, error: errors.append(error))
    engine = unstarted(mailbox := Mailbox())
    harness = await harness_with(first := builders.job(number=1), second := builders.job(number=2))
    request, invalid = on.CancelRequested(reason="not needed"), on.ForceFailed(reason="it hangs")
    call = asyncio.create_task(
        engine.deliver_all([(first.id, request), (second.id, invalid), (second.id, request)], caller=builders.ADMIN)
    )
    messages = await mailbox.take(3)

    messages[1].answer.set_exception(Invalid("not this one"))
    call.cancel()
    await asyncio.wait([call])
    await harness.process(*messages)
    del call, messages
    gc.collect()

    assert (await harness.status(first), await harness.status(second)) == ("FAILED", "FAILED")
    assert errors == []


async def test_outcomes_are_dropped_once_the_client_disconnects():
    mailbox, result = Mailbox(), frozenset({JobOutcome(job_id=builders.job_id(1), outcome=Outcome.CANCELLED)})
    engine = unstarted(mailbox)
    call = asyncio.create_task(
        engine.stop_many(StopRequest(kind=StopKind.CANCEL, reason="not needed"), JobSelection(), caller=builders.ADMIN)
    )
    (message,) = await mailbox.take(1)
    message.answer.set_result(None)
    outcomes = await call
    message.report(result)
    reference = weakref.ref(result)
    assert await anext(outcomes) == result

    await outcomes.aclose()
    del outcomes, call
    message.report(result)
    del result
    gc.collect()

    assert reference() is None


def unstarted(mailbox):
    """An engine whose loop does not run: the test reads the mailbox."""
    clock = VirtualClock()
    return Engine(
        mailbox=mailbox,
        store=InlineStore(),
        catalog=None,
        runtime=SimulatedRuntime(clock=clock, machines=one_machine(Resources(millicpus=1000, memory_mib=1024))),
        accounts=NO_ACCOUNTS,
        checkpoints=temporary_checkpoints(clock.now),
        checkpoint_retention=None,
        capture_log=None,
        follow_logs=lambda _job: None,
        read_metrics=None,
        clock=clock,
        survey_interval=10.0,
        observer=NoObserver(),
    )
