"""Time in the engine's tests is virtual."""

from tests.support.clock import pytest_asyncio_loop_factories  # noqa: F401 - a hook
