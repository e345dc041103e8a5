"""A real `batchq serve` in a process of its own, on a free port of loopback and data of its own.

`serving` runs the command `batchq`, for tests of the process. `serving_forked`, for tests of what a server does, forks
a process that has imported batchq: the imports take most of a server's start.
"""

import json
import multiprocessing
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from http import HTTPStatus
from multiprocessing.connection import Connection
from pathlib import Path
from socket import SO_REUSEADDR, SOL_SOCKET, socket
from typing import Any

import boto3
import docker
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from docker.errors import APIError

from batchq.engine.loop_watchdog import UNKNOWN_CAUSE
from tests.support.docker_api import docker_api

BATCHQ = Path(sys.executable).parent / "batchq"
ANY_KEY = "AKIDEXAMPLE", "secret"  # for servers that do not authenticate
READY = "batchq is ready at "
PATIENCE = 60.0  # seconds
BLOCKED, NOT_OURS = "the event loop was blocked", "other programs"

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["batchq.cli.main", "batchq.cli.serve", "tests.support.service"])


class Service:
    """A `batchq serve` that can be stopped, killed and started again, with the same data on the same port.

    `extra` are further flags; `under` is a command that runs the server, for example `prlimit --nofile=64`. `bundle` is
    the file of the authority that issued its certificate, and `key` the default key of its clients. `engine_url` is
    that of its engine; None: DOCKER_HOST names the engine.
    """

    def __init__(
        self,
        data: Path,
        *extra: str,
        under: Sequence[str] = (),
        bundle: Path | None = None,
        key: Sequence[str] = ANY_KEY,
        engine_url: str | None = None,
    ) -> None:
        self.data = data
        self.log = data.parent / f"{data.name}.log"
        self._extra = extra
        self._under = under if engine_url is None else ("env", f"DOCKER_HOST={engine_url}", *under)
        self._engine_url = engine_url
        self.trust = bundle and ssl.create_default_context(cafile=bundle)
        self._bundle = bundle
        self._key = key
        self._door = reserved()
        weakref.finalize(self, self._door.close)
        self.process: Any = None
        self.url = ""
        self.instance = ""

    def start(self) -> "Service":
        _, port = self._door.getsockname()
        self.process = self._spawn(["serve", "--data", str(self.data), "--port", str(port), *self._extra])
        line = self.process.stdout.readline()
        if not line.startswith(READY):
            self.process.wait(PATIENCE)
            raise RuntimeError(f"batchq did not start; its log ends:\n{self.log.read_text()[-3000:]}")
        self.url = line.removeprefix(READY).strip()
        self.instance = self.health().get("instance", "")
        return self

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL; the exit status."""
        return self._end(signal.SIGKILL)

    def client(self, name: str = "batch", *, key: Sequence[str] = (), tries: int = 8) -> Any:
        """A boto3 client of this server."""
        key = key or self._key
        return boto3.client(
            name,
            endpoint_url=self.url,
            region_name="eu-central-1",
            aws_access_key_id=key[0],
            aws_secret_access_key=key[1],
            config=Config(retries={"mode": "standard", "max_attempts": tries}),
            verify=self._bundle and str(self._bundle),
        )

    def health(self) -> dict[str, Any]:
        """The response of /healthz: signed if the server has a key, else the public part."""
        request = AWSRequest("GET", f"{self.url}/healthz")
        if self._key != ANY_KEY:
            SigV4Auth(Credentials(*self._key), "batch", "eu-central-1").add_auth(request)
        signed = urllib.request.Request(request.url, headers=dict(request.headers.items()))
        with urllib.request.urlopen(signed, context=self.trust) as answer:
            return json.load(answer)

    def native(self, path: str, body: object = None) -> tuple[int, Any]:
        """The status and the JSON of an unsigned request to `/v1/batchq/PATH`; bytes are sent as they are."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = urllib.request.Request(f"{self.url}/v1/batchq/{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(sent, timeout=PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, json.load(refused)

    def blocked_by(self) -> list[str]:
        """The logged calls of batchq that blocked the event loop for a second or more."""
        blocked = [line.partition(BLOCKED)[2] for line in self.log.read_text().splitlines() if BLOCKED in line]
        return [line for line in blocked if NOT_OURS not in line and UNKNOWN_CAUSE not in line]

    def containers(self) -> list[dict[str, Any]]:
        """The containers of the jobs on the engine, in any state."""
        labels = [f"io.batchq.instance={self.instance}", "io.batchq.job"]
        with closing(docker_api(self._engine_url)) as engine:
            return engine.containers(all=True, filters={"label": labels})

    def remove_containers(self) -> None:
        """Remove the containers, networks and volumes of a server that is not started again."""
        with closing(docker_api(self._engine_url)) as engine:
            ours = {"label": f"io.batchq.instance={self.instance}"}
            end = time.monotonic() + PATIENCE
            while left := engine.containers(all=True, filters=ours):
                assert time.monotonic() < end, f"they cannot be removed: {left}"
                for container in left:
                    _remove(engine, container["Id"])
                time.sleep(0.05)
            for network in engine.networks(filters=ours):
                engine.remove_network(network["Id"])
            for volume in engine.volumes(filters=ours)["Volumes"] or ():
                engine.remove_volume(volume["Name"])

    def environment(self) -> dict[str, str]:
        """The environment of a client that reads its endpoint and keys from it, for example the AWS CLI."""
        trust = {"AWS_CA_BUNDLE": str(self._bundle)} if self._bundle else {}
        where = {"AWS_ENDPOINT_URL": self.url, "AWS_DEFAULT_REGION": "eu-central-1", "AWS_PAGER": ""}
        keys = {"AWS_ACCESS_KEY_ID": self._key[0], "AWS_SECRET_ACCESS_KEY": self._key[1]}
        return os.environ | trust | where | keys

    def _spawn(self, words: list[str]) -> Any:
        """Start batchq with these arguments: a subprocess.Popen, or an object with its methods."""
        with self.log.open("a") as log:
            return subprocess.Popen([*self._under, str(BATCHQ), *words], stdout=subprocess.PIPE, stderr=log, text=True)

    def _end(self, how: int) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(PATIENCE)
        self.process.stdout.close()
        return status


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


def _run(words: list[str], environment: dict[str, str], stdout: Connection, log: Path) -> None:
    """Run the command in the forked process."""
    from batchq.cli.main import main  # noqa: PLC0415 - not in the process of the tests

    os.dup2(stdout.fileno(), sys.__stdout__.fileno())
    stdout.close()
    with log.open("a") as stderr:
        os.dup2(stderr.fileno(), sys.__stderr__.fileno())
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.exit(main(words))


def reserved() -> socket:
    """A bound socket that reserves a free port of loopback: a server can listen there with SO_REUSEADDR."""
    listener = socket()
    listener.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    return listener


def _remove(engine: docker.APIClient, container: str) -> None:
    """Remove a container, whose removal by the server may be in progress."""
    try:
        engine.remove_container(container, v=True, force=True)
    except APIError as why:
        if why.status_code not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
            raise


@contextmanager
def serving(data: Path, *extra: str, kind: type[Service] = Service, **how: Any) -> Iterator[Service]:
    service = kind(data, *extra, **how).start()
    try:
        yield service
    finally:
        service.stop()


serving_forked = partial(serving, kind=ForkedService)
