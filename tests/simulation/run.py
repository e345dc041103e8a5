"""One run: a storm, in which all goes wrong that this world's luck allows, then calm, in which all must settle."""

import asyncio
import gc
import logging
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

from batchq.domain.container import Resources
from batchq.domain.gates import keys
from batchq.domain.job import FINISHED
from batchq.domain.names import JobId, Tag
from batchq.engine import families
from batchq.store.memory_logs import MemoryArchive
from batchq.values import Launch
from tests.simulation import ending
from tests.simulation.client import Client
from tests.simulation.dice import Dice
from tests.simulation.engine import Machine
from tests.simulation.loop import WorldClock, WorldLoop
from tests.simulation.oracles import Witness
from tests.simulation.server import Server
from tests.simulation.store import disk
from tests.simulation.story import Broken, Complaints, Story
from tests.simulation.wishes import DEFINITIONS, LARGEST
from tests.support import builders

HOST = Resources(millicpus=2 * LARGEST, memory_mib=4096)
CALM_AFTER = 40.0  # seconds until the last late call has been carried out and every leftover was seen


@dataclass(frozen=True, kw_only=True)
class Told:
    """A run, when it is over. `seconds` are its own time."""

    seed: int
    lines: tuple[str, ...]
    digest: str
    broken: str | None
    counts: Counter[str]
    seconds: float


def tell(seed: int) -> Told:
    gc.disable()  # what it clears away, and when, would be another story each time
    try:
        with asyncio.Runner(loop_factory=WorldLoop) as runner:
            return runner.run(_run(seed))
    finally:
        gc.enable()


def check(seed: int) -> Told:
    """The same. Raises Broken with the story's end."""
    told = tell(seed)
    if told.broken:
        last = "\n".join(told.lines[-40:])
        raise Broken(f"seed {seed}: {told.broken}\n{last}\nAll of it: python -m tests.simulation --seed {seed}")
    return told


async def _run(seed: int) -> Told:
    story = Story()
    complaints, log = Complaints(story), logging.getLogger("batchq")
    told_before, most_before = log.propagate, families.MOST
    log.addHandler(complaints)
    log.propagate = False
    asyncio.get_running_loop().set_exception_handler(lambda _, it: complaints.complain(it["message"], it))
    try:
        await _until_over(World(seed, story), story)
    finally:
        log.removeHandler(complaints)
        log.propagate, families.MOST = told_before, most_before
    return Told(
        seed=seed,
        lines=tuple(story.lines),
        digest=story.digest,
        broken=story.broken,
        counts=story.counts,
        seconds=asyncio.get_running_loop().time(),
    )


async def _until_over(world: "World", story: Story) -> None:
    """The world goes to its end, or as far as the first broken promise."""
    course = asyncio.create_task(world.course(), name="the course of the world")
    broken = asyncio.create_task(story.ended.wait())
    await asyncio.wait({course, broken}, return_when=asyncio.FIRST_COMPLETED)
    broken.cancel()
    if course.done():
        course.result()
    course.cancel()
    await asyncio.gather(course, broken, return_exceptions=True)
    await world.end()


