"""Followers: one for each running container whose container engine stores only a little of a log.

A kubelet shows 10 MiB of a log, so lines of a container that writes more would be gone before a copy (decision 0118).
A follower reads the log as it is written. While the archive stores a portion the next one is not read, so the memory of
a follower is bounded and the container engine waits. After a restart followers continue from what is stored.
"""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta

from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.container_rules import is_captured
from batchq.domain.lifecycle.reconcile import container_tags, tags_running
from batchq.errors import ContainerGone, RuntimeUnknown, StoreFailed
from batchq.logs.capture import FollowEnd, LogCapture

log = logging.getLogger(__name__)

STORE_INTERVAL = timedelta(seconds=2)  # between two portions of a container that writes little
MANY_CHARACTERS = 2**16  # after a portion of this size portions are read at once for STORE_INTERVAL
REOPEN_PAUSE = timedelta(seconds=1)  # before a log is followed again whose stream has ended; doubles with each failure
MAX_PAUSE = timedelta(seconds=10)  # after several failures, and when a quota has stopped the log
#: After the end of a container its follower has received all once so many periods have passed without output. A
#: kubelet ends a stream up to 5 s after the end. One period alone may have passed while the event loop was busy.
QUIET_PERIODS, QUIET_PERIOD = 2, timedelta(seconds=0.5)
#: The same while lines are missing before the newest ones: a loaded node may send nothing for seconds.
BEHIND_PERIODS = 60
LONG_LOG = 2**20  # characters; of a shorter log nothing was rotated away


class Follower:
    """The follower of one container, from its start to its removal."""

    def __init__(self, tag: Tag, capture: LogCapture) -> None:
        self._tag = tag
        self._capture = capture
        #: Set when the container has ended.
        self._has_ended = asyncio.Event()
        #: Whether all lines since the last copy were received, as far as the connection shows.
        self._is_complete = False
        #: Until when portions are read at once, by the event loop's clock, in seconds.
        self._is_busy_until = 0.0
        #: The portions that were received.
        self._portions = 0
        #: The characters that were received.
        self._characters = 0
        self._task = asyncio.create_task(self._run(), name=f"follow the log of {tag}")

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to follow: the container is gone, or its container engine stores enough output."""
        return self._task.done()

    async def finish(self) -> bool:
        """Receive the rest of the log of a container that has ended. Returns whether nothing was lost before.

        The end of the stream is not awaited if nothing arrives any more.
        """
        self._has_ended.set()
        seen, quiet = self._portions, 0
        while not self._task.done() and (quiet < QUIET_PERIODS or await self._is_behind(quiet)):
            await asyncio.wait([self._task], timeout=QUIET_PERIOD.total_seconds())
            is_quiet = seen == self._portions and not self._capture.is_busy(self._tag)
            seen, quiet = self._portions, quiet + 1 if is_quiet else 0
        is_complete = self._is_complete
        await self.close()
        return is_complete

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _is_behind(self, quiet: int) -> bool:
        """Whether lines may still arrive that only the connection has. `quiet`: the periods without output."""
        return quiet < BEHIND_PERIODS and self._characters >= LONG_LOG and await self._capture.has_gap(self._tag)

    async def _run(self) -> None:
        """Follow the log, again after each end of its stream, until the container has ended."""
        pause = REOPEN_PAUSE
        while not self._has_ended.is_set():
            marks_gap, self._is_complete = not self._is_complete, True
            try:
                end = await self._capture.follow(self._tag, self._received, marks_gap=marks_gap)
            except ContainerGone:
                return
            except (RuntimeUnknown, StoreFailed) as failure:
                if not marks_gap:
                    log.warning("container %s: its log is not followed at present: %s", self._tag, failure)
                self._is_complete, pause = False, min(2 * pause, MAX_PAUSE)
            else:
                if end is FollowEnd.UNNEEDED:
                    return
                pause = MAX_PAUSE if end is FollowEnd.REFUSED else REOPEN_PAUSE
            await self._pause(pause)

    async def _received(self, characters: int) -> None:
        self._portions += 1
        self._characters += characters
        now = asyncio.get_running_loop().time()
        if characters >= MANY_CHARACTERS:
            self._is_busy_until = now + STORE_INTERVAL.total_seconds()
        elif now >= self._is_busy_until:
            await self._pause(STORE_INTERVAL)

    async def _pause(self, pause: timedelta) -> None:
        """Wait, but only until the container has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(pause.total_seconds()):
                await self._has_ended.wait()


class LogFollowers:
    """The followers of all running containers."""

    def __init__(self, capture: LogCapture, *, is_following: bool) -> None:
        """`is_following`: whether logs are followed at all."""
        self._capture = capture
        self._is_following = is_following
        self._followers: dict[Tag, Follower] = {}

    def on_saved(self, job: Job) -> None:
        """Follow the logs of the running containers of a job that was loaded or saved."""
        if not self._is_following:
            return
        running = tags_running(job)
        for tag in running:
            if tag not in self._followers and is_captured(job, tag):
                self._followers[tag] = Follower(tag, self._capture)
        for tag in container_tags(job):
            if tag not in running and tag in self._followers and self._followers[tag].is_over:
                del self._followers[tag]

    async def capture(self, tag: Tag) -> bool:
        """As `LogCapture.capture`, after the follower has received the output of the container, which has ended."""
        follower = self._followers.get(tag)
        is_complete = follower is not None and await follower.finish()
        removed = await self._capture.capture(tag, is_followed=is_complete)
        self._followers.pop(tag, None)
        return removed

    async def close(self) -> None:
        """End the followers. What they have not stored is read by the next server."""
        followers, self._followers = tuple(self._followers.values()), {}
        await asyncio.gather(*(follower.close() for follower in followers))
