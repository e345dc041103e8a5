"""The mailbox: a batch has all messages that are about to arrive, and no message can delay it for long."""

import asyncio
from collections.abc import Iterable
from itertools import count

import pytest

from batchq.domain import events as on
from batchq.engine.mailbox import ENOUGH_MESSAGES, LOW_PRIORITY_DELAY, QUIET_ITERATIONS, JobEvent, Mailbox
from tests.support import builders


async def test_messages_about_to_arrive_are_in_the_same_batch():
    inbox = Mailbox()
    coming = asyncio.create_task(posted(inbox, [1, 2, 3]))

    taken = await inbox.take(10)

    assert of(taken) == [1, 2, 3]
    await coming


async def test_the_next_requests_of_clients_answered_together_are_in_one_batch():
    inbox = Mailbox()
    inbox.post(message(1), message(2), message(3))
    await inbox.take(10)
    inbox.post(message(4))
    coming = asyncio.create_task(posted_after(inbox, QUIET_ITERATIONS + 1, [5, 6]))

    taken = await inbox.take(10)

    assert of(taken) == [4, 5, 6]
    await coming


async def test_the_mailbox_does_not_wait_for_clients_that_send_no_further_request():
    inbox = Mailbox()
    inbox.post(*(message(it) for it in range(1, 200)))
    await inbox.take(1000)
    inbox.post(message(200))

    assert of(await inbox.take(10)) == [200]


async def test_the_mailbox_does_not_wait_after_messages_without_a_caller():
    inbox = Mailbox()
    inbox.post(message(1), news(2), news(3), news(4))
    await inbox.take(10)
    inbox.post(message(5))
    coming = asyncio.create_task(posted_after(inbox, QUIET_ITERATIONS + 1, [6]))

    taken = await inbox.take(10)

    assert of(taken) == [5]
    await coming


async def test_an_endless_stream_of_messages_does_not_delay_a_batch():
    inbox = Mailbox()
    stream = asyncio.create_task(posted(inbox, count(1)))

    taken = await inbox.take(1000)

    assert of(taken) == list(range(1, ENOUGH_MESSAGES + 1))
    stream.cancel()
    await asyncio.wait([stream])


async def test_each_message_is_taken_once_in_the_order_of_arrival():
    inbox = Mailbox()
    coming = asyncio.create_task(posted(inbox, range(1, 201)))
    await coming

    taken = [await inbox.take(most) for most in (1, 70, 1000)]

    assert [it for each in taken for it in of(each)] == list(range(1, 201))
    assert inbox.is_empty


async def test_a_low_priority_message_is_taken_with_the_next_message():
    inbox = Mailbox()
    inbox.post(news(1))
    reader = asyncio.create_task(inbox.take(10))
    await iterations(20)
    unread_alone = not reader.done()
    inbox.post(message(2))

    taken = await reader

    assert unread_alone
    assert of(taken) == [1, 2]


async def test_a_low_priority_message_alone_is_taken_after_the_delay():
    inbox = Mailbox()
    inbox.post(news(1))

    taken = await inbox.take(10)

    assert of(taken) == [1]
    assert asyncio.get_running_loop().time() == pytest.approx(LOW_PRIORITY_DELAY)


async def test_a_second_low_priority_message_is_taken_after_its_own_delay():
    inbox = Mailbox()
    inbox.post(news(1))
    await inbox.take(10)
    inbox.post(news(2))

    taken = await asyncio.wait_for(inbox.take(10), 2 * LOW_PRIORITY_DELAY)

    assert of(taken) == [2]


async def test_a_taken_low_priority_message_leaves_no_timer():
    inbox = Mailbox()
    inbox.post(news(1))
    inbox.post(message(2))
    inbox.post(news(3))
    await inbox.take(10)
    reader = asyncio.create_task(inbox.take(10))

    await asyncio.sleep(2 * LOW_PRIORITY_DELAY)

    assert not reader.done()
    reader.cancel()
    await asyncio.wait([reader])


@pytest.mark.parametrize("rounds", range(8))
async def test_a_cancelled_take_loses_no_message(rounds):
    inbox = Mailbox()
    inbox.post(message(1))
    reader = asyncio.create_task(inbox.take(10))
    await iterations(rounds)

    reader.cancel()
    await asyncio.wait([reader])

    assert inbox.is_empty is not reader.cancelled()


def message(number: int) -> JobEvent:
    request = on.CancelRequested(reason="not needed")
    return JobEvent(job_id=builders.job_id(number), event=request, caller=builders.ADMIN)


def news(number: int) -> JobEvent:
    started = on.ContainerStarted(attempt=1, started_at=builders.NOON)
    return JobEvent(job_id=builders.job_id(number), event=started, low_priority=True)


def of(messages):
    numbers = {builders.job_id(it): it for it in range(1, 1000)}
    return [numbers[it.job_id] for it in messages]


async def posted(inbox: Mailbox, numbers: Iterable[int]) -> None:
    """Post a message in each iteration of the event loop."""
    for number in numbers:
        inbox.post(message(number))
        await iterations(1)


async def posted_after(inbox: Mailbox, rounds: int, numbers: Iterable[int]) -> None:
    await iterations(rounds)
    await posted(inbox, numbers)


async def iterations(times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(0)
