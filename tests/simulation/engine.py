"""An engine that lies the way real ones do, and the truth about it, which no server is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from batchq.domain.container import Resources
from batchq.domain.names import Tag
from batchq.errors import BatchqError, EngineUnknown
from batchq.ports import Clock
from batchq.values import Found, Launch, LogLine, Made
from compute.simulated import SimulatedRuntime
from compute.simulated_engine import SimulatedEngine
from compute.simulated_faults import CARRIED_OUT, NOT_CARRIED_OUT, Fault
from tests.simulation.dice import Dice
from tests.simulation.life import Life
from tests.simulation.oracles import Witness
from tests.simulation.story import Story

CHANGES = frozenset({"create", "start", "signal_stop", "kill", "remove", "pull"})


class WatchedEngine(SimulatedEngine):
    """The witness sees what containers really do, whoever made them do it."""

    def __init__(self, now, witness: Witness) -> None:
        super().__init__(now)
        self._witness = witness

    def create(self, launch: Launch) -> Made:
        known = self.containers.get(launch.tag)
        made = super().create(launch)
        if self.containers[launch.tag] is not known:
            self._witness.truth.made(self.containers[launch.tag])
            self._witness.made(launch.tag)
        return made

    def start(self, tag: Tag) -> None:
        begun = tag in self.containers and self.containers[tag].started_at is not None
        super().start(tag)
        if not begun:
            self._witness.started(tag)

    def remove(self, tag: Tag) -> bool:
        self._witness.truth.removed(tag)
        return super().remove(tag)


class Machine:
    """The simulated engine with its misfortunes: it outlives servers."""

    def __init__(self, *, clock: Clock, capacity: Resources, dice: Dice, story: Story, witness: Witness) -> None:
        self.runtime = SimulatedRuntime(clock=clock, capacity=capacity)
        self.engine = self.runtime._engine = WatchedEngine(clock.now, witness)
        self.runtime.faults.judge = self._judge
        self._clock = clock
        self._dice = dice
        self._story = story
        self._witness = witness
        self._thaws_at = clock.now()

    def freeze(self, seconds: float) -> None:
        """Nobody is answered; what was asked is done when it thaws, in any order."""
        self._thaws_at = max(self._thaws_at, self._clock.now() + timedelta(seconds=seconds))

    def calm(self) -> None:
        self.runtime.faults.away = False
        self.runtime.faults.tell_after = (0.0,)

    def _judge(self, call: str, tag: Tag | None) -> Fault | None:
        fault = self._fault(call)
        self._tell_deaths_anyhow()
        if fault is not None:
            self._story.counts["engine faults"] += 1
            self._story.tell(f"  {call} {self._story.called(tag or '')} fails: {fault}")
            if fault.late and tag is not None:
                self._witness.truth.will_be_late(call, tag)
        return fault

    def _fault(self, call: str) -> Fault | None:
        dice = self._dice.engine
        frozen_for = (self._thaws_at - self._clock.now()).total_seconds()
        if frozen_for > 0:
            thaws = Fault(carried_out=True, late=frozen_for + dice.random())
            return thaws if call in CHANGES else NOT_CARRIED_OUT
        if dice.random() >= self._dice.luck.unknown:
            return None
        late = Fault(carried_out=True, late=dice.uniform(0.1, 20))
        return dice.choice([NOT_CARRIED_OUT, CARRIED_OUT, late]) if call in CHANGES else NOT_CARRIED_OUT

    def _tell_deaths_anyhow(self) -> None:
        dice = self._dice.engine
        usual = dice.random() >= self._dice.luck.quiet_deaths
        told = [(), (0.0, 0.5), (3.0,), (0.0, 0.0, 7.0), (dice.uniform(0, 2),)]
        self.runtime.faults.tell_after = (0.0,) if usual else dice.choice(told)


class Liar:
    """ContainerRuntime as one server has it. It may die before and after each call, and some calls take their time."""

    def __init__(
        self, machine: Machine, *, clock: Clock, life: Life, dice: Dice, story: Story, witness: Witness
    ) -> None:
        self._machine = machine
        self._runtime = machine.runtime
        self._clock = clock
        self._life = life
        self._dice = dice
        self._story = story
        self._witness = witness

    async def create(self, launch: Launch) -> Made:
        return await self._call("create", launch.tag, lambda: self._runtime.create(launch))

    async def pull(self, image: str, platform: str | None) -> None:
        await self._call("pull", None, lambda: self._runtime.pull(image, platform))

    async def start(self, tag: Tag) -> None:
        await self._call("start", tag, lambda: self._runtime.start(tag))

    async def inspect(self, tag: Tag) -> Found | None:
        return await self._call("inspect", tag, lambda: self._runtime.inspect(tag))

    async def signal_stop(self, tag: Tag) -> None:
        await self._call("signal_stop", tag, lambda: self._runtime.signal_stop(tag))

    async def kill(self, tag: Tag) -> None:
        await self._call("kill", tag, lambda: self._runtime.kill(tag))

    async def remove(self, tag: Tag) -> None:
        await self._call("remove", tag, lambda: self._runtime.remove(tag))

    async def survey(self) -> tuple[Found, ...]:
        return await self._call("survey", None, self._runtime.survey)

    @asynccontextmanager
    async def deaths(self) -> AsyncIterator[AsyncIterator[Tag]]:
        await self._life.point("before listening")
        async with self._runtime.deaths() as news:
            await self._life.point("listening")
            yield news

    async def logs(self, tag: Tag, *, after: int) -> AsyncIterator[LogLine]:
        await self._life.point("before reading a log")
        async for line in self._runtime.logs(tag, after=after):
            yield line
            await self._life.point("reading a log")

    async def capacity(self) -> Resources:
        return await self._call("capacity", None, self._runtime.capacity)

    async def lost_before(self) -> datetime | None:
        return await self._runtime.lost_before()

    async def close(self) -> None:
        """The machine goes on."""

    async def _call(self, call, tag, ask):
        said = f"{call} {self._story.called(tag or '')}".strip()
        await self._life.point(f"before {said}")
        self._witness.asks(call, tag)
        self._story.counts["engine calls"] += 1
        await self._take_time()
        try:
            answer = await ask()
        except EngineUnknown:
            await self._life.point(f"after {said}")
            await self._take_time()
            raise
        except BatchqError as refusal:
            self._story.tell(f"  {said} -> {type(refusal).__name__}")
            await self._life.point(f"after {said}")
            raise
        if call in CHANGES:
            self._story.tell(f"  {said} -> {answer or 'done'}")
        await self._life.point(f"after {said}")
        return answer

    async def _take_time(self) -> None:
        """A moment always: no call of an engine comes back before others had their turn."""
        slow = self._dice.engine.random() < self._dice.luck.slow
        await self._clock.sleep(self._dice.engine.uniform(0.5, 8) if slow else 0.001)
        await self._life.point("waiting for the engine")
