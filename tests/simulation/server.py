"""One server from its boot to its death, made as bootstrap makes it, on a disk and a machine that outlive it."""

import asyncio
import sqlite3
from datetime import timedelta
from typing import Any
from uuid import UUID

from batchq.domain.access.accounts import Directory
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.engine.clock_alignment import align
from batchq.engine.engine import Engine
from batchq.engine.mailbox import Mailbox
from batchq.errors import StoreFailed
from batchq.logs.service import LogService
from batchq.ports.clock import Clock
from batchq.ports.logs import LogArchive
from batchq.services.bulk_stop import BulkStopService
from batchq.services.catalog import CatalogService
from batchq.services.jobs import JobService
from tests.simulation.clocks import ServerClock
from tests.simulation.dice import Dice
from tests.simulation.engine import Liar, Machine
from tests.simulation.fate import SURVEY_EVERY
from tests.simulation.life import Life
from tests.simulation.memory import Memory
from tests.simulation.oracles import Witness
from tests.simulation.people import accounts
from tests.simulation.store import FaultyDatabase, WatchedStore
from tests.simulation.story import Story
from tests.support.disk import BOTTOMLESS, UNLIMITED


class Dealing:
    """The engine to a service whose ids are dealt by the seed: what sorts by ids would else make each run another."""

    def __init__(self, engine: Engine, dice: Dice) -> None:
        self._engine = engine
        self._dice = dice

    async def submit(self, *, job_id: JobId, **asked: Any) -> Job:
        dealt = JobId(str(UUID(int=self._dice.ids.getrandbits(128), version=4)))
        return await self._engine.submit(job_id=dealt, **asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class Server:
    """`ready` is when its door is open."""

    def __init__(
        self,
        *,
        connection: sqlite3.Connection,
        machine: Machine,
        archive: LogArchive,
        clock: Clock,
        dice: Dice,
        story: Story,
        witness: Witness,
        grace: timedelta,
    ) -> None:
        self.life = Life(dice=dice, story=story)
        self._times = witness.times
        if self._times.machine_clock is not None:
            clock = ServerClock(clock, self._times.machine_clock.skew)
        self.clock = clock
        self.ready = False
        self._leaves = asyncio.Event()
        self._story = story
        self.store = WatchedStore(FaultyDatabase(connection, life=self.life, dice=dice), witness)
        runtime = Liar(
            machine,
            clock=clock,
            machine_clock=witness.times.machine_clock,
            life=self.life,
            dice=dice,
            story=story,
            witness=witness,
        )
        logs = LogService(store=self.store, archive=archive, runtime=runtime, clock=clock, quota=UNLIMITED)
        inbox = Mailbox()
        self.catalog = CatalogService(
            store=self.store, jobs=self.store, clock=clock, floor=BOTTOMLESS, changed=inbox.ground_changed
        )
        self.engine = Engine(
            inbox=inbox,
            store=self.store,
            ground=self.catalog,
            runtime=runtime,
            accounts=accounts(dice.account_limit),
            keep_log=logs.keep,
            clock=clock,
            survey_every=SURVEY_EVERY,
        )
        self.store.look = Memory(self.engine.loop, jobs=witness.jobs, story=story).look
        self.catalog.consumable_resources.usage = self.engine
        dealing = Dealing(self.engine, dice)
        self.jobs = JobService(
            engine=dealing, store=self.store, catalog=self.catalog, floor=BOTTOMLESS, stop_grace=grace
        )

        self.stopping = BulkStopService(
            engine=self.engine, store=self.store, people=Directory, queues=self.catalog.queues_of
        )

    async def align(self) -> None:
        """As bootstrap does. A world whose clock is never set spares it, and stays as it was."""
        if isinstance(self.clock, ServerClock):
            await align(self.store, self.clock)
            self._times.aligned()

    async def live(self) -> None:
        """Until it is dead, and every task of it gone."""
        course = asyncio.create_task(self._course(), name="a server")
        died = asyncio.create_task(self.life.died.wait())
        await asyncio.wait({course, died}, return_when=asyncio.FIRST_COMPLETED)
        self.ready = False
        self.life.end("in order")
        course.cancel()
        await asyncio.gather(course, died, return_exceptions=True)
        await self.engine.tasks.cancel()

    @property
    def surveyed(self) -> bool:
        """Whether a survey has been read, not only made."""
        return self.engine.loop.state.strays.first is not None

    def leave(self) -> None:
        """It is asked to stop, and does so in its own time."""
        self._leaves.set()

    def at_rest(self) -> bool:
        """Nothing is unread, and nothing is under way but the loops."""
        return self.engine.inbox.empty and set(self.engine.tasks.names) <= set(self.engine.health().loops)

    async def _course(self) -> None:
        try:
            await self.align()
            await self.catalog.load()
            await self.engine.start()
        except StoreFailed as why:
            self._story.tell(f"server cannot start: {why}")
            await self.engine.stop()
            return
        self.ready = True
        self._story.tell("server is ready")
        await self._leaves.wait()
        self.ready = False
        await self.engine.stop()
        self._story.tell("server has stopped")
