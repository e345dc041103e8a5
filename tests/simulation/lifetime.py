"""Kills a server: from that moment none of its tasks reaches the store or the engine."""

import asyncio

from batchq.domain.ids import Tag
from batchq.ports.jobs import Changes
from tests.simulation.choices import Choices, Point
from tests.simulation.run_log import RunLog


class Lifetime:
    def __init__(self, *, choices: Choices, run_log: RunLog) -> None:
        self._choices = choices
        self._run_log = run_log
        self.alive = True
        self.died = asyncio.Event()

    def end(self, where: str) -> None:
        if self.alive:
            self._run_log.write(f"server dies {where}")
            self.alive = False
            self.died.set()

    async def fault_point(self, when: str, what: str, about: Tag | Changes | None = None) -> None:
        """A point at which the server may be killed. After that the caller waits for ever."""
        if self.alive and self._choices.crashes(Point(when, what, about)):
            self._run_log.counts["crashes"] += 1
            self._run_log.counts[f"crashes {when} {what}"] += 1
            self.end(f"{when} {what} {self._run_log.name_of(about) if isinstance(about, Tag) else ''}".rstrip())
        if not self.alive:
            await asyncio.get_running_loop().create_future()
