"""Each kind of call has threads of its own: what fills those of one holds up no other."""

import asyncio
import threading

import pytest

from compute.docker_client import Door
from compute.doubts import Doubts
from compute.lanes import LIMITS, Lanes
from tests.support.containers import new_tag

STARTS = ("create", "start", "pull")
OTHERS = ("inspect", "stop", "kill", "remove", "logs", "survey", "sweep")


class NobodysDoor(Door):
    """Nothing is asked of an engine here."""

    def client(self, before, *, patience):
        return before or Nobody()


class Nobody:
    def close(self):
        pass


@pytest.fixture
async def lanes():
    it = Lanes(NobodysDoor(None), LIMITS, Doubts())
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
