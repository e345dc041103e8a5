"""The mailbox: a batch has all messages that are about to arrive, and no message can delay it for long."""

import asyncio
from collections.abc import Iterable
from itertools import count

import pytest

from batchq.domain import events as on
from batchq.engine.mailbox import ENOUGH_MESSAGES, LOW_PRIORITY_DELAY, QUIET_ITERATIONS, JobEvent, Mailbox
from tests.support import builders


async def test_messages_about_to_arrive_are_in_the_same_batch():
    mailbox = Mailbox()
    posting = asyncio.create_task(posted(mailbox, [1, 2, 3]))

    taken = await mailbox.take(10)

    assert numbers_of(taken) == [1, 2, 3]
    await posting


async def test_the_next_requests_of_clients_answered_together_are_in_one_batch():
    mailbox = Mailbox()
    mailbox.post(message(1), message(2), message(3))
    await mailbox.take(10)
    mailbox.post(message(4))
    posting = asyncio.create_task(posted_after(mailbox, QUIET_ITERATIONS + 1, [5, 6]))

    taken = await mailbox.take(10)

    assert numbers_of(taken) == [4, 5, 6]
    await posting


async def test_the_mailbox_does_not_wait_for_clients_that_send_no_further_request():
    mailbox = Mailbox()
    mailbox.post(*(message(index) for index in range(1, 200)))
    await mailbox.take(1000)
    mailbox.post(message(200))

    assert numbers_of(await mailbox.take(10)) == [200]


async def test_the_mailbox_does_not_wait_after_messages_without_a_caller():
    mailbox = Mailbox()
    mailbox.post(message(1), low_priority_message(2), low_priority_message(3), low_priority_message(4))
    await mailbox.take(10)
    mailbox.post(message(5))
    posting = asyncio.create_task(posted_after(mailbox, QUIET_ITERATIONS + 1, [6]))

    taken = await mailbox.take(10)

    assert numbers_of(taken) == [5]
    await posting


async def test_a_second_message_that_comes_alone_is_taken_without_waiting_for_others():
    mailbox = Mailbox()
    mailbox.post(message(1))
    await mailbox.take(10)
    mailbox.post(message(2))
    posting = asyncio.create_task(posted_after(mailbox, QUIET_ITERATIONS - 1, [3]))

    taken = await mailbox.take(10)

    assert numbers_of(taken) == [2]
    await posting


async def test_an_endless_stream_of_messages_does_not_delay_a_batch():
    mailbox = Mailbox()
    stream = asyncio.create_task(posted(mailbox, count(1)))

    taken = await mailbox.take(1000)

    assert numbers_of(taken) == list(range(1, ENOUGH_MESSAGES + 1))
    stream.cancel()
    await asyncio.wait([stream])


async def test_each_message_is_taken_once_in_the_order_of_arrival():
    mailbox = Mailbox()
    posting = asyncio.create_task(posted(mailbox, range(1, 201)))
    await posting

    taken = [await mailbox.take(most) for most in (1, 70, 1000)]

    assert [number for each in taken for number in numbers_of(each)] == list(range(1, 201))
    assert mailbox.is_empty


async def test_a_low_priority_message_is_taken_with_the_next_message():
    mailbox = Mailbox()
    mailbox.post(low_priority_message(1))
    reader = asyncio.create_task(mailbox.take(10))
    await iterations(20)
    unread_alone = not reader.done()
    mailbox.post(message(2))

    taken = await reader

    assert unread_alone
    assert numbers_of(taken) == [1, 2]


async def test_each_low_priority_message_alone_is_taken_after_its_own_delay():
    mailbox = Mailbox()

    for number in (1, 2):
        mailbox.post(low_priority_message(number))
        assert numbers_of(await asyncio.wait_for(mailbox.take(10), 2 * LOW_PRIORITY_DELAY)) == [number]
        assert asyncio.get_running_loop().time() == pytest.approx(number * LOW_PRIORITY_DELAY)


async def test_a_taken_low_priority_message_leaves_no_timer():
    mailbox = Mailbox()
    mailbox.post(low_priority_message(1))
    mailbox.post(message(2))
    mailbox.post(low_priority_message(3))
    await mailbox.take(10)
    reader = asyncio.create_task(mailbox.take(10))

    await asyncio.sleep(2 * LOW_PRIORITY_DELAY)

    assert not reader.done()
    reader.cancel()
    await asyncio.wait([reader])


@pytest.mark.parametrize("rounds", range(8))
async def test_a_cancelled_take_loses_no_message(rounds):
    mailbox = Mailbox()
    mailbox.post(message(1))
    reader = asyncio.create_task(mailbox.take(10))
    await iterations(rounds)

    reader.cancel()
    await asyncio.wait([reader])

    assert mailbox.is_empty is not reader.cancelled()


def message(number: int) -> JobEvent:
    request = on.CancelRequested(reason="not needed")
    return JobEvent(job_id=builders.job_id(number), event=request, caller=builders.ADMIN)


def low_priority_message(number: int) -> JobEvent:
    started = on.ContainerStarted(attempt=1, started_at=builders.NOON)
    return JobEvent(job_id=builders.job_id(number), event=started, low_priority=True)


def numbers_of(messages):
    numbers = {builders.job_id(index): index for index in range(1, 1000)}
    return [numbers[other_message.job_id] for other_message in messages]


async def posted(mailbox: Mailbox, numbers: Iterable[int]) -> None:
    """Post a message in each iteration of the event loop."""
    for number in numbers:
        mailbox.post(message(number))
        await iterations(1)


async def posted_after(mailbox: Mailbox, rounds: int, numbers: Iterable[int]) -> None:
    await iterations(rounds)
    await posted(mailbox, numbers)


async def iterations(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
