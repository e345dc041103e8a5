"""The simulated container engine with random faults."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.compute.simulated.container import PlannedCheckpoint
from batchq.compute.simulated.engine import SimulatedEngine
from batchq.compute.simulated.runtime import KILLS_ENGINE, NO_EFFECT, Fault, SimulatedRuntime
from batchq.compute.simulated.script import NO_OUTCOMES
from batchq.domain.catalog import Network
from batchq.domain.ids import Tag
from batchq.domain.machines import Machine
from batchq.errors import BatchqError, RuntimeUnknown, RuntimeUnreachable
from batchq.ports.clock import Clock
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerRuntime, Created, DeathReport, Inspection, LaunchSpec, RuntimeIdentity
from tests.simulation.choices import CHANGES, Choices
from tests.simulation.clocks import MachineClock, StampedReports
from tests.simulation.invariants import Invariants
from tests.simulation.lifetime import Lifetime
from tests.simulation.run_log import RunLog
from tests.support.proxies import RuntimeProxy


class ObservedEngine(SimulatedEngine):
    """Reports what containers really do to the invariants."""

    def __init__(self, now, machines, invariants: Invariants) -> None:
        super().__init__(now, Network.SHARED, machines, NO_OUTCOMES)
        self._invariants = invariants

    def create(self, launch: LaunchSpec) -> Created:
        known = self.containers.get(launch.tag)
        made = super().create(launch)
        if self.containers[launch.tag] is not known:
            if known is not None:
                self._invariants.containers.removed(launch.tag)
            is_first = self._invariants.containers.is_first(launch.tag)
            self._invariants.containers.made(self.containers[launch.tag])
            self._invariants.made(launch.tag)
            if is_first and not self._invariants.containers.late["create", launch.tag]:
                self._invariants.checkpoints.created(launch)
        return made

    def start(self, tag: Tag) -> None:
        container = self.containers.get(tag)
        begun = container is not None and container.started_at is not None
        super().start(tag)
        if not begun:
            self._invariants.started(tag)
        if container is not None and container.unsaved_runs:
            self._invariants.ran_twice(tag)

    def write_checkpoints(self) -> list[PlannedCheckpoint]:
        written = super().write_checkpoints()
        for write in written:
            self._invariants.checkpoints.wrote(write)
        return written

    def end(self, *, starting: Tag | None = None) -> None:
        super().end(starting=starting)
        if starting is not None:
            self._invariants.interrupted(starting)

    def remove(self, tag: Tag) -> bool:
        self._invariants.containers.removed(tag)
        return super().remove(tag)


class FaultyEngine:
    """The simulated engine with its faults; it outlives servers."""

    def __init__(
        self,
        *,
        clock: Clock,
        machines: tuple[Machine, ...],
        choices: Choices,
        run_log: RunLog,
        invariants: Invariants,
        engine_id: str = "theirs",
    ) -> None:
        self.runtime = SimulatedRuntime(clock=clock, machines=machines, engine_id=engine_id)
        self.engine = self.runtime.engine = ObservedEngine(clock.now, machines, invariants)
        self.runtime.faults.decide = self._choose_fault
        self._clock = clock
        self._choices = choices
        self._run_log = run_log
        self._invariants = invariants
        self._frozen_until = clock.now()

    def freeze(self, seconds: float) -> None:
        """Answer no call for a while; the calls are carried out afterwards, in any order."""
        self._frozen_until = max(self._frozen_until, self._clock.now() + timedelta(seconds=seconds))

    def stop_faults(self) -> None:
        self.runtime.faults.unreachable = False
        self.runtime.faults.death_delays = (0.0,)

    def _choose_fault(self, call: str, tag: Tag | None) -> Fault | None:
        fault = self._fault(call)
        self.runtime.faults.death_delays = self._choices.death_delays()
        self.runtime.faults.inspects_deaths = self._choices.reports_inspection()
        if fault is not None:
            self._run_log.counts["engine faults"] += 1
            self._run_log.write(f"  {call} {self._run_log.name_of(tag or '')} fails: {fault}")
            if fault.delay and tag is not None:
                self._invariants.containers.will_be_late(call, tag)
        return fault

    def _fault(self, call: str) -> Fault | None:
        frozen_for = (self._frozen_until - self._clock.now()).total_seconds()
        if frozen_for > 0:
            thaws = Fault(takes_effect=True, delay=frozen_for + self._choices.engine.random())
            return thaws if call in CHANGES else NO_EFFECT
        return KILLS_ENGINE if self._choices.kills_engine(call) else self._choices.fault(call)


class FaultyRuntime(RuntimeProxy):
    """The runtime as one server has it. The server may die before and after each call, and some calls take time."""

    def __init__(
        self,
        runtime: ContainerRuntime,
        *,
        clock: Clock,
        machine_clock: MachineClock | None,
        lifetime: Lifetime,
        choices: Choices,
        run_log: RunLog,
        invariants: Invariants,
    ) -> None:
        super().__init__(runtime)
        self._machine_clock = machine_clock
        self._clock = clock
        self._lifetime = lifetime
        self._choices = choices
        self._run_log = run_log
        self._invariants = invariants

    async def inspect(self, tag: Tag) -> Inspection | None:
        found = await super().inspect(tag)
        return found if self._machine_clock is None else self._machine_clock.stamped(found)

    async def signal_stop(self, tag: Tag, signal: str | None = None, *, grace: timedelta | None = None) -> None:
        self._invariants.signals.sent(tag, signal)
        try:
            await super().signal_stop(tag, signal, grace=grace)
        except RuntimeUnreachable:
            self._invariants.signals.not_sent(tag)
            raise

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        await self._lifetime.fault_point("before", "reading a log", tag)
        silent = not [line async for line in self.runtime.logs(tag, after=0)]
        await self._lifetime.fault_point("during", "reading a log", tag)
        if silent:
            await self.remove(tag)
        return None if silent else self.logs(tag, after=0)

    async def survey(self) -> tuple[Inspection, ...]:
        seen = await super().survey()
        return (
            seen
            if self._machine_clock is None
            else tuple(self._machine_clock.stamped(inspection) for inspection in seen)
        )

    @asynccontextmanager
    async def deaths(self) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
        await self._lifetime.fault_point("before", "listening")
        async with self.runtime.deaths() as deaths:
            await self._lifetime.fault_point("after", "listening")
            yield deaths if self._machine_clock is None else StampedReports(deaths, self._machine_clock)

    async def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        await self._lifetime.fault_point("before", "reading a log", tag)
        async for line in self.runtime.logs(tag, after=after):
            yield line
            await self._lifetime.fault_point("during", "reading a log", tag)

    async def follow(self, tag: Tag, *, after: int) -> None:
        """None, as Docker."""

    async def lost_before(self) -> datetime | None:
        return self._shown(await self.runtime.lost_before())

    async def machines(self) -> tuple[Machine, ...]:
        return tuple(
            replace(machine, lost_before=self._shown(machine.lost_before)) for machine in await super().machines()
        )

    def _shown(self, at: datetime | None) -> datetime | None:
        return at if at is None or self._machine_clock is None else self._machine_clock.shown(at)

    async def identity(self) -> RuntimeIdentity:
        identity = await self.runtime.identity()
        return identity if self._machine_clock is None else replace(identity, time=self._clock.now())

    async def close(self) -> None:
        """The engine remains."""

    async def call(self, call, tag, forward):
        await self._lifetime.fault_point("before", call, tag)
        self._invariants.engine_called(call, tag)
        self._run_log.counts["engine calls"] += 1
        await self._take_time(call, tag)
        if call == "remove":
            self._invariants.containers.removal_reached_engine(tag)
        try:
            answer = await forward()
        except RuntimeUnknown:
            await self._lifetime.fault_point("unanswered", call, tag)
            await self._take_time(call, tag)
            raise
        except BatchqError as refusal:
            self._run_log.write(f"  {call} {self._run_log.name_of(tag or '')} -> {type(refusal).__name__}")
            await self._lifetime.fault_point("refused", call, tag)
            raise
        if call in CHANGES:
            self._run_log.write(f"  {call} {self._run_log.name_of(tag or '')} -> {answer or 'done'}")
        await self._lifetime.fault_point("after", call, tag)
        return answer

    async def _take_time(self, call, tag) -> None:
        """Every call takes some time, so that other tasks run before its reply."""
        await self._clock.sleep(self._choices.delay(call))
        await self._lifetime.fault_point("during", call, tag)
