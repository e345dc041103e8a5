"""Each kind of call has threads of its own: what fills those of one holds up no other."""

import asyncio
import threading
from pathlib import Path
from queue import SimpleQueue

import pytest
from requests.exceptions import ReadTimeout

from batchq.compute.docker.circuit_breaker import SilentContainers
from batchq.compute.docker.client import ClientFactory
from batchq.compute.docker.thread_pools import LIMITS, OperationPools
from batchq.errors import ContainerGone, EngineUnknown
from batchq.ports.runtime import ContainerState, Inspection
from tests.support.containers import new_tag, until

STARTS = ("create", "start", "pull")
OTHERS = ("inspect", "stop", "kill", "remove", "logs", "survey", "sweep")


class NobodysDoor(ClientFactory):
    """Nothing is asked of an engine here."""

    def client(self, before, *, patience):
        return before or Nobody()


class Nobody:
    def close(self):
        pass


@pytest.fixture
async def lanes():
    it = OperationPools(NobodysDoor(None), LIMITS, SilentContainers())
    yield it
    await it.close()


@pytest.fixture
def hang():
    """What a call waits for that the engine does not answer."""
    event = threading.Event()
    yield event
    event.set()


def fill(lanes, call, hang):
    """More of these calls than have a thread."""
    return [asyncio.ensure_future(lanes.about(new_tag(), call, lambda _: hang.wait())) for _ in range(100)]


@pytest.mark.parametrize("call", OTHERS)
async def test_nothing_waits_behind_starts(lanes, hang, call):
    starts = [it for kind in STARTS for it in fill(lanes, kind, hang)]

    assert await lanes.about(new_tag(), call, lambda _: "done") == "done"

    hang.set()
    await asyncio.gather(*starts)


async def test_a_start_does_not_wait_behind_containers_that_are_still_to_be_made(lanes, hang):
    creates = fill(lanes, "create", hang)

    assert await lanes.about(new_tag(), "start", lambda _: "done") == "done"

    hang.set()
    await asyncio.gather(*creates)


@pytest.mark.parametrize("call", ["stop", "kill"])
async def test_stops_and_kills_do_not_wait_for_each_other(lanes, hang, call):
    (other,) = {"stop", "kill"} - {call}
    held = fill(lanes, other, hang)

    assert await lanes.about(new_tag(), call, lambda _: "done") == "done"

    hang.set()
    await asyncio.gather(*held)


@pytest.fixture
def outcomes():
    return SimpleQueue()


async def offered(lanes, tag, work, outcomes):
    """What comes of a look that is offered until a thread takes it, which it does when one has nothing to do."""
    await lanes.about(new_tag(), "inspect", lambda _: "so that there is a thread")

    async def is_taken():
        return lanes.offer(tag, "inspect", work, outcomes.put)

    await until(is_taken)
    return await asyncio.to_thread(outcomes.get, timeout=60)


def silent():
    unknown = EngineUnknown("no answer")
    unknown.__cause__ = ReadTimeout()
    return unknown


async def test_who_has_nothing_to_do_makes_a_call_that_is_offered(lanes, outcomes):
    assert await offered(lanes, new_tag(), type, outcomes) is Nobody


async def test_what_goes_wrong_is_passed_on_and_the_thread_goes_on(lanes, outcomes):
    unanswered = await offered(lanes, new_tag(), lambda client: client.connect(), outcomes)
    refused = await offered(lanes, new_tag(), lambda _: Path("/nowhere").read_text(), outcomes)

    assert (type(unanswered), type(refused)) == (AttributeError, EngineUnknown)
    assert await lanes.about(new_tag(), "inspect", lambda _: "done") == "done"


async def test_nobody_takes_what_is_offered_before_there_is_a_thread(lanes, outcomes):
    assert not lanes.offer(new_tag(), "inspect", lambda _: "done", outcomes.put)


async def test_nobody_takes_what_is_offered_while_all_are_busy(lanes, hang, outcomes):
    busy = fill(lanes, "inspect", hang)
    await asyncio.sleep(0)

    assert not lanes.offer(new_tag(), "inspect", lambda _: "done", outcomes.put)

    hang.set()
    await asyncio.gather(*busy)


async def test_nobody_takes_what_is_offered_when_all_is_closed(lanes, outcomes):
    await lanes.about(new_tag(), "inspect", lambda _: "so that there is a thread")
    await lanes.close()

    assert not lanes.offer(new_tag(), "inspect", lambda _: "done", outcomes.put)


@pytest.mark.fault("SP24")
async def test_one_that_was_silent_is_in_doubt_and_its_next_call_holds_up_nobody(lanes, outcomes):
    tag = new_tag()
    await offered(lanes, tag, lambda _: "so that one has nothing to do", outcomes)

    lanes.learn(tag, silent())

    assert not lanes.offer(tag, "inspect", lambda _: "done", outcomes.put)


@pytest.mark.parametrize("outcome", [None, ContainerGone("not there")], ids=["answered", "refused"])
async def test_one_that_was_answered_for_is_in_doubt_no_more(lanes, outcomes, outcome):
    tag = new_tag()
    lanes.learn(tag, silent())

    lanes.learn(tag, outcome)

    assert await offered(lanes, tag, lambda _: "done", outcomes) == "done"


async def test_calls_about_unresponsive_containers_hold_no_thread_that_others_need(lanes, hang):
    """Each has been silent once; their next calls hang."""
    tags = [new_tag() for _ in range(100)]
    for tag in tags:
        lanes.learn(tag, silent())

    begun = threading.Semaphore(0)
    hanging = [
        asyncio.ensure_future(lanes.about(tag, "inspect", lambda _: (begun.release(), hang.wait()))) for tag in tags
    ]
    lanes._doubts.engine_silent()
    lanes._doubts.engine_told(Inspection(tag=tag, state=ContainerState.RUNNING) for tag in tags)
    for _ in range(LIMITS.stuck):
        await asyncio.to_thread(begun.acquire)

    assert await lanes.about(new_tag(), "inspect", lambda _: "done") == "done"
    hang.set()
    await asyncio.gather(*hanging)
