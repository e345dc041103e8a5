"""The deadlines of connections run on a clock that the tests advance, so a slow machine does not matter."""

from tests.support.clock import StandingLoop


def pytest_asyncio_loop_factories(config, item):
    return {"standing": StandingLoop}
