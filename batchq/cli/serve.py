"""The server process: one line when it is ready, a quiet end on a first signal, an immediate one on a second."""

import asyncio
import os
import signal
import sys

from batchq.bootstrap import serving
from batchq.settings import Settings

AT_ONCE = 130  # exit status of an end without ceremony; the database is whole all the same


async def serve(settings: Settings) -> int:
    """Until SIGTERM or SIGINT; containers run on. Raises BatchqError or OSError when it cannot start."""
    over = _signals()
    async with serving(settings) as url:
        sys.stdout.write(f"batchq is ready at {url}\n")
        sys.stdout.flush()
        await over.wait()
    return 0


def _signals() -> asyncio.Event:
    over = asyncio.Event()

    def heard() -> None:
        if over.is_set():
            os._exit(AT_ONCE)
        over.set()

    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, heard)
    return over
