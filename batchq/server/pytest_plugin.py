"""The pytest plugin of batchq: the fixture `batchq`, a server with simulated containers for one test.

The server runs in a thread of the test process and starts in about 0.1 s, so no test sees the jobs of another one.
Code under test finds it by the variables of AWS's clients. pytest imports this module in every environment that has
batchq, so it imports the server only for a test that uses the fixture.
"""

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from batchq.compute.simulated.script import Script

MARKER = "batchq_outcome"
STOP_GRACE = 1.0  # seconds


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(name, *attempts, **members): how simulated containers of jobs with this name (a pattern) behave: a "
        "script for each attempt, or the members of one script for all attempts",
    )


class LocalServer:
    """A server with simulated containers. Jobs succeed at once, unless a test plans another outcome."""

    def __init__(self, data: Path) -> None:
        from batchq.compute.simulated.script import Script  # noqa: PLC0415 - see the module

        self._data = data
        self._outcomes: dict[str, Sequence[Script]] = {"*": (Script(seconds=0),)}
        #: The URL of the endpoint, when the server is ready.
        self._ready: Future[str] = Future()
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)

    @property
    def url(self) -> str:
        """The endpoint URL. Raises StartImpossible if the server cannot start."""
        return self._ready.result()

    def plan(self, name: str, *attempts: dict[str, Any], **members: Any) -> None:  # noqa: ANN401 - as in docs/ci.md
        """Decide how jobs of this name behave that are submitted from now on; `name` may have `*` and `?`.

        `attempts`: a script for each attempt, the last one for all further ones; or the members of one script. Raises
        ValueError for an unknown member. An attempt without `seconds` ends at once.
        """
        from msgspec import convert  # noqa: PLC0415 - see the module

        from batchq.compute.simulated.script import Script  # noqa: PLC0415 - see the module

        scripts = tuple(convert({"seconds": 0} | each, Script) for each in attempts or (members,))
        asyncio.run_coroutine_threadsafe(self._plan(name, scripts), self._loop).result()

    async def _plan(self, name: str, scripts: Sequence["Script"]) -> None:
        self._outcomes.pop(name, None)  # the last match applies
        self._outcomes[name] = scripts

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the server, with all its containers."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        from batchq.server.bootstrap import serving  # noqa: PLC0415 - see the module
        from batchq.settings import Runtime, Settings  # noqa: PLC0415 - see the module

        settings = Settings(data=self._data, port=0, runtime=Runtime.SIMULATED, stop_grace=STOP_GRACE, min_free_mib=0)
        try:
            async with serving(settings, outcomes=self._outcomes) as server:
                self._ready.set_result(server.urls[0])
                await self._stopped.wait()
        except BaseException as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)


@pytest.fixture
def batchq(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LocalServer]:
    """A server with simulated containers, for one test. AWS's clients find it by the variables of the environment."""
    server = LocalServer(tmp_path_factory.mktemp("batchq"))
    server.start()
    try:
        variables = {
            "AWS_ENDPOINT_URL": server.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "BATCHQ_URL": server.url,
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        for marker in reversed(list(request.node.iter_markers(MARKER))):  # that of the test comes after its module's
            server.plan(*marker.args, **marker.kwargs)
        yield server
    finally:
        server.stop()
