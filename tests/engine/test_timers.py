"""Each job has at most one timer, which fires when it is due. The tests use a virtual clock."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain.events import TerminateRequested
from batchq.engine.mailbox import TimerFired
from batchq.engine.timers import Timers
from tests.domain.lives import (
    after,
    at,
    due_event,
    exited,
    grace_expired,
    placed,
    running,
    signal_delivered,
    started,
    starting,
    terminate,
)
from tests.domain.part_lives import app, is_signalled, multi_node_job, runs, sidecar, task_job
from tests.engine.harness import harness_with
from tests.support.builders import gang, task, task_container
from tests.support.clock import VirtualClock

MINUTE = timedelta(minutes=1)


class TimerHarness:
    """Timers that run, and the messages that they posted: the job and the seconds since noon."""

    def __init__(self):
        self.clock = VirtualClock()
        self.timers = Timers(clock=self.clock, post=self._record)
        self.fired = []

    def _record(self, message):
        self.fired.append((message.job_id, (self.clock.now() - at(0)).total_seconds()))


@pytest.fixture
async def harness():
    harness = TimerHarness()
    task = asyncio.create_task(harness.timers.run())
    await harness.clock.sleep(0)
    yield harness
    task.cancel()
    await asyncio.wait([task])


JOB, OTHER, SLOW = running(timeout=MINUTE), running(timeout=MINUTE), running(timeout=2 * MINUTE)
RETRIED = running(timeout=MINUTE, attempts=2)
SHORT_GRACE = running(timeout=10 * MINUTE, stop_grace=timedelta(seconds=5))
LONG_GRACE = running(timeout=MINUTE, stop_grace=3 * MINUTE)
KILLED = after(running(stop_grace=timedelta(seconds=30)), terminate(), signal_delivered())
TWO_CONTAINERS = after(
    task_job(app(), sidecar()),
    runs("0/app"),
    runs("0/sidecar"),
    terminate(),
    is_signalled("0/app"),
    is_signalled("0/sidecar"),
)

#: The jobs that are set, each after a pause in seconds; and the timers that fire.
TIMERS = {
    "a timer fires once when it is due": ([(0, JOB)], [(JOB, 60)]),
    "an overdue timer fires at once": ([(500, JOB)], [(JOB, 500)]),
    "timers fire in the order of their due times": ([(0, SLOW), (0, JOB)], [(JOB, 60), (SLOW, 120)]),
    "all timers due at one time fire": ([(0, JOB), (0, OTHER)], [(JOB, 60), (OTHER, 60)]),
    "an earlier timer ends the wait for a later one": ([(0, SLOW), (30, JOB)], [(JOB, 60), (SLOW, 120)]),
    "a timer moved earlier fires once": (
        [(0, SHORT_GRACE), (0, after(SHORT_GRACE, terminate(), signal_delivered()))],
        [(SHORT_GRACE, 5)],
    ),
    "a timer moved later fires once": (
        [(0, LONG_GRACE), (0, after(LONG_GRACE, terminate(), signal_delivered()))],
        [(LONG_GRACE, 180)],
    ),
    "a removed timer does not fire": ([(0, JOB), (0, after(JOB, exited(0)))], []),
    "no timer is set while a stop signal is not delivered": ([(0, JOB), (0, after(JOB, terminate()))], []),
    "a timer set twice fires once": ([(0, JOB), (0, JOB)], [(JOB, 60)]),
    "a timer removed and set again fires once": (
        [(0, RETRIED), (0, after(RETRIED, exited(1))), (0, after(RETRIED, exited(1), placed(), started(2)))],
        [(RETRIED, 60)],
    ),
    "the timer of a killed job fires again to repeat the kill": (
        [(0, KILLED), (31, after(KILLED, grace_expired(), now=at(31)))],
        [(KILLED, 30), (KILLED, 36)],
    ),
    "a job without a deadline has no timer": ([(0, starting(timeout=MINUTE)), (0, running(timeout=None))], []),
    "a timer fires for each of two containers due at once": (
        [(0, TWO_CONTAINERS), (31, after(TWO_CONTAINERS, due_event(TWO_CONTAINERS, at(31)), now=at(31)))],
        [(TWO_CONTAINERS, 30), (TWO_CONTAINERS, 31)],
    ),
}


@pytest.mark.parametrize("case", TIMERS)
async def test_timers(harness, case):
    jobs, fired = TIMERS[case]

    for pause, job in jobs:
        await harness.clock.sleep(pause)
        harness.timers.set(job)
    await harness.clock.sleep(1 if "two containers" in case else 1000)

    assert sorted(harness.fired, key=lambda pair: pair[1]) == [(job.id, seconds) for job, seconds in fired]


async def test_removed_timers_do_not_accumulate(harness):
    jobs = [running(timeout=MINUTE) for _ in range(1000)]

    list(map(harness.timers.set, jobs))
    list(map(harness.timers.set, (after(job, exited(0)) for job in jobs[:-1])))
    harness.timers.set(running(timeout=2 * MINUTE))

    assert len(harness.timers._heap) < 100
    await harness.clock.sleep(1000)
    assert [seconds for _, seconds in harness.fired] == [60, 120]


async def test_a_timeout_applies_after_an_inspection_of_the_essential_container():
    begun = task_job(sidecar(), app(), timeout=MINUTE)
    job = after(begun, runs("0/sidecar"), runs("0/app"))
    harness = await harness_with(job)
    await asyncio.sleep(61)
    inspection = do.InspectContainer(tag=replace(job.tag, container_key="0/app"))

    await harness.process(
        TimerFired(job_id=job.id),
        TimerFired(job_id=job.id, running_container=replace(job.tag, container_key="0/sidecar")),
    )
    assert harness.effects == [inspection, inspection]

    await harness.process(TimerFired(job_id=job.id, running_container=inspection.tag))
    assert harness.effects[2:] == [
        do.StopContainer(tag=replace(job.tag, container_key=key)) for key in ("0/sidecar", "0/app")
    ]


async def test_an_overdue_container_is_inspected_before_its_dependent_gives_up():
    late = task_container("late", essential=False, start_timeout=MINUTE)
    job = after(task_job(late, app(after={"late": "SUCCESS"})), runs("0/late"))
    harness = await harness_with(job)
    await asyncio.sleep(61)
    inspection = do.InspectContainer(tag=replace(job.tag, container_key="0/late"))

    await harness.process(TimerFired(job_id=job.id))
    assert harness.effects == [inspection]

    await harness.process(TimerFired(job_id=job.id, running_container=inspection.tag))
    assert harness.effects[1:] == [do.StopContainer(tag=inspection.tag)]


async def test_an_unanswered_inspection_does_not_delay_a_kill():
    late = task_container("late", essential=False, start_timeout=MINUTE)
    waits = task_container("waits", essential=False, after={"late": "SUCCESS"})
    hanging = task_container("hanging", essential=False, stop_timeout=MINUTE)
    nodes = gang(count=2, leader=task(late, waits, app()), each=task(hanging, app()))
    begun = after(multi_node_job(nodes), runs("0/late"), runs("0/app"), runs("1/hanging"), runs("1/app"))
    job = after(begun, TerminateRequested(reason="this node", node=1), is_signalled("1/hanging"))
    harness = await harness_with(job)
    await asyncio.sleep(61)

    await harness.process(TimerFired(job_id=job.id))

    effects = [(type(effect), effect.tag.container_key) for effect in harness.effects]
    assert effects == [(do.InspectContainer, "0/late"), (do.KillContainer, "1/hanging")]
