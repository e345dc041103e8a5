"""How long a connection is borne is told by a clock that these tests move: however slow the machine, it waits."""

from tests.support.clock import StandingLoop


def pytest_asyncio_loop_factories(config, item):
    return {"standing": StandingLoop}
