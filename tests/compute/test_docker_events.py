"""The engine's events as reports of deaths, with the inspections of other threads. Without an engine."""

import asyncio
from queue import SimpleQueue

import pytest

from batchq.compute.docker.create_request import container_labels
from batchq.compute.docker.events import DeathSubscription
from batchq.errors import RuntimeUnknown
from batchq.ports.runtime import ContainerState, DeathReport, Inspection
from tests.support.containers import death_of, new_tag

INSTANCE = "i"


class Stream:
    """The engine's stream of die events, until it is closed."""

    def __init__(self):
        self._events = SimpleQueue()

    def __iter__(self):
        return iter(self._events.get, None)

    def add(self, *tags):
        for tag in tags:
            self._events.put({"Actor": {"Attributes": container_labels(INSTANCE, tag)}})

    def close(self):
        self._events.put(None)


class Engine:
    """`try_inspect` returns the outcomes in `found`; inspections of `hangs` never end.

    For other tags no thread is idle. `recorded` has the outcomes that were recorded.
    """

    def __init__(self):
        self.stream = Stream()
        self.found, self.hanging, self.recorded = {}, {}, []

    def subscribe(self, _):
        return self.stream

    def close(self):
        pass

    def hangs(self, tag):
        self.hanging[tag] = None

    def try_inspect(self, tag, then):
        if tag in self.hanging:
            self.hanging[tag] = then
        elif tag in self.found:
            then(self.found[tag])
        return tag in self.hanging or tag in self.found

    def on_outcome(self, tag, outcome):
        self.recorded.append((tag, outcome))

    def subscribe_to_deaths(self):
        return DeathSubscription(lambda: self, INSTANCE, try_inspect=self.try_inspect, on_outcome=self.on_outcome)


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def tag():
    return new_tag()


@pytest.mark.parametrize(
    "outcome",
    [
        Inspection(tag=new_tag(), state=ContainerState.GOING),
        None,
        RuntimeUnknown("no reply"),
        AssertionError("nonsense"),
    ],
    ids=["inspection", "removed container", "failed inspection", "bug"],
)
async def test_a_death_is_reported_with_its_inspection_or_after_a_failed_one_by_its_tag(engine, tag, outcome):
    engine.found[tag] = outcome

    async with engine.subscribe_to_deaths() as reports:
        engine.stream.add(tag)

        failed = isinstance(outcome, Exception)
        assert await anext(reports) == (tag if failed else DeathReport(tag=tag, found=outcome))
    assert engine.recorded == [(tag, outcome)]


async def test_without_an_idle_thread_only_the_tag_is_reported(engine, tag):
    async with engine.subscribe_to_deaths() as reports:
        engine.stream.add(tag)

        assert await anext(reports) == tag


@pytest.mark.fault("SP24")
async def test_an_inspection_that_hangs_does_not_delay_other_reports(engine, tag):
    stuck = new_tag()
    engine.hangs(stuck)

    async with engine.subscribe_to_deaths() as reports:
        engine.stream.add(stuck, tag)

        assert await anext(reports) == tag


async def test_reports_before_the_end_of_the_stream_are_delivered(engine, tag):
    engine.found[tag] = None

    async with engine.subscribe_to_deaths() as reports:
        engine.stream.add(tag)
        engine.stream.close()

        assert [report async for report in reports] == [DeathReport(tag=tag, found=None)]


async def test_an_outcome_after_the_subscription_is_still_recorded(engine, tag):
    engine.hangs(tag)
    async with engine.subscribe_to_deaths() as reports:
        engine.stream.add(tag, new_tag())
        await anext(reports)

    await asyncio.to_thread(engine.hanging[tag], None)

    assert engine.recorded[-1] == (tag, None)


def test_an_outcome_after_the_end_of_the_loop_is_dropped(engine, tag):
    engine.hangs(tag)

    async def listen():
        async with engine.subscribe_to_deaths() as reports:
            engine.stream.add(tag, other := new_tag())
            await death_of(reports, other)

    asyncio.run(listen())

    engine.hanging[tag](None)
