"""A fake engine with the output of containers, and a clock that stands still."""

import asyncio
from datetime import timedelta

from batchq.errors import ContainerGone, EngineUnknown
from batchq.ports.logs import LogLine
from batchq.ports.runtime import ContainerState, Inspection
from tests.support.builders import NOON

SECOND = 10**9


class Engine:
    """As much of a ContainerRuntime as reading logs needs.

    It answers a line at a time, and lets others run in between. After `silent_after` lines it gives no answer.
    """

    def __init__(self):
        self.written = {}
        self.asked = []
        self.surveys = 0
        self.silent_after = None
        self.clears_silent = False
        self.answers = asyncio.Event()
        self._hanging = lambda _: False
        self.meanwhile = lambda _: None  # happens when a container is asked for its log

    def hang(self, *tags):
        """From now on calls about these containers wait until `answers` is set; about all, if none is named."""
        self._hanging = lambda tag: not tags or tag in tags

    def write(self, tag, *messages, at=1):
        """Lines stamped `at`, `at` + 1, ..."""
        log = self.written.setdefault(tag, [])
        log += [LogLine(at=at + number, message=message) for number, message in enumerate(messages)]

    async def logs(self, tag, *, after):
        self.asked.append((tag, after))
        self.meanwhile(tag)
        await self._answers(tag)
        if tag not in self.written:
            raise ContainerGone(str(tag))
        told = 0
        for line in [line for line in self.written[tag] if line.at > after]:
            await asyncio.sleep(0)
            if told == self.silent_after:
                raise EngineUnknown("silent")
            told += 1
            yield line
        if told == self.silent_after:
            raise EngineUnknown("silent")

    async def remove_silent(self, tag):
        if self.clears_silent and self.written.get(tag) == []:
            self.asked.append((tag, 0))
            del self.written[tag]
            return None
        return self.logs(tag, after=0)

    async def survey(self):
        self.surveys += 1
        await self._answers(None)
        if self.silent_after is not None:
            raise EngineUnknown("silent")
        return tuple(Inspection(tag=tag, state=ContainerState.RUNNING) for tag in self.written)

    async def _answers(self, tag):
        if self._hanging(tag):
            await self.answers.wait()


class StillClock:
    """It is noon until told otherwise."""

    def __init__(self):
        self._now = NOON

    def now(self):
        return self._now

    def pass_seconds(self, seconds):
        self._now += timedelta(seconds=seconds)
