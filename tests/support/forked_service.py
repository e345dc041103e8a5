"""Servers that are forked from a process that has imported batchq, since to import it takes most of a server's start.

For tests of what a server does. Tests of the process itself use `service.serving`, which runs the command `batchq`.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.support.service import Service

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["batchq.cli.main", "batchq.cli.serve", "tests.support.forked_service"])


class ForkedService(Service):
    def _spawn(self, words: list[str]) -> "ForkedProcess":
        return ForkedProcess(words, log=self.log)


class ForkedProcess:
    """`batchq` with these arguments, as subprocess.Popen shows it.

    Its stderr is appended to `log`; `environment` is added to ours.
    """

    def __init__(self, words: list[str], *, log: Path, **environment: str) -> None:
        reader, writer = FORKS.Pipe(duplex=False)
        with reader, writer:
            self._process = FORKS.Process(target=_run, args=(words, os.environ | environment, writer, log), daemon=True)
            self._process.start()
            self.stdout = os.fdopen(os.dup(reader.fileno()), encoding="utf-8")
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("batchq", timeout)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


@contextmanager
def serving_forked(data: Path, *extra: str, **how: Any) -> Iterator[Service]:
    service = ForkedService(data, *extra, **how).start()
    try:
        yield service
    finally:
        service.stop()


def _run(words: list[str], environment: dict[str, str], stdout: Connection, log: Path) -> None:
    """Run the command in the forked process."""
    from batchq.cli.main import main  # noqa: PLC0415 - not in the process of the tests

    os.dup2(stdout.fileno(), sys.__stdout__.fileno())
    stdout.close()
    with log.open("a") as stderr:
        os.dup2(stderr.fileno(), sys.__stderr__.fileno())
    os.environ.clear()
    os.environ.update(environment)
    sys.exit(main(words))
