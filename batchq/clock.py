"""The machine's time. The one place that reads it."""

import asyncio
import time
from datetime import UTC, datetime, timedelta


class SystemClock:
    """Wall time as it was at the start, and then what has passed: setting the machine's clock moves nothing."""

    def __init__(self) -> None:
        self._started = datetime.now(UTC)
        self._mark = time.monotonic()

    def now(self) -> datetime:
        return self._started + timedelta(seconds=time.monotonic() - self._mark)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def wall_time() -> datetime:
    """What the machine's clock shows now: for what other machines measure by theirs, and for the log's lines."""
    return datetime.now(UTC)
