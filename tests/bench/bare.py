"""The baseline: the Docker SDK alone creates and starts containers, waits for their end and removes them."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import docker

from tests.bench.services import SHARED_PATH
from tests.support.docker_api import docker_api

LABEL = "batchq-bench"
HOST = {"CpuShares": 1024, "Memory": 64 << 20, "MemorySwap": 64 << 20, "LogConfig": {"Type": "json-file", "Config": {}}}
STOP_THREADS = 8  # threads that stop


class Bare:
    """A client for each thread, and a thread that reads the die events."""

    def __init__(self, *, network: str = "default", shared: Path | None = None) -> None:
        binds = [] if shared is None else [f"{shared}:{SHARED_PATH}"]
        self._host = HOST | {"NetworkMode": network, "Binds": binds}
        self._own = threading.local()
        self._deaths: dict[str, threading.Event] = {}
        self._died_at: dict[str, float] = {}
        self._run = uuid4().hex
        self._events = self.api.events(decode=True, filters={"label": f"{LABEL}={self._run}", "event": "die"})
        threading.Thread(target=self._read_events, daemon=True).start()

    @property
    def api(self) -> docker.APIClient:
        if not hasattr(self._own, "api"):
            self._own.api = docker_api()
        return self._own.api

    def run(self, count: int, at_once: int) -> float:
        """Containers of `true` a second. `at_once`: how many at the same time."""
        began = time.perf_counter()
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda _: self._one(), range(count)))
        return count / (time.perf_counter() - began)

    def launch(self, count: int, *command: str) -> list[str]:
        """Start `count` containers, and wait until their shells have set up their traps. Returns their names."""
        names = [self.create(*command) for _ in range(count)]
        self.each(names, self.start)
        time.sleep(1)
        return names

    def each(self, names: Iterable[str], do: Callable[[str], object]) -> None:
        with ThreadPoolExecutor(STOP_THREADS) as pool:
            list(pool.map(do, names))

    def create(self, *command: str) -> str:
        name = f"bench-{uuid4().hex}"
        self._deaths[name] = threading.Event()
        self.api.create_container_from_config(
            {
                "Image": "batchq-test:latest",
                "Cmd": list(command),
                "Labels": {LABEL: self._run},
                "HostConfig": self._host,
            },
            name,
        )
        return name

    def start(self, name: str) -> None:
        self.api.start(name)

    def stop(self, name: str) -> None:
        self.api.kill(name, "SIGTERM")

    def kill(self, name: str) -> None:
        self.api.kill(name, "SIGKILL")

    def wait_dead(self, name: str) -> float:
        """Wait for the die event. Returns the time at which it arrived."""
        if not self._deaths[name].wait(60):
            raise TimeoutError(f"{name} did not end")
        del self._deaths[name]
        return self._died_at.pop(name)

    def remove(self, name: str) -> None:
        self.api.remove_container(name, v=True, force=True)

    def _one(self) -> None:
        name = self.create("true")
        self.start(name)
        self.wait_dead(name)
        self.remove(name)

    def _read_events(self) -> None:
        for event in self._events:
            with suppress(KeyError):
                name = event["Actor"]["Attributes"]["name"]
                self._died_at[name] = time.perf_counter()
                self._deaths[name].set()

    def close(self) -> None:
        self._events.close()
