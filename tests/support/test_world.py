"""The world of the scenarios is not idle while a unit of work waits for its commit."""

import asyncio
from contextlib import suppress

import pytest

from tests.support.world import simulated


async def test_a_world_is_not_idle_while_a_commit_is_unanswered():
    async with simulated() as world:
        world.store.withholds_replies = True
        submission = asyncio.create_task(world.submit())
        await world.sleep(1)

        with pytest.raises(TimeoutError, match="never idle"):
            await world.wait_until_idle()

        world.store.withholds_replies = False
        submission.cancel()
        with suppress(asyncio.CancelledError):
            await submission
        await world.restart()
