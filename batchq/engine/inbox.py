"""Where letters wait to be read."""

import asyncio
from collections import deque

from batchq.engine.letters import GroundChanged, Letter


class Inbox:
    """Anybody may post; one reader takes. Nothing is refused: each letter stands for something that did happen."""

    def __init__(self) -> None:
        self._letters: deque[Letter] = deque()
        self._mail = asyncio.Event()

    def post(self, letter: Letter) -> None:
        self._letters.append(letter)
        self._mail.set()

    def ground_changed(self) -> None:
        """Queues or environments are not what they were."""
        self.post(GroundChanged())

    async def take(self, most: int) -> list[Letter]:
        """All that waits, oldest first, at least one and at most so many."""
        await self._mail.wait()
        letters = [self._letters.popleft() for _ in range(min(len(self._letters), most))]
        if not self._letters:
            self._mail.clear()
        return letters

    @property
    def empty(self) -> bool:
        return not self._letters
