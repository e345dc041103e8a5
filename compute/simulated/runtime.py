"""A ContainerRuntime whose containers follow scripts on a clock, for tests and for loads beyond any real machine.

The object is also the engine: it survives `close`, and another server may then use it. Besides the port's methods it
has `faults`, and methods that simulate what operators and machines do to an engine.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import TypeVar

from batchq.compute.event_queue import EventQueue
from batchq.compute.simulated.container import SimulatedContainer
from batchq.compute.simulated.engine import AttemptNetwork, SimulatedEngine
from batchq.compute.simulated.faults import Faults
from batchq.compute.single_flight import SingleFlight
from batchq.domain.catalog import Network
from batchq.domain.container import Resources
from batchq.domain.ids import Tag
from batchq.errors import (
    ContainerGone,
    EngineError,
    EngineUnknown,
    EngineUnreachable,
)
from batchq.ports.clock import Clock
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerState, Created, DeathReport, EngineIdentity, Inspection, LaunchSpec

Answer = TypeVar("Answer")


class SimulatedRuntime:
    """The runtime port on a simulated engine."""

    def __init__(
        self,
        *,
        clock: Clock,
        capacity: Resources,
        network: Network = Network.SHARED,
        engine_id: str = "simulated",
    ) -> None:
        """`network` is the default of launches; `engine_id` is the id that `identity` returns."""
        self._identity = engine_id
        self.faults = Faults()
        self._clock = clock
        self._capacity = capacity
        self._engine = SimulatedEngine(clock.now, network)
        #: What `create` returned, until the start: a start never reaches a later container of the same name.
        self._answered: dict[Tag, SimulatedContainer] = {}
        #: Delayed effects, each with the time at which it is executed.
        self._late: list[tuple[datetime, Callable[[], object]]] = []
        self._listeners: set[EventQueue] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        #: For each container whose end is known: the function that cancels the task that will report it.
        self._ends: dict[Tag, Callable[[], object]] = {}
        self._pulls: SingleFlight[tuple[str, str | None]] = SingleFlight("pull")

    async def create(self, launch: LaunchSpec) -> Created:
        made = await self._do("create", launch.tag, lambda: self._engine.create(launch))
        self._answered[launch.tag] = self._engine.containers[launch.tag]
        return made

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:  # noqa: ARG002
        async def once() -> None:
            await self._do("pull", None, lambda: self._engine.pull(image))

        await self._pulls.do((image, platform), once)

    async def start(self, tag: Tag) -> None:
        container = self._answered.get(tag) or self._engine.containers.get(tag)
        if container is not None and container.started_at is None and container.script.start_delay:
            await self._clock.sleep(container.script.start_delay)
        await self._do("start", tag, lambda: self._start(tag, container))
        self._answered.pop(tag, None)

    async def inspect(self, tag: Tag) -> Inspection | None:
        return await self._do("inspect", tag, lambda: self._engine.inspect(tag))

    async def signal_stop(self, tag: Tag, signal: str | None = None) -> None:
        ask = self._engine.kill if signal == "SIGKILL" else self._engine.signal_stop
        await self._do("signal_stop", tag, lambda: self._hasten(tag, ask))

    async def kill(self, tag: Tag) -> None:
        await self._do("kill", tag, lambda: self._hasten(tag, self._engine.kill))

    async def remove(self, tag: Tag) -> None:
        await self._do("remove", tag, lambda: self.vanish(tag))
        self._answered.pop(tag, None)

    async def remove_silent(self, tag: Tag) -> AsyncGenerator[LogLine, None] | None:
        if await self._do("logs", tag, lambda: self._engine.lines(tag)):
            return self.logs(tag, after=0)
        await self.remove(tag)
        return None

    async def survey(self) -> tuple[Inspection, ...]:
        return await self._do("survey", None, self._engine.survey)

    @asynccontextmanager
    async def deaths(self) -> AsyncIterator[AsyncIterator[Tag | DeathReport]]:
        news = EventQueue()
        await self._do("deaths", None, lambda: self._listeners.add(news))
        self._foretell_all()
        try:
            yield news
        finally:
            self._listeners.discard(news)

    async def logs(self, tag: Tag, *, after: int) -> AsyncGenerator[LogLine, None]:
        for line in await self._do("logs", tag, lambda: self._engine.lines(tag)):
            if line.at > after:
                yield line

    async def capacity(self) -> Resources:
        return await self._do("capacity", None, lambda: self._capacity)

    async def lost_before(self) -> datetime | None:
        return await self._do("lost_before", None, lambda: self._engine.lost_before)

    async def identity(self) -> EngineIdentity:
        return await self._do("identity", None, lambda: EngineIdentity(id=self._identity, time=self._clock.now()))

    async def close(self) -> None:
        """End subscriptions to deaths, pulls and delayed reports. The containers keep running."""
        self.break_streams()
        await self._pulls.close()
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._ends.clear()

    @property
    def networks(self) -> Mapping[Tag, AttemptNetwork]:
        """The networks of attempts with several containers, by the attempts' tags without a part.

        A network exists while at least one of its containers does.
        """
        return self._engine.networks

    @property
    def keepers(self) -> Mapping[tuple[str, str], str]:
        """The ids of the pause containers of shared networks, by compute environment and account."""
        return self._engine.keepers

    def lose_keeper(self, environment: str) -> None:
        """Remove the pause containers of a compute environment; containers that have joined them keep running."""
        for shared in [it for it in self._engine.keepers if it[0] == environment]:
            del self._engine.keepers[shared]

    def vanish(self, tag: Tag) -> None:
        """Remove the container, running or not, as any client of the engine can."""
        if self._engine.remove(tag):
            self._tell(tag)
        if tag in self._ends:
            self._ends.pop(tag)()

    def go_down(self) -> None:
        """Restart the machine, which ends every running container and every subscription to deaths."""
        self._engine.go_down()
        self.break_streams()

    def occupy(self, tag: Tag) -> None:
        """Give the container's name to a container that is not batchq's: `create` then raises NameTaken."""
        self._engine.foreign.add(tag)

    def lack(self, image: str, *, why_for_ever: str | None = None) -> None:
        """Remove the image. A pull restores it, or fails with the text `why_for_ever`."""
        self._engine.lacking[image] = why_for_ever

    def break_streams(self) -> None:
        """End every subscription to deaths."""
        for news in self._listeners:
            news.end()
        self._listeners.clear()

    async def _do(self, call: str, tag: Tag | None, effect: Callable[[], Answer]) -> Answer:
        self._carry_out_late()
        fault = self.faults.of(call, tag)
        if fault is None:
            return effect()
        if fault.engine_ends:
            self._engine.end(starting=tag if call == "start" else None)
            self._late.clear()  # the killed engine loses the requests that it has not executed
            self.break_streams()
        elif fault.late > 0:
            self._late.append((self._clock.now() + timedelta(seconds=fault.late), effect))
            self._later(f"late {call}", fault.late, self._carry_out_late)
        elif fault.carried_out:
            with suppress(EngineError):
                effect()
        unknown = EngineUnreachable if self.faults.away else EngineUnknown
        raise unknown(f"{call}: the simulated engine does not answer")

    def _carry_out_late(self) -> None:
        """Execute the delayed calls that are due; also those that became due while the runtime was closed."""
        if not self._late:
            return
        now = self._clock.now()
        due = [effect for at, effect in self._late if at <= now]
        self._late = [(at, effect) for at, effect in self._late if at > now]
        for effect in due:
            with suppress(EngineError):
                effect()

    def _start(self, tag: Tag, meant: SimulatedContainer | None) -> None:
        """Start the container `meant`, and not a later one with the same name: a real engine is called by id."""
        if self._engine.containers.get(tag) is not meant:
            raise ContainerGone(f"the container of {tag} is not there any more")
        self._engine.start(tag)
        self._foretell(tag, self._engine.containers[tag])

    def _hasten(self, tag: Tag, signal: Callable[[Tag], None]) -> None:
        signal(tag)
        self._foretell(tag, self._engine.containers[tag])

    def _foretell_all(self) -> None:
        """Schedule the reports of all future ends; a new subscription does not get past ones."""
        for tag, container in self._engine.containers.items():
            if tag not in self._ends and container.found(self._clock.now()).state is ContainerState.RUNNING:
                self._foretell(tag, container)

    def _foretell(self, tag: Tag, container: SimulatedContainer) -> None:
        """Schedule the report of the container's end, in place of an earlier one."""
        if tag in self._ends:
            self._ends.pop(tag)()
        end = container.end()
        if end is not None:
            self._ends[tag] = self._keep(f"end of {tag}", self._tell_end(tag, end.at))

    async def _tell_end(self, tag: Tag, at: datetime) -> None:
        while (left := (at - self._clock.now()).total_seconds()) > 0:
            await self._clock.sleep(left)
        self._ends.pop(tag, None)
        self._tell(tag)

    def _tell(self, tag: Tag) -> None:
        looks = self.faults.looks and not self.faults.away
        death = DeathReport(tag=tag, found=self._engine.inspect(tag)) if looks else tag
        for seconds in self.faults.tell_after:
            if seconds > 0:
                self._later(f"late news of {tag}", seconds, lambda: self._tell_now(death))
            else:
                self._tell_now(death)

    def _tell_now(self, death: Tag | DeathReport) -> None:
        for news in self._listeners:
            news.tell(death)

    def _later(self, name: str, seconds: float, do: Callable[[], None]) -> None:
        async def wait_and_do() -> None:
            await self._clock.sleep(seconds)
            do()

        self._keep(name, wait_and_do())

    def _keep(self, name: str, work: Coroutine[None, None, None]) -> Callable[[], object]:
        """Start a task, and hold a reference to it until it ends. The returned function cancels it."""
        task = asyncio.create_task(work, name=f"simulated: {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task.cancel
