"""The log of a container on its node: files that a kubelet rotates. The API server shows the newest one."""

import asyncio
from datetime import UTC, datetime
from itertools import count

FIRST_STAMP = 1_767_225_600_000_000_000


class RotatedLog:
    """What a test writes as the output of a container."""

    #: Stamps of all lines of all logs, in nanoseconds.
    stamps = count(FIRST_STAMP, 1_000_000)

    def __init__(self, *, follows_rotations=True):
        """`follows_rotations`: whether a follower goes on with the next file, as kubelets of 1.30 and newer do."""
        self._follows_rotations = follows_rotations
        self._files = [[]]
        self._has_ended = False
        self._changed = asyncio.Condition()
        #: The requests that followed it, and the bytes that were sent to them.
        self.followers = 0
        self.sent = 0

    async def write(self, *messages):
        self._files[-1] += [(next(self.stamps), message) for message in messages]
        await self._notify()

    async def rotate(self):
        self._files.append([])
        await self._notify()

    async def end(self):
        self._has_ended = True
        await self._notify()

    def newest(self, since):
        """The text of the newest file from the time `since` on, as in a query; empty: from its beginning."""
        return "".join(_text(line, since) for line in self._files[-1])

    async def follow(self, since, write):
        """Write the newest file, and what is appended, until the container has ended."""
        self.followers += 1
        number, position = len(self._files) - 1, 0
        while True:
            lines = self._files[number][position:]
            position += len(lines)
            for line in lines:
                data = _text(line, since).encode()
                await write(data)
                self.sent += len(data)
            if position < len(self._files[number]):
                continue
            if self._follows_rotations and number < len(self._files) - 1:
                number, position = number + 1, 0
            elif self._has_ended:
                return
            else:
                await self._until_changed(number, position)

    async def _until_changed(self, number, position):
        async with self._changed:
            before = (len(self._files), self._has_ended)
            await self._changed.wait_for(
                lambda: position < len(self._files[number]) or before != (len(self._files), self._has_ended)
            )

    async def _notify(self):
        async with self._changed:
            self._changed.notify_all()


def precise(nanoseconds):
    """A stamp as the API server writes it."""
    seconds, fraction = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def _text(line, since):
    stamp, message = line
    text = f"{precise(stamp)} {message}\n"
    return text if text[: len(since)] >= since else ""
