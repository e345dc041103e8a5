"""One server from its boot to its death, made as bootstrap makes it, on a disk and a machine that outlive it."""

import asyncio
import sqlite3
from datetime import timedelta

from batchq.errors import StoreFailed
from batchq.ports.clock import BootClock
from batchq.ports.logs import LogArchive
from tests.simulation import people
from tests.simulation.clocks import ServerClock
from tests.simulation.dice import Dice
from tests.simulation.engine import Liar, Machine
from tests.simulation.fate import SURVEY_EVERY
from tests.simulation.life import Life
from tests.simulation.memory import Memory
from tests.simulation.oracles import Witness
from tests.simulation.store import FaultyDatabase, WatchedStore
from tests.simulation.story import Story
from tests.support.in_process_server import InProcessServer


class Server(InProcessServer):
    """`ready` is when its door is open."""

    def __init__(
        self,
        *,
        connection: sqlite3.Connection,
        machine: Machine,
        archive: LogArchive,
        clock: BootClock,
        dice: Dice,
        story: Story,
        witness: Witness,
        grace: timedelta,
    ) -> None:
        self.life = Life(dice=dice, story=story)
        self._times = witness.times
        if self._times.machine_clock is not None:
            clock = ServerClock(clock, self._times.machine_clock.skew)
        self.ready = False
        self._leaves = asyncio.Event()
        self._story = story
        directory = people.directory(dice.account_limit)
        super().__init__(
            store=WatchedStore(FaultyDatabase(connection, life=self.life, dice=dice), witness),
            runtime=Liar(
                machine,
                clock=clock,
                machine_clock=witness.times.machine_clock,
                life=self.life,
                dice=dice,
                story=story,
                witness=witness,
            ),
            archive=archive,
            clock=clock,
            people=lambda: directory,
            restricts_accounts=False,
            survey_every=SURVEY_EVERY,
            new_job_id=dice.job_id,
        )
        self.store.look = Memory(self.engine.loop, jobs=witness.jobs, story=story).look
        self.jobs = self.job_service(stop_grace=grace)

    async def align(self) -> None:
        """As bootstrap does. A world whose clock is never set spares it, and stays as it was."""
        if isinstance(self.clock, ServerClock):
            await super().align()
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
        await self.kill()

    @property
    def surveyed(self) -> bool:
        """Whether a survey has been read, not only made."""
        return self.engine.loop.state.strays.first is not None

    def leave(self) -> None:
        """It is asked to stop, and does so in its own time."""
        self._leaves.set()

    async def _course(self) -> None:
        try:
            await self.align()
            await self.start()
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
