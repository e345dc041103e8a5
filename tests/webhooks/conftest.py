"""The tests of webhooks run on virtual time, with the product's store in memory and a sender that records."""

import pytest

from tests.support.clock import pytest_asyncio_loop_factories  # noqa: F401 - a hook of pytest-asyncio
from tests.webhooks.board import Board


@pytest.fixture
async def board():
    board = Board()
    yield board
    await board.close()