class World:
    def __init__(self, seed: int, story: Story) -> None:
        self.story = story
        self.clock = WorldClock(asyncio.get_running_loop())
        self.dice = Dice(seed)
        self.witness = Witness(now=self.clock.now, story=story)
        self.witness.ledger.host = HOST
        self.archive = MemoryArchive()
        self.connection = disk()
        self.machine = Machine(clock=self.clock, capacity=HOST, dice=self.dice, story=story, witness=self.witness)
        self.server: Server | None = None
        self.client = Client(
            server=lambda: self.server, clock=self.clock, dice=self.dice, story=story, witness=self.witness
        )
        families.MOST = self.dice.world.choice([1, 3, families.MOST])  # of an array, in a turn
        self._grace = timedelta(seconds=self.dice.world.choice([0, 2, 6]))
        self._tasks: set[asyncio.Task[None]] = set()

    async def course(self) -> None:
        luck = self.dice.luck
        self.dice.calm()
        self.story.tell(f"{luck}")
        await self._settle_ground()
        self._spawn(self._serve(), "servers")
        await self._ready()
        self.dice.luck = luck
        await self._storm()
        await self._calm()
        await ending.settle(self)
        await ending.check(self)

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.machine.runtime.close()
        self.connection.close()

    async def _serve(self) -> None:
        """One server after another."""
        while True:
            self.server = self._make_server()
            self.story.counts["boots"] += 1
            await self.server.live()
            await self.clock.sleep(self.dice.world.choice([0, 0.5, 3, 20]))

    def _make_server(self) -> Server:
        return Server(
            connection=self.connection,
            machine=self.machine,
            archive=self.archive,
            clock=self.clock,
            dice=self.dice,
            story=self.story,
            witness=self.witness,
            grace=self._grace,
        )

    async def _settle_ground(self) -> None:
        """By a server whose engine never runs: it has nothing to do yet."""
        self._lack_images()
        self.server = self._make_server()
        self.server.ready = True
        await self.client.settle_ground()

    async def _storm(self) -> None:
        users = self._spawn(self._use(), "users")
        ends = self.clock.now() + timedelta(seconds=self.dice.world.choice([15, 40, 90]))
        while self.clock.now() < ends:
            await self.clock.sleep(self.dice.world.uniform(0.1, 8))
            self._mischief()
        users.cancel()

    async def _use(self) -> None:
        pace = self.dice.client.choice([0.2, 2, 6])
        for _ in range(self.dice.client.randint(4, 22)):
            await self.clock.sleep(self.dice.client.uniform(0, pace))
            self._spawn(self.client.act(), "a user")

    def _mischief(self) -> None:
        world, luck = self.dice.world, self.dice.luck
        if world.random() < luck.humans:
            world.choice([self._a_human_kills, self._a_human_removes, self._a_name_is_taken, self._a_stray])()
        if world.random() < luck.upheavals:
            world.choice([self._go_away, self._freeze, self.machine.runtime.break_streams])()
        if world.random() < luck.restarts:
            self._restart()

    def _restart(self) -> None:
        assert self.server is not None
        if self.dice.world.random() < 0.3:
            self.server.leave()
        else:
            self.story.counts["crashes"] += 1
            self.server.life.end("in the middle")

    def _go_away(self) -> None:
        self.story.tell("engine goes away")
        self.machine.runtime.faults.away = True
        asyncio.get_running_loop().call_later(self.dice.world.uniform(1, 25), self._come_back)

    def _come_back(self) -> None:
        self.story.tell("engine is back")
        self.machine.runtime.faults.away = False

    def _freeze(self) -> None:
        seconds = self.dice.world.uniform(1, 15)
        self.story.tell(f"engine freezes for {seconds:.1f}")
        self.machine.freeze(seconds)

    def _a_human_removes(self) -> None:
        if self.machine.engine.containers:
            tag = self.dice.world.choice(list(self.machine.engine.containers))
            self.story.tell(f"a human removes {self.story.called(tag)}")
            self.witness.truth.vanished.add(tag)
            self.machine.runtime.vanish(tag)

    def _a_human_kills(self) -> None:
        live = [it.tag for it in self.witness.truth.all() if it.lives(self.clock.now())]
        if live:
            tag = self.dice.world.choice(live)
            self.story.tell(f"a human kills {self.story.called(tag)}")
            self.machine.runtime._hasten(tag, self.machine.engine.kill)

    def _a_name_is_taken(self) -> None:
        known = [it for it in self.witness.jobs.values() if it.status not in FINISHED]
        if known:
            job = self.dice.world.choice(known)
            part = self.dice.world.choice(keys(job)) if job.spec.task or job.spec.nodes else ""
            self.machine.runtime.occupy(Tag(job_id=job.id, attempt=len(job.attempts) + 2, part=part))

    def _a_stray(self) -> None:
        """A container of a job that nobody remembers; so few that they are no sign of a wrong database."""
        if self.story.counts["strays"] < 3:
            self.story.counts["strays"] += 1
            tag = Tag(job_id=builders.job_id(10**9 + self.story.counts["strays"]), attempt=1)
            self.machine.engine.create(Launch(tag=tag, spec=builders.container(), environment=()))

    def _lack_images(self) -> None:
        self.machine.runtime.lack(DEFINITIONS["pulled"])
        self.machine.runtime.lack(DEFINITIONS["missing"], why_for_ever="not found")

    async def _calm(self) -> None:
        self.story.tell("calm")
        self.dice.calm()
        self.machine.calm()
        await self.clock.sleep(CALM_AFTER)
        await self._ready()
        await self.client.restore_ground()

    async def _ready(self) -> None:
        while self.server is None or not self.server.ready:
            await self.clock.sleep(0.5)

    def unfinished(self) -> list[JobId]:
        """Children are their array's affair."""
        return [it.id for it in self.witness.jobs.values() if it.status not in FINISHED and it.child is None]

    def _spawn(self, work, name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.story.breaks("the simulation itself is sound", f"{task.get_name()}: {failure!r}")
