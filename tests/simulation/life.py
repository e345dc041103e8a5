"""A server's life as its outside sees it: from one moment to the next it is no more, and nothing of it reaches out."""

import asyncio

from batchq.domain.ids import Tag
from batchq.ports.jobs import Changes
from tests.simulation.dice import Dice, Point
from tests.simulation.story import Story


class Life:
    def __init__(self, *, dice: Dice, story: Story) -> None:
        self._dice = dice
        self._story = story
        self.alive = True
        self.died = asyncio.Event()

    def end(self, where: str) -> None:
        if self.alive:
            self._story.tell(f"server dies {where}")
            self.alive = False
            self.died.set()

    async def point(self, when: str, what: str, about: Tag | Changes | None = None) -> None:
        """Here it may be killed. Who is dead goes no further."""
        if self.alive and self._dice.crashes(Point(when, what, about)):
            self._story.counts["crashes"] += 1
            self._story.counts[f"crashes {when} {what}"] += 1
            self.end(f"{when} {what} {self._story.called(about) if isinstance(about, Tag) else ''}".rstrip())
        if not self.alive:
            await asyncio.get_running_loop().create_future()
