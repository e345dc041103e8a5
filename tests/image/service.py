"""A server in a container of the image, with the interface of `tests.support.service.Service`."""

import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import docker
import requests

from tests.image.build import NAME
from tests.support.docker_api import engine_socket
from tests.support.service import Service

USER = 10001


class ImageService(Service):
    """A server of the image on the host's network, as the image's user, with the group of the engine's socket."""

    def _spawn(self, words: Sequence[str]) -> "ContainerProcess":
        folder = self.data.parent
        os.chown(folder, USER, USER)
        return ContainerProcess(
            docker.from_env(timeout=300),
            words,
            log=self.log,
            # At the path of the host, because the engine mounts the checkpoints of jobs from there.
            volumes={str(path): {"bind": str(path)} for path in (engine_socket(), folder)},
        )


class ContainerProcess:
    """`batchq` with these arguments in a container, as subprocess.Popen shows it. At its end `log` has its stderr."""

    def __init__(self, engine: docker.DockerClient, words: Sequence[str], *, log: Path, volumes: dict) -> None:
        self._engine, self._log = engine, log
        self.returncode: int | None = None
        self._container = engine.containers.run(
            NAME,
            list(words),
            detach=True,
            init=True,
            network_mode="host",
            group_add=[str(engine_socket().stat().st_gid)],
            environment={
                "BATCHQ_HOST": "127.0.0.1",
                "BATCHQ_AUTH": "none",
                "DOCKER_HOST": f"unix://{engine_socket()}",
            },
            volumes=volumes,
        )
        self.pid = self._engine.api.inspect_container(self._container.id)["State"]["Pid"]
        reader, writer = os.pipe()
        self.stdout = os.fdopen(reader)
        self._printed = self._container.logs(stdout=True, stderr=False, stream=True, follow=True)
        self._copier = threading.Thread(target=self._copy, args=(writer,), daemon=True)
        self._copier.start()

    def _copy(self, writer: int) -> None:
        with os.fdopen(writer, "wb", buffering=0) as out:
            for part in self._printed:
                out.write(part)

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            try:
                self.returncode = int(self._container.wait(timeout=timeout)["StatusCode"])
            except requests.exceptions.RequestException as late:
                raise subprocess.TimeoutExpired("batchq", timeout or 0) from late
            self._copier.join()
            self._printed.close()
            self._log.write_bytes(self._container.logs(stdout=False, stderr=True))
            self._container.remove()
            self._engine.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        self._container.kill(signal=int(number))
