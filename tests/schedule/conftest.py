"""The tests run on a virtual clock."""

from tests.support.clock import pytest_asyncio_loop_factories  # noqa: F401 - a hook
