"""What the world of the scenarios promises to those who tell them."""

import asyncio
from contextlib import suppress

import pytest

from tests.support.world import pretended


async def test_it_is_not_quiet_while_a_turn_has_not_heard_that_it_is_saved():
    async with pretended() as world:
        world.store.withholds_replies = True
        asked = asyncio.create_task(world.submit())
        await world.passes(1)

        with pytest.raises(TimeoutError, match="never quiet"):
            await world.quiet()

        world.store.withholds_replies = False
        asked.cancel()
        with suppress(asyncio.CancelledError):
            await asked
        await world.restart()
