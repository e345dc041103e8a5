"""Each kind of call has its own threads: a full pool delays no call of another kind."""

import asyncio
import threading
from pathlib import Path
from queue import SimpleQueue

import pytest
from requests.exceptions import ReadTimeout

from batchq.compute.docker.client import ClientFactory
from batchq.compute.docker.operation_pools import LIMITS, OperationPools, UnresponsiveContainers
from batchq.errors import ContainerGone, RuntimeUnknown
from batchq.ports.runtime import ContainerState, Inspection
from tests.support.containers import new_tag, until

STARTS = ("create", "start", "pull")
OTHERS = ("inspect", "stop", "kill", "remove", "logs", "survey", "sweep")


class FakeClientFactory(ClientFactory):
    """Makes clients without an engine."""

    def get_client(self, before, *, receive_timeout):
        return before or FakeClient()


class FakeClient:
    def close(self):
        pass


@pytest.fixture
async def pools():
    spec = OperationPools(FakeClientFactory(None), LIMITS, UnresponsiveContainers())
    yield spec
    await spec.close()


@pytest.fixture
def hang():
    """The event that a call to a silent engine waits for."""
    event = threading.Event()
    yield event
    event.set()


def fill(pools, call, hang):
    """More of these calls than there are threads."""
    return [asyncio.ensure_future(pools.run_for_container(new_tag(), call, lambda _: hang.wait())) for _ in range(100)]


@pytest.mark.parametrize(
    ("busy", "call"),
    [*((STARTS, other) for other in OTHERS), (("create",), "start"), (("kill",), "stop"), (("stop",), "kill")],
)
async def test_a_call_does_not_wait_for_calls_of_other_kinds(pools, hang, busy, call):
    hanging = [call for kind in busy for call in fill(pools, kind, hang)]

    assert await pools.run_for_container(new_tag(), call, lambda _: "done") == "done"

    hang.set()
    await asyncio.gather(*hanging)


@pytest.fixture
def outcomes():
    return SimpleQueue()


async def offered(pools, tag, work, outcomes):
    """The outcome of an inspection, which is offered until an idle thread takes it."""
    await pools.run_for_container(new_tag(), "inspect", lambda _: "so that there is a thread")

    async def is_taken():
        return pools.offer(tag, "inspect", work, outcomes.put)

    await until(is_taken)
    return await asyncio.to_thread(outcomes.get, timeout=60)


def silent():
    unknown = RuntimeUnknown("no answer")
    unknown.__cause__ = ReadTimeout()
    return unknown


async def test_an_idle_thread_passes_the_result_or_the_error_to_the_callback_and_continues(pools, outcomes):
    assert await offered(pools, new_tag(), type, outcomes) is FakeClient
    unanswered = await offered(pools, new_tag(), lambda client: client.connect(), outcomes)
    refused = await offered(pools, new_tag(), lambda _: Path("/nowhere").read_text(), outcomes)

    assert (type(unanswered), type(refused)) == (AttributeError, RuntimeUnknown)
    assert await pools.run_for_container(new_tag(), "inspect", lambda _: "done") == "done"


async def test_an_offer_is_declined_before_a_thread_exists(pools, outcomes):
    assert not pools.offer(new_tag(), "inspect", lambda _: "done", outcomes.put)


async def test_an_offer_is_declined_while_all_threads_are_busy(pools, hang, outcomes):
    busy = fill(pools, "inspect", hang)
    await asyncio.sleep(0)

    assert not pools.offer(new_tag(), "inspect", lambda _: "done", outcomes.put)

    hang.set()
    await asyncio.gather(*busy)


async def test_an_offer_is_declined_after_close(pools, outcomes):
    await pools.run_for_container(new_tag(), "inspect", lambda _: "so that there is a thread")
    await pools.close()

    assert not pools.offer(new_tag(), "inspect", lambda _: "done", outcomes.put)


@pytest.mark.fault("SP24")
async def test_a_timeout_opens_the_breaker_and_offers_are_declined(pools, outcomes):
    tag = new_tag()
    await offered(pools, tag, lambda _: "so that one has nothing to do", outcomes)

    pools.record_outcome(tag, silent())

    assert not pools.offer(tag, "inspect", lambda _: "done", outcomes.put)


@pytest.mark.parametrize("outcome", [None, ContainerGone("not there")], ids=["answered", "refused"])
async def test_a_reply_closes_the_breaker(pools, outcomes, outcome):
    tag = new_tag()
    pools.record_outcome(tag, silent())

    pools.record_outcome(tag, outcome)

    assert await offered(pools, tag, lambda _: "done", outcomes) == "done"


async def test_calls_about_silent_containers_use_separate_threads(pools, hang):
    """Each has been silent once; their next calls hang."""
    tags = [new_tag() for _ in range(100)]
    for tag in tags:
        pools.record_outcome(tag, silent())

    begun = threading.Semaphore(0)
    hanging = [
        asyncio.ensure_future(pools.run_for_container(tag, "inspect", lambda _: (begun.release(), hang.wait())))
        for tag in tags
    ]
    pools._silent_containers.survey_failed()
    pools._silent_containers.survey_succeeded(Inspection(tag=tag, state=ContainerState.RUNNING) for tag in tags)
    for _ in range(LIMITS.silent):
        await asyncio.to_thread(begun.acquire)

    assert await pools.run_for_container(new_tag(), "inspect", lambda _: "done") == "done"
    hang.set()
    await asyncio.gather(*hanging)
