"""A long day takes no time."""

from tests.support.clock import pytest_asyncio_loop_factories  # noqa: F401 - a hook
