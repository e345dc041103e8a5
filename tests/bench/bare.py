"""The Docker SDK alone, doing what batchq must do: create, start, wait for the event, remove. The measure of things."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import docker

from tests.bench.ground import HERE
from tests.support.docker_api import docker_api

LABEL = "batchq-bench"
HOST = {"CpuShares": 1024, "Memory": 64 << 20, "MemorySwap": 64 << 20, "LogConfig": {"Type": "json-file", "Config": {}}}
HANDS = 8  # threads that stop


class Bare:
    """One client a thread, and one thread that hears of deaths, as the SDK's documentation has it."""

    def __init__(self, *, network: str = "default", shared: Path | None = None) -> None:
        binds = [] if shared is None else [f"{shared}:{HERE}"]
        self._host = HOST | {"NetworkMode": network, "Binds": binds}
        self._own = threading.local()
        self._deaths: dict[str, threading.Event] = {}
        self._died_at: dict[str, float] = {}
        self._run = uuid4().hex
        self._events = self.api.events(decode=True, filters={"label": f"{LABEL}={self._run}", "event": "die"})
        threading.Thread(target=self._hear, daemon=True).start()

    @property
    def api(self) -> docker.APIClient:
        if not hasattr(self._own, "api"):
            self._own.api = docker_api()
        return self._own.api

    def run(self, count: int, at_once: int) -> float:
        """Containers a second of `true`, so many at once."""
        began = time.perf_counter()
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(lambda _: self._one(), range(count)))
        return count / (time.perf_counter() - began)

    def launch(self, count: int, *command: str) -> list[str]:
        """So many of them, started, and long enough ago for a shell to have come to its loop."""
        names = [self.create(*command) for _ in range(count)]
        self.each(names, self.start)
        time.sleep(1)
        return names

    def each(self, names: Iterable[str], do: Callable[[str], object]) -> None:
        with ThreadPoolExecutor(HANDS) as pool:
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
        """The moment at which the event came."""
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

    def _hear(self) -> None:
        for event in self._events:
            with suppress(KeyError):
                name = event["Actor"]["Attributes"]["name"]
                self._died_at[name] = time.perf_counter()
                self._deaths[name].set()

    def close(self) -> None:
        self._events.close()
