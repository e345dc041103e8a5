"""The machine's clock is set while jobs run: the engine's times come from it, batchq's deadlines do not."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.machines import one_machine
from tests.support.builders import task
from tests.support.clock import VirtualClock
from tests.support.inline import InlineLogFiles, InlineStore
from tests.support.scripts import Script, contained
from tests.support.world import HOST, World, running

HOUR = timedelta(hours=1)
LIMIT = 20  # seconds

pytestmark = pytest.mark.fault("TM01")


class Stamped:
    """A runtime; `wrong_by` is the error of its engine's clock."""

    def __init__(self, runtime):
        self._runtime = runtime
        self.wrong_by = timedelta()

    async def inspect(self, tag):
        found = await self._runtime.inspect(tag)
        if found is None or found.started_at is None:
            return found
        stopped = None if found.stopped_at is None else found.stopped_at + self.wrong_by
        return replace(found, started_at=found.started_at + self.wrong_by, stopped_at=stopped)

    def __getattr__(self, name):
        return getattr(self._runtime, name)


@pytest.fixture(params=[-HOUR, HOUR], ids=["set back", "set ahead"])
async def world(request):
    """Its engine's clock is set by an hour with `set_clock`."""
    clock = VirtualClock()
    stamped = Stamped(SimulatedRuntime(clock=clock, machines=one_machine(HOST)))
    world = World(store=InlineStore(), runtime=stamped, archive=InlineLogFiles(), clock=clock, survey_interval=10.0)
    world.set_clock = lambda: setattr(stamped, "wrong_by", request.param)
    async with running(world):
        yield world
    await stamped.close()


async def test_a_job_attached_by_another_server_has_its_whole_timeout(world):
    world.set_clock()
    job = await world.submit_until("start", Script(seconds=LIMIT - 5), limit=LIMIT)
    await world.crash_after("start")

    await world.boot()

    done = await world.wait_for(job, Status.SUCCEEDED)
    assert done.created_at <= done.started_at <= done.stopped_at


async def test_a_task_has_its_whole_timeout_and_no_more(world):
    world.set_clock()
    one = contained("app", Script(seconds=LIMIT - 5))
    long = contained("app", Script(seconds=2 * LIMIT, on_term=1))

    in_time = await world.submit(task=task(one), limit=LIMIT)
    too_late = await world.submit(task=task(long), limit=LIMIT)

    await world.wait_for(in_time, Status.SUCCEEDED)
    late = await world.wait_for(too_late, Status.FAILED, status_reason=status_reasons.TIMED_OUT)
    assert late.started_at <= late.stopped_at


async def test_a_clock_set_while_a_job_runs_changes_no_deadline(world):
    job = await world.start(Script(seconds=LIMIT - 5), limit=LIMIT, attempts=3)

    world.set_clock()

    done = await world.wait_for(job, Status.SUCCEEDED, exit_codes=[0])
    assert done.started_at <= done.stopped_at
