"""A database, container engines, users and invariants, which outlive servers; and one server after another.

`choices` decide on faults; a scenario decides what happens: `random_scenario`, or one of `cases`.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

from batchq.compute.combined_runtime import CombinedRuntime
from batchq.compute.simulated.container import nanoseconds
from batchq.domain.container import Resources
from batchq.domain.enums import FINISHED
from batchq.domain.ids import JobId, MachineName, Tag
from batchq.domain.lifecycle.container_rules import any_awaits_checkpoint
from batchq.domain.machines import Machine, one_machine
from batchq.domain.times import EPOCH
from batchq.engine import bulk_stops, propagation
from batchq.ports.runtime import ContainerRuntime
from tests.simulation import webhooks
from tests.simulation.checkpoints import ObservedCheckpoints
from tests.simulation.choices import Choices
from tests.simulation.client import Client
from tests.simulation.clocks import MachineClock
from tests.simulation.container_engine import FaultyEngine
from tests.simulation.invariants import Invariants
from tests.simulation.run_log import RunLog
from tests.simulation.server import Server
from tests.simulation.store import nothing
from tests.simulation.submissions import DEFINITIONS, EAST_LABEL, LARGEST
from tests.support.clock import VirtualClock
from tests.support.combined import HERE, THERE
from tests.support.inline import InlineLogFiles, database_in_memory, give_back, temporary_checkpoints

HOST = Resources(millicpus=2 * LARGEST, memory_mib=4096)
SMALL = Resources(millicpus=2000, memory_mib=1024)
#: Of the second engine, which runs the jobs of the environment `west`.
FAR_MACHINES = tuple(
    Machine(name=MachineName(name), resources=size, is_enforced=True) for name, size in (("k0", HOST), ("k1", SMALL))
)


def machines_of(count: int) -> tuple[Machine, ...]:
    """So many machines. One could hold every job; the others, which placement fills first, only small ones.

    Every other machine has the label of the environment `east`, and the one that could hold every job.
    """
    if count == 1:
        return one_machine(HOST)
    sizes = [HOST] + [SMALL] * (count - 1)
    return tuple(
        Machine(
            name=MachineName(f"m{number}"),
            resources=size,
            is_enforced=True,
            labels=() if number % 2 else (EAST_LABEL,),
        )
        for number, size in enumerate(sizes)
    )


class World:
    def __init__(
        self, choices: Choices, run_log: RunLog, make_invariants: Callable[..., Invariants] = Invariants
    ) -> None:
        self.run_log = run_log
        self.clock = VirtualClock()
        self.choices = choices
        self.invariants = make_invariants(now=self.clock.now, run_log=run_log)
        self.invariants.groups.is_inexact = bool(choices.restore_rate)
        if self.choices.clock_set_rate:
            self.invariants.times.machine_clock = MachineClock(self.clock.now, self.choices.skew())
        machines = machines_of(self.choices.machine_count)
        far = FAR_MACHINES if self.choices.has_second_engine else ()
        self.invariants.resources.machines = machines + far
        self.invariants.resources.far = frozenset(machine.name for machine in far)
        self.invariants.resources.selects_by_label = choices.selects_by_label
        self.invariants.resources.limit(choices.account_limit)
        #: How far the clock of the checkpoints' disk is ahead of that of the machine.
        self._disk_clock = MachineClock(self.clock.now, timedelta())
        self.archive = InlineLogFiles()
        self.checkpoints = temporary_checkpoints(self._disk_time, self._disk_changed_at, of=ObservedCheckpoints)
        self.checkpoints.checks = self.invariants.checkpoints
        self.invariants.checkpoints.shown_by_disk = self._shown_by_disk
        self.connection = database_in_memory()
        self.machine = FaultyEngine(
            clock=self.clock,
            machines=machines,
            choices=self.choices,
            run_log=run_log,
            invariants=self.invariants,
        )
        self.second: FaultyEngine | None = None
        if far:
            self.second = FaultyEngine(
                clock=self.clock,
                machines=far,
                choices=self.choices,
                run_log=run_log,
                invariants=self.invariants,
                engine_id="second",
            )
        #: The engines of the jobs.
        self.engines = (self.machine,) if self.second is None else (self.machine, self.second)
        # Another engine: too small for any job, so that none is begun there while no attempt is unfinished.
        self.other_engine = FaultyEngine(
            clock=self.clock,
            machines=one_machine(Resources(millicpus=0, memory_mib=0)),
            choices=self.choices,
            run_log=run_log,
            invariants=self.invariants,
            engine_id="another",
        )
        self.receiver = webhooks.Receiver(choices, run_log)
        self.server: Server | None = None
        self.on_other_engine = False
        self.client = Client(
            server=lambda: self.server,
            clock=self.clock,
            choices=self.choices,
            run_log=run_log,
            invariants=self.invariants,
        )
        propagation.MAX_CHILDREN = self.choices.world.choice(
            [1, 3, propagation.MAX_CHILDREN]
        )  # of an array, in a unit of work
        bulk_stops.MAX_STOPS = self.choices.sweeps.choice([1, 3, bulk_stops.MAX_STOPS])  # of an order
        #: Called after the end of a server, before the next one.
        self.between_servers: Callable[[], None] = nothing
        self._grace = timedelta(seconds=self.choices.grace())
        self._tasks: set[asyncio.Task[None]] = set()

    async def create_catalog(self) -> None:
        """Create the catalog with a server whose engine does not run."""
        for each in self.engines:
            each.engine.missing_images |= {DEFINITIONS["pulled"]: None, DEFINITIONS["missing"]: "not found"}
        self.server = self._make_server()
        await self.server.align()
        self.server.ready = True
        await self.client.create_catalog()
        if self.choices.has_webhook:
            await webhooks.create(self.server.store)

    async def serve(self) -> None:
        """Run one server after another from here on. Returns when the first is ready."""
        self.server = None
        self.spawn(self._serve(), "servers")
        await self.ready()

    async def ready(self) -> None:
        while self.server is None or not self.server.ready:
            await self.clock.sleep(0.5)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.server.kill()
        for each in self.engines:
            await each.runtime.close()
        await self.other_engine.runtime.close()
        give_back(self.connection)

    @property
    def has_surveyed(self) -> bool:
        """Whether the present server has surveyed the engine."""
        return self.server is not None and self.server.surveyed

    def unfinished(self) -> list[JobId]:
        """The jobs that are not finished, without children of arrays."""
        return [job.id for job in self.invariants.jobs.values() if job.status not in FINISHED and job.child is None]

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def _serve(self) -> None:
        while True:
            self.on_other_engine = self.choices.changes_engine()
            self._may_set_clock()
            self.server = self._make_server()
            self.run_log.counts["boots"] += 1
            if self.on_other_engine:
                self.run_log.write("the server is started on another engine")
                self.run_log.counts["other engines"] += 1
            await self.server.live()
            await self.clock.sleep(self.choices.downtime())
            self.between_servers()

    def _may_set_clock(self) -> None:
        clock = self.invariants.times.machine_clock
        if clock is not None and self.choices.sets_clock():
            clock.set(self.choices.skew())
            self.run_log.write(f"the machine's clock is set: it is ahead by {clock.skew.total_seconds():.0f}")
            self.run_log.counts["clock settings"] += 1

    def _make_server(self) -> Server:
        return Server(
            connection=self.connection,
            runtime=self._runtime(),
            archive=self.archive,
            checkpoints=self.checkpoints,
            clock=self.clock,
            choices=self.choices,
            run_log=self.run_log,
            invariants=self.invariants,
            grace=self._grace,
            receiver=self.receiver,
        )

    def _runtime(self) -> ContainerRuntime:
        """The engines as a new server constructs them."""
        if self.on_other_engine:
            return self.other_engine.runtime
        if self.second is None:
            return self.machine.runtime
        return CombinedRuntime({HERE: self.machine.runtime, THERE: self.second.runtime}, self.clock)

    def engine_with(self, tag: Tag) -> FaultyEngine:
        """The engine that has the container; the first one if no engine has it."""
        return next((engine for engine in self.engines if tag in engine.engine.containers), self.machine)

    def may_step_disk_clock(self) -> None:
        """Set the clock of the disk while containers write checkpoints, or not."""
        is_awaited = any(map(any_awaits_checkpoint, self.invariants.jobs.values()))
        step = self.choices.steps_disk_clock(is_awaited=is_awaited)
        if step:
            self._disk_clock.set(self._disk_clock.skew + step)
            self.run_log.write(f"the clock of the disk is set by {step.total_seconds():.0f}")
            self.run_log.counts["disk clock settings"] += 1
            self.run_log.counts["disk clock settings before a final checkpoint"] += is_awaited

    def _disk_time(self) -> datetime:
        return self._shown_by_disk(self.clock.now())

    def _disk_changed_at(self, found: os.stat_result) -> int:
        """When a file was changed, by the clock of the disk, in nanoseconds since the epoch."""
        return nanoseconds(self._shown_by_disk(EPOCH + timedelta(microseconds=found.st_mtime_ns // 1000)))

    def _shown_by_disk(self, at: datetime) -> datetime:
        return self.invariants.times.shown(at) + (self._disk_clock.shown(at) - at)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.run_log.fail("the simulation itself is sound", f"{task.get_name()}: {failure!r}")
