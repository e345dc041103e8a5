"""A ContainerRuntime whose containers follow scripts on a clock, for tests and for loads beyond any real machine.

The object is also the engine: it survives `close`, and another server may then use it. Besides the port's methods it
has `faults`, the `engine`, and methods that simulate what other clients and machines do to an engine. Without
configuration no call fails.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import TypeVar

from msgspec import Struct

from batchq.compute.shared import EventQueue, SingleFlight
from batchq.compute.simulated.container import SimulatedContainer
from batchq.compute.simulated.engine import SimulatedEngine
from batchq.compute.simulated.exec_session import SimulatedExecSession
from batchq.compute.simulated.script import NO_OUTCOMES, Outcomes
from batchq.domain.catalog import Network
from batchq.domain.ids import MachineName, Tag
from batchq.domain.machines import Machine
from batchq.domain.training import CHECKPOINT_SIGNALS
from batchq.domain.use import Use
from batchq.errors import ContainerGone, ContainerRuntimeError, RuntimeUnknown, RuntimeUnreachable, StartUnderWay
from batchq.ports.clock import Clock
from batchq.ports.exec_session import ExecCommand
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerState, Created, DeathReport, Inspection, LaunchSpec, RuntimeIdentity

Result = TypeVar("Result")


class Fault(Struct, frozen=True, kw_only=True):
    """A call that gets no reply."""

    #: Whether the call takes effect at once.
    takes_effect: bool
    #: If above 0, the call takes effect after so many seconds instead.
    delay: float = 0.0
    #: The engine is killed in the call, and restarts with its containers. A program that the call started has run to
    #: its end meanwhile, and the engine reports its container as CREATED.
    kills_engine: bool = False


NO_EFFECT, LOST_REPLY = Fault(takes_effect=False), Fault(takes_effect=True)
KILLS_ENGINE = Fault(takes_effect=True, kills_engine=True)


#: The calls that need the machine of the container; the engine itself answers the others.
REACH_MACHINE = frozenset({"signal_stop", "kill", "remove", "logs", "exec"})


class Faults:
    """The faults of one simulated engine. Tests and simulations set the attributes at any time."""

    def __init__(self) -> None:
        #: The engine is unreachable: every call fails without effect.
        self.unreachable = False
        #: When each death is reported, in seconds after it: () never, (0, 0.5) twice, (3,) late.
        self.death_delays: tuple[float, ...] = (0.0,)
        #: Whether a reported death contains an inspection made at the death; else it is only the tag.
        self.inspects_deaths = True
        #: Decides the fault of each call from its name and its tag; None: no fault. A seeded function simulates an
        #: unreliable engine.
        self.decide: Callable[[str, Tag | None], Fault | None] | None = None
        self._planned: list[tuple[str, Fault]] = []

    def plan(self, call: str, fault: Fault, *, times: int = 1) -> None:
        """Make the next `times` calls of this name fail with `fault`. Planned faults take precedence over `decide`."""
        self._planned += [(call, fault)] * times

    def next_fault(self, call: str, tag: Tag | None) -> Fault | None:
        """The fault of a call that is made now; None: it succeeds. A planned fault is consumed."""
        if self.unreachable:
            return NO_EFFECT
        for planned in self._planned:
            if planned[0] == call:
                self._planned.remove(planned)
                return planned[1]
        return self.decide(call, tag) if self.decide else None


class SimulatedRuntime:
    """The runtime port on a simulated engine."""

    def __init__(
        self,
        *,
        clock: Clock,
        machines: tuple[Machine, ...],
        network: Network = Network.SHARED,
        engine_id: str = "simulated",
        outcomes: Outcomes = NO_OUTCOMES,
    ) -> None:
        """`network` is the default of launches; `engine_id` is the id that `identity` returns."""
        self._identity = engine_id
        self.faults = Faults()
        self._clock = clock
        #: The engine, whose state tests change as operators and other clients of an engine do.
        self.engine = SimulatedEngine(clock.now, network, machines, outcomes)
        #: What `create` returned, until the start: a start never reaches a later container of the same name.
        self._created: dict[Tag, SimulatedContainer] = {}
        #: Delayed effects, each with the time at which it is executed.
        self._delayed: list[tuple[datetime, Callable[[], object]]] = []
        self._listeners: set[EventQueue] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        #: For each container whose end is known: the function that cancels the task that will report it.
        self._ends: dict[Tag, Callable[[], object]] = {}
        self._pulls: SingleFlight[tuple[str, str | None]] = SingleFlight("pull")
        #: The commands that run in containers.
        self._sessions: dict[Tag, list[SimulatedExecSession]] = {}

    async def create(self, launch: LaunchSpec) -> Created:
        created = await self._call("create", launch.tag, lambda: self.engine.create(launch))
        self._created[launch.tag] = self.engine.containers[launch.tag]
        return created

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:  # noqa: ARG002
        async def once() -> None:
            await self._call("pull", None, lambda: self.engine.pull(image))

        await self._pulls.run((image, platform), once)

    async def start(self, tag: Tag) -> None:
        container = self._created.get(tag) or self.engine.containers.get(tag)
        if container is not None and container.started_at is None and container.script.start_delay:
            await self._clock.sleep(container.script.start_delay)
        await self._call("start", tag, lambda: self._start(tag, container))
        self._created.pop(tag, None)

    async def inspect(self, tag: Tag) -> Inspection | None:
        return await self._call("inspect", tag, lambda: self.engine.inspect(tag))

    async def signal_stop(self, tag: Tag, signal: str | None = None, *, grace: timedelta | None = None) -> None:
        def send(tag: Tag) -> None:
            self.engine.signal_stop(tag, grace)

        if signal == "SIGKILL":
            send = self.engine.kill
        if signal is not None and signal.removeprefix("SIG") in CHECKPOINT_SIGNALS and self.engine.takes_requests(tag):
            send = self.engine.request_checkpoint
        await self._call("signal_stop", tag, lambda: self._send_signal(tag, send))

    async def kill(self, tag: Tag) -> None:
        await self._call("kill", tag, lambda: self._send_signal(tag, self.engine.kill))

    async def remove(self, tag: Tag) -> None:
        await self._call("remove", tag, lambda: self.remove_externally(tag))
        self._created.pop(tag, None)

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        if await self._call("logs", tag, lambda: self.engine.lines(tag)):
            return self.logs(tag, after=0)
        await self.remove(tag)
        return None

    async def survey(self) -> tuple[Inspection, ...]:
        return await self._call("survey", None, self.engine.survey)

    @asynccontextmanager
    async def deaths(self) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
        queue = EventQueue()
        await self._call("deaths", None, lambda: self._listeners.add(queue))
        self._schedule_all_ends()
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    async def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        for line in await self._call("logs", tag, lambda: self.engine.lines(tag)):
            if line.at > after:
                yield line

    async def follow(self, tag: Tag, *, after: int) -> None:
        """None: all output of simulated containers is stored."""

    async def exec(self, tag: Tag, command: ExecCommand) -> SimulatedExecSession:  # noqa: ARG002 - the script decides
        return await self._call("exec", tag, lambda: self._exec(tag))

    async def measure(self, containers: Mapping[Tag, str], *, at: datetime) -> Mapping[Tag, Use] | None:
        """None until a container has a script that chooses what it uses."""
        if not self.engine.measures_use:
            return None
        found = ((tag, self.engine.containers.get(tag)) for tag in containers)
        same = ((tag, container) for tag, container in found if container and container.id == containers[tag])
        return {tag: use for tag, container in same if (use := container.use(at)) is not None}

    async def machines(self) -> tuple[Machine, ...]:
        return await self._call("machines", None, lambda: self.engine.machines)

    async def lost_before(self) -> datetime | None:
        return await self._call("lost_before", None, lambda: self.engine.lost_before)

    async def identity(self) -> RuntimeIdentity:
        return await self._call("identity", None, lambda: RuntimeIdentity(id=self._identity, time=self._clock.now()))

    async def close(self) -> None:
        """End subscriptions to deaths, pulls and delayed reports. The containers keep running."""
        self.end_subscriptions()
        await self._pulls.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._ends.clear()

    def remove_externally(self, tag: Tag) -> None:
        """Remove the container, running or not, as any client of the engine can."""
        if self.engine.remove(tag):
            self._report(tag)
        if tag in self._ends:
            self._ends.pop(tag)()

    def remove_machine(self, name: MachineName) -> None:
        """Take a machine from the engine, with all its containers."""
        for tag in self.engine.remove_machine(name):
            if tag in self._ends:
                self._ends.pop(tag)()

    def restart_machine(self) -> None:
        """Restart the machine, which ends every running container and every subscription to deaths."""
        self.engine.restart_machine()
        self.end_subscriptions()

    def end_subscriptions(self) -> None:
        """End every subscription to deaths."""
        for queue in self._listeners:
            queue.put_nowait(None)
        self._listeners.clear()

    async def _call(self, call: str, tag: Tag | None, effect: Callable[[], Result]) -> Result:
        self._run_due_effects()
        self.engine.write_checkpoints()
        fault = self.faults.next_fault(call, tag)
        if fault is None and call in REACH_MACHINE and tag is not None and self.engine.is_unreachable(tag):
            raise RuntimeUnknown(f"{call}: the machine of {tag} does not answer")
        if fault is None:
            return effect()
        if fault.kills_engine:
            self.engine.end(starting=tag if call == "start" else None)
            self._delayed.clear()  # the killed engine loses the requests that it has not executed
            self.end_subscriptions()
        elif fault.delay > 0:
            self._delayed.append((self._clock.now() + timedelta(seconds=fault.delay), effect))
            self._run_later(f"late {call}", fault.delay, self._run_due_effects)
        elif fault.takes_effect:
            with suppress(ContainerRuntimeError):
                effect()
        error_type = RuntimeUnreachable if self.faults.unreachable else RuntimeUnknown
        raise error_type(f"{call}: the simulated engine does not reply")

    def _run_due_effects(self) -> None:
        """Execute the delayed calls that are due; also those that became due while the runtime was closed."""
        if not self._delayed:
            return
        now = self._clock.now()
        due = [effect for at, effect in self._delayed if at <= now]
        self._delayed = [(at, effect) for at, effect in self._delayed if at > now]
        for effect in due:
            with suppress(ContainerRuntimeError):
                effect()

    def _start(self, tag: Tag, expected: SimulatedContainer | None) -> None:
        """Start the container `expected`, and not a later one with the same name: a real engine is called by id."""
        if self.engine.containers.get(tag) is not expected:
            raise ContainerGone(f"the container of {tag} does not exist any more")
        try:
            self.engine.start(tag)
        except StartUnderWay:
            self._schedule(tag)
            raise
        self._schedule(tag)

    def _exec(self, tag: Tag) -> SimulatedExecSession:
        found = self.engine.inspect(tag)
        if found is None or found.state is not ContainerState.RUNNING:
            raise ContainerGone(f"the container of {tag} does not run")
        session = SimulatedExecSession(self.engine.containers[tag].script)
        self._sessions.setdefault(tag, []).append(session)
        return session

    def _schedule(self, tag: Tag) -> None:
        """Schedule what the container will do."""
        self._schedule_checkpoints()
        self._schedule_end(tag, self.engine.containers[tag])

    def _send_signal(self, tag: Tag, signal: Callable[[Tag], None]) -> None:
        signal(tag)
        self._schedule(tag)

    def _schedule_checkpoints(self) -> None:
        """Write the checkpoints that are due, and schedule those that are planned for later."""
        self.engine.write_checkpoints()
        for checkpoint in self.engine.planned_checkpoints:
            delay = (checkpoint.at - self._clock.now()).total_seconds()
            self._run_later(f"checkpoint {checkpoint.path.name}", delay, self.engine.write_checkpoints)

    def _schedule_all_ends(self) -> None:
        """Schedule the reports of all future ends; a new subscription does not get past ones."""
        for tag, container in self.engine.containers.items():
            if tag not in self._ends and container.inspect(self._clock.now()).state is ContainerState.RUNNING:
                self._schedule_end(tag, container)

    def _schedule_end(self, tag: Tag, container: SimulatedContainer) -> None:
        """Schedule the report of the container's end, in place of an earlier one."""
        if tag in self._ends:
            self._ends.pop(tag)()
        end = container.end()
        if end is not None:
            self._ends[tag] = self._start_task(f"end of {tag}", self._report_end(tag, end.at))

    async def _report_end(self, tag: Tag, at: datetime) -> None:
        while (left := (at - self._clock.now()).total_seconds()) > 0:
            await self._clock.sleep(left)
        self._ends.pop(tag, None)
        if not self.engine.is_unreachable(tag):
            self._report(tag)

    def _report(self, tag: Tag) -> None:
        for session in self._sessions.pop(tag, ()):
            session.container_ended()
        inspects = self.faults.inspects_deaths and not self.faults.unreachable
        death = DeathReport(tag=tag, found=self.engine.inspect(tag)) if inspects else tag
        for seconds in self.faults.death_delays:
            if seconds > 0:
                self._run_later(f"delayed report of {tag}", seconds, lambda: self._put_report(death))
            else:
                self._put_report(death)

    def _put_report(self, death: Tag | DeathReport) -> None:
        for queue in self._listeners:
            queue.put_nowait(death)

    def _run_later(self, name: str, seconds: float, effect: Callable[[], object]) -> None:
        async def wait_and_do() -> None:
            await self._clock.sleep(seconds)
            effect()

        self._start_task(name, wait_and_do())

    def _start_task(self, name: str, work: Coroutine[None, None, None]) -> Callable[[], object]:
        """Start a task, and hold a reference to it until it ends. The returned function cancels it."""
        task = asyncio.create_task(work, name=f"simulated: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task.cancel
