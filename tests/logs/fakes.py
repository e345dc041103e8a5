"""A fake engine with the output of containers, and a clock that stands still."""

import asyncio
from datetime import timedelta

from batchq.errors import ContainerGone, RuntimeUnknown
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerState, Inspection
from tests.support.builders import NOON

SECOND = 10**9


class Engine:
    """The part of a ContainerRuntime that reads logs.

    Other tasks run between two lines. After `silent_after` lines the engine does not answer.
    """

    def __init__(self):
        self.written = {}
        self.reads = []
        self.surveys = 0
        self.silent_after = None
        self.clears_silent = False
        self.answers = asyncio.Event()
        self._hanging = lambda _: False
        self.meanwhile = lambda _: None  # called before each read of a log
        #: By followed container, how many of the next lines its follower receives; None: the stream ends.
        self.deliveries = {}
        self.follows = True

    def hang(self, *tags):
        """Let calls about these containers, or all calls, wait until `answers` is set."""
        self._hanging = lambda tag: not tags or tag in tags

    def write(self, tag, *messages, at=1):
        """Lines stamped `at`, `at` + 1, ..."""
        log = self.written.setdefault(tag, [])
        log += [LogLine(at=at + number, message=message) for number, message in enumerate(messages)]

    async def logs(self, tag, *, after):
        self.reads.append((tag, after))
        self.meanwhile(tag)
        await self._answers(tag)
        if tag not in self.written:
            raise ContainerGone(str(tag))
        count = 0
        for line in [line for line in self.written[tag] if line.at > after]:
            await asyncio.sleep(0)
            if count == self.silent_after:
                raise RuntimeUnknown("silent")
            count += 1
            yield line
        if count == self.silent_after:
            raise RuntimeUnknown("silent")

    async def follow(self, tag, *, after):
        return self._followed(tag, after) if self.follows else None

    async def _followed(self, tag, after):
        queue, position = self.deliveries.setdefault(tag, asyncio.Queue()), 0
        while (number := await queue.get()) is not None:
            portion, position = self.written[tag][position : position + number], position + number
            if lines := [line for line in portion if line.at > after]:
                yield lines

    async def remove_silent(self, tag):
        if self.clears_silent and self.written.get(tag) == []:
            self.reads.append((tag, 0))
            del self.written[tag]
            return None
        return self.logs(tag, after=0)

    async def survey(self):
        self.surveys += 1
        await self._answers(None)
        if self.silent_after is not None:
            raise RuntimeUnknown("silent")
        return tuple(Inspection(tag=tag, state=ContainerState.RUNNING) for tag in self.written)

    async def _answers(self, tag):
        if self._hanging(tag):
            await self.answers.wait()


class StillClock:
    """A clock that stands at noon until it is changed."""

    def __init__(self):
        self._now = NOON

    def now(self):
        return self._now

    def pass_seconds(self, seconds):
        self._now += timedelta(seconds=seconds)
