"""Each job has at most one timer, which fires when it is due. The tests use a virtual clock."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain.events import TerminateRequested
from batchq.engine.background import Timers
from batchq.engine.mailbox import TimerFired
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


class Bell:
    """Alarms that run, and what they rang, with the seconds since noon."""

    def __init__(self):
        self.clock = VirtualClock()
        self.alarms = Timers(clock=self.clock, post=self._hear)
        self.rang = []

    def _hear(self, ring):
        self.rang.append((ring.job_id, (self.clock.now() - at(0)).total_seconds()))


@pytest.fixture
async def bell():
    bell = Bell()
    task = asyncio.create_task(bell.alarms.run())
    await bell.clock.sleep(0)
    yield bell
    task.cancel()
    await asyncio.wait([task])


async def test_a_timer_fires_once_when_it_is_due(bell):
    job = running(timeout=MINUTE)

    bell.alarms.set(job)
    await bell.clock.sleep(1000)

    assert bell.rang == [(job.id, 60)]


async def test_an_overdue_timer_fires_at_once(bell):
    job = running(timeout=MINUTE)
    await bell.clock.sleep(500)

    bell.alarms.set(job)
    await bell.clock.sleep(1)

    assert bell.rang == [(job.id, 500)]


async def test_timers_fire_in_the_order_of_their_due_times(bell):
    late, soon = running(timeout=2 * MINUTE), running(timeout=MINUTE)

    bell.alarms.set(late)
    bell.alarms.set(soon)
    await bell.clock.sleep(1000)

    assert bell.rang == [(soon.id, 60), (late.id, 120)]


async def test_all_timers_due_at_one_time_fire(bell):
    first, second = running(timeout=MINUTE), running(timeout=MINUTE)

    bell.alarms.set(first)
    bell.alarms.set(second)
    await bell.clock.sleep(1000)

    assert sorted(bell.rang) == sorted([(first.id, 60), (second.id, 60)])


async def test_an_earlier_timer_ends_the_wait_for_a_later_one(bell):
    late, soon = running(timeout=10 * MINUTE), running(timeout=MINUTE)
    bell.alarms.set(late)
    await bell.clock.sleep(30)

    bell.alarms.set(soon)
    await bell.clock.sleep(100)

    assert bell.rang == [(soon.id, 60)]


async def test_a_timer_moved_earlier_fires_once_at_the_earlier_time(bell):
    job = running(timeout=10 * MINUTE, stop_grace=timedelta(seconds=5))
    bell.alarms.set(job)

    bell.alarms.set(after(job, terminate(), signal_delivered()))
    await bell.clock.sleep(1000)

    assert bell.rang == [(job.id, 5)]


async def test_a_timer_moved_later_fires_once_at_the_later_time(bell):
    job = running(timeout=MINUTE, stop_grace=3 * MINUTE)
    bell.alarms.set(job)

    bell.alarms.set(after(job, terminate(), signal_delivered()))
    await bell.clock.sleep(1000)

    assert bell.rang == [(job.id, 180)]


async def test_a_removed_timer_does_not_fire(bell):
    job = running(timeout=MINUTE)
    bell.alarms.set(job)

    bell.alarms.set(after(job, exited(0)))
    await bell.clock.sleep(1000)

    assert bell.rang == []


async def test_no_timer_is_set_while_a_stop_signal_is_not_delivered(bell):
    job = running(timeout=MINUTE)
    bell.alarms.set(job)

    bell.alarms.set(after(job, terminate()))
    await bell.clock.sleep(1000)

    assert bell.rang == []


async def test_a_timer_set_twice_fires_once(bell):
    job = running(timeout=MINUTE)

    bell.alarms.set(job)
    bell.alarms.set(job)
    await bell.clock.sleep(1000)

    assert bell.rang == [(job.id, 60)]


async def test_a_timer_removed_and_set_again_fires_once(bell):
    job = running(timeout=MINUTE, attempts=2)
    bell.alarms.set(job)
    again = after(job, exited(1), placed(), started(2))

    bell.alarms.set(after(job, exited(1)))
    bell.alarms.set(again)
    await bell.clock.sleep(1000)

    assert bell.rang == [(job.id, 60)]


async def test_the_timer_of_a_killed_job_fires_again_to_repeat_the_kill(bell):
    job = after(running(stop_grace=timedelta(seconds=30)), terminate(), signal_delivered())
    bell.alarms.set(job)
    await bell.clock.sleep(31)

    bell.alarms.set(after(job, grace_expired(), now=at(31)))
    await bell.clock.sleep(1000)

    assert bell.rang == [(job.id, 30), (job.id, 36)]


async def test_a_job_without_a_deadline_has_no_timer(bell):
    bell.alarms.set(starting(timeout=MINUTE))
    bell.alarms.set(running(timeout=None))
    await bell.clock.sleep(1000)

    assert bell.rang == []


async def test_the_timer_fires_for_each_of_two_containers_due_at_once(bell):
    job = after(task_job(app(), sidecar()), runs("0/app"), runs("0/sidecar"), terminate())
    job = after(job, is_signalled("0/app"), is_signalled("0/sidecar"))
    bell.alarms.set(job)
    await bell.clock.sleep(31)

    bell.alarms.set(after(job, due_event(job, at(31)), now=at(31)))
    await bell.clock.sleep(1)

    assert bell.rang == [(job.id, 30), (job.id, 31)]


async def test_removed_timers_do_not_accumulate(bell):
    jobs = [running(timeout=MINUTE) for _ in range(1000)]

    list(map(bell.alarms.set, jobs))
    list(map(bell.alarms.set, (after(job, exited(0)) for job in jobs[:-1])))
    bell.alarms.set(running(timeout=2 * MINUTE))

    assert len(bell.alarms._heap) < 100
    await bell.clock.sleep(1000)
    assert [seconds for _, seconds in bell.rang] == [60, 120]


# ---------------------------------------------------------------------------------------------------------- of several


async def test_a_timeout_applies_after_an_inspection_of_the_essential_container():
    begun = task_job(sidecar(), app(), timeout=MINUTE)
    job = after(begun, runs("0/sidecar"), runs("0/app"))
    harness = await harness_with(job)
    await asyncio.sleep(61)
    look = do.InspectContainer(tag=replace(job.tag, container_key="0/app"))

    await harness.process(
        TimerFired(job_id=job.id),
        TimerFired(job_id=job.id, running_container=replace(job.tag, container_key="0/sidecar")),
    )
    assert harness.effects == [look, look]

    await harness.process(TimerFired(job_id=job.id, running_container=look.tag))
    assert harness.effects[2:] == [
        do.StopContainer(tag=replace(job.tag, container_key=key)) for key in ("0/sidecar", "0/app")
    ]


async def test_an_overdue_container_is_inspected_before_its_dependent_gives_up():
    late = task_container("late", essential=False, start_timeout=MINUTE)
    job = after(task_job(late, app(after={"late": "SUCCESS"})), runs("0/late"))
    harness = await harness_with(job)
    await asyncio.sleep(61)
    look = do.InspectContainer(tag=replace(job.tag, container_key="0/late"))

    await harness.process(TimerFired(job_id=job.id))
    assert harness.effects == [look]

    await harness.process(TimerFired(job_id=job.id, running_container=look.tag))
    assert harness.effects[1:] == [do.StopContainer(tag=look.tag)]


async def test_an_unanswered_inspection_does_not_delay_a_kill():
    late = task_container("late", essential=False, start_timeout=MINUTE)
    waits = task_container("waits", essential=False, after={"late": "SUCCESS"})
    hanging = task_container("hanging", essential=False, stop_timeout=MINUTE)
    nodes = gang(count=2, leader=task(late, waits, app()), each=task(hanging, app()))
    begun = after(
        multi_node_job(nodes),
        runs("0/late"),
        runs("0/app"),
        runs("1/hanging"),
        runs("1/app"),
    )
    job = after(begun, TerminateRequested(reason="this node", node=1), is_signalled("1/hanging"))
    harness = await harness_with(job)
    await asyncio.sleep(61)

    await harness.process(TimerFired(job_id=job.id))

    effects = [(type(it), it.tag.container_key) for it in harness.effects]
    assert effects == [(do.InspectContainer, "0/late"), (do.KillContainer, "1/hanging")]
