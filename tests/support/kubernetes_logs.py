"""The log of a container on its node: files that a kubelet rotates. The API server shows the newest one."""

import asyncio
from datetime import UTC, datetime
from itertools import count, islice

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
        #: Whether followers stay with a file that was rotated before they had reached its end, as all kubelets do.
        self.misses_rotations = False
        self._changed = asyncio.Condition()
        #: What a reading sees at the end of the file of a line that is being written.
        self.torn = ""
        #: After so many bytes the reply to a follower ends; None: only with the log.
        self.reply_bytes = None
        #: After so many characters the reply to the next reading ends; None: with the file.
        self.reading_characters = None
        #: Set while what is followed is sent.
        self.is_sent = asyncio.Event()
        self.is_sent.set()
        #: Called when a follower has gone.
        self.on_leave = lambda: None
        #: The requests that followed it, and the bytes that were sent to them.
        self.followers = 0
        self.sent = 0

    async def write(self, *messages):
        await self.write_pieces(*(f"{message}\n" for message in messages))

    async def write_pieces(self, *texts):
        """Write pieces of a line that is longer than 16 KiB; the last one has the line end."""
        self._files[-1] += [(next(self.stamps), text) for text in texts]
        await self._notify()

    def pass_time(self, milliseconds):
        """Let the next line be written so much later."""
        next(islice(self.stamps, milliseconds, None))

    async def rotate(self):
        self._files.append([])
        await self._notify()

    async def end(self):
        self._has_ended = True
        await self._notify()

    def newest(self, since):
        """The text of the newest file from the time `since` on, as in a query; empty: from its beginning."""
        lines = self._files[-1]
        text = "".join(self._text(lines, index, since) for index in range(len(lines)))
        text = f"{text}{precise(next(self.stamps))} {self.torn}" if self.torn else text
        cut, self.reading_characters = self.reading_characters, None
        return text[:cut]

    async def follow(self, since, write):
        """Write the newest file, and what is appended, until the container has ended or the reply ends."""
        self.followers += 1
        try:
            await self._follow(since, write)
        finally:
            self.on_leave()

    async def _follow(self, since, write):
        number, position = len(self._files) - 1, 0
        while True:
            for index in range(position, len(self._files[number])):
                position, data = index + 1, self._text(self._files[number], index, since).encode()
                left, self.reply_bytes = self.reply_bytes, self.reply_bytes and max(0, self.reply_bytes - len(data))
                await self.is_sent.wait()
                await write(data[:left])
                self.sent += len(data)
                if left is not None and left < len(data):
                    self.reply_bytes = None
                    return
            if position < len(self._files[number]):
                continue
            if self._follows_rotations and number < len(self._files) - 1 and not self.misses_rotations:
                number, position = number + 1, 0
            elif self._has_ended:
                return
            else:
                await self._until_changed(number, position)

    def _text(self, lines, index, since):
        """A line from the time `since` on. A kubelet that follows rotations writes no stamp within a line."""
        stamp, text = lines[index]
        stamped = f"{precise(stamp)} {text}"
        if stamped[: len(since)] < since:
            return ""
        is_within_line = index > 0 and not lines[index - 1][1].endswith("\n")
        return text if is_within_line and self._follows_rotations else stamped

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
