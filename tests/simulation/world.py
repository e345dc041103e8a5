"""What outlives servers: a disk, a machine, users and witnesses; and one server after another, as they die.

What goes wrong is the dice's affair, and what is done here a course's: `storm` is one, and `plots` are others.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from batchq.domain.container import Resources
from batchq.domain.ids import JobId
from batchq.domain.job import FINISHED
from batchq.engine import arrays, bulk_stops
from tests.simulation.client import Client
from tests.simulation.clocks import MachineClock
from tests.simulation.dice import Dice
from tests.simulation.engine import Machine
from tests.simulation.oracles import Witness
from tests.simulation.server import Server
from tests.simulation.story import Story
from tests.simulation.wishes import DEFINITIONS, LARGEST
from tests.support.clock import VirtualClock
from tests.support.inline import InlineLogFiles, database_in_memory

HOST = Resources(millicpus=2 * LARGEST, memory_mib=4096)


class World:
    def __init__(self, dice: Dice, story: Story) -> None:
        self.story = story
        self.clock = VirtualClock()
        self.dice = dice
        self.witness = Witness(now=self.clock.now, story=story)
        if self.dice.clock_setting:
            self.witness.times.machine_clock = MachineClock(self.clock.now, self.dice.skew())
        self.witness.ledger.host = HOST
        self.witness.ledger.account_limit = dice.account_limit
        self.archive = InlineLogFiles()
        self.connection = database_in_memory()
        self.machine = Machine(clock=self.clock, capacity=HOST, dice=self.dice, story=story, witness=self.witness)
        # Another engine: too small for any job, so that none is begun there while no attempt is unfinished.
        self.elsewhere = Machine(
            clock=self.clock,
            capacity=Resources(millicpus=0, memory_mib=0),
            dice=self.dice,
            story=story,
            witness=self.witness,
            engine_id="another",
        )
        self.server: Server | None = None
        self.is_elsewhere = False
        self.client = Client(
            server=lambda: self.server, clock=self.clock, dice=self.dice, story=story, witness=self.witness
        )
        arrays.MOST = self.dice.world.choice([1, 3, arrays.MOST])  # of an array, in a unit of work
        bulk_stops.MOST = self.dice.sweeps.choice([1, 3, bulk_stops.MOST])  # of an order
        self._grace = timedelta(seconds=self.dice.grace())
        self._tasks: set[asyncio.Task[None]] = set()

    async def settle_ground(self) -> None:
        """By a server whose engine never runs: it has nothing to do yet."""
        self.machine.runtime.remove_image(DEFINITIONS["pulled"])
        self.machine.runtime.remove_image(DEFINITIONS["missing"], pull_error="not found")
        self.server = self._make_server()
        await self.server.align()
        self.server.ready = True
        await self.client.settle_ground()

    async def serve(self) -> None:
        """One server after another, from here on. Comes back when the first is ready."""
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
        await self.machine.runtime.close()
        await self.elsewhere.runtime.close()
        self.connection.close()

    @property
    def has_surveyed(self) -> bool:
        """Whether the server that lives has seen what the engine has."""
        return self.server is not None and self.server.surveyed

    def unfinished(self) -> list[JobId]:
        """Children are their array's affair."""
        return [it.id for it in self.witness.jobs.values() if it.status not in FINISHED and it.child is None]

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def _serve(self) -> None:
        while True:
            self.is_elsewhere = self.dice.goes_elsewhere()
            self._perhaps_set_clock()
            self.server = self._make_server()
            self.story.counts["boots"] += 1
            if self.is_elsewhere:
                self.story.tell("the server is started on another engine")
                self.story.counts["other engines"] += 1
            await self.server.live()
            await self.clock.sleep(self.dice.downtime())

    def _perhaps_set_clock(self) -> None:
        clock = self.witness.times.machine_clock
        if clock is not None and self.dice.sets_clock():
            clock.set(self.dice.skew())
            self.story.tell(f"the machine's clock is set: it is ahead by {clock.skew.total_seconds():.0f}")
            self.story.counts["clock settings"] += 1

    def _make_server(self) -> Server:
        return Server(
            connection=self.connection,
            machine=self.elsewhere if self.is_elsewhere else self.machine,
            archive=self.archive,
            clock=self.clock,
            dice=self.dice,
            story=self.story,
            witness=self.witness,
            grace=self._grace,
        )

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self.story.breaks("the simulation itself is sound", f"{task.get_name()}: {failure!r}")
