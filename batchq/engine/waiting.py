"""To wait for something, but not for ever."""

import asyncio

from batchq.ports import Clock


async def within(seconds: float, event: asyncio.Event, clock: Clock) -> None:
    """Until the event is set, or that long."""
    nap = asyncio.ensure_future(clock.sleep(seconds))
    news = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({nap, news}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        nap.cancel()
        news.cancel()
