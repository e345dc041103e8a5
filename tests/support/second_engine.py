"""A second Docker engine, which a test may freeze and kill. The first engine is not affected."""

import fcntl
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import docker

from tests.support import processes
from tests.support.docker_api import docker_api

BRIDGES = {f"bqtest{number}": f"172.31.{250 - number}.1" for number in range(20)}
MASK = "255.255.255.0"
IMAGE = "batchq-test:latest"
PATIENCE = 60.0  # seconds for an engine to come up, or to go down

# linux/sockios.h and linux/if.h
ADD_BRIDGE, REMOVE_BRIDGE = 0x89A0, 0x89A1
SET_ADDRESS, SET_MASK, SET_FLAGS = 0x8916, 0x891C, 0x8914
UP, DOWN = 0x1, 0x0


class SecondEngine:
    """Its containers outlive its end with `live_restore`, and not without. `options` are more flags of dockerd."""

    def __init__(self, directory: Path, bridge: str, *, live_restore: bool, options: tuple[str, ...] = ()) -> None:
        self._directory = directory
        self._bridge = bridge
        self._live_restore = live_restore
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{directory}/docker.sock"

    def start(self) -> None:
        """Start the engine, and wait until it answers."""
        at = self._directory
        (at / "exec" / "containerd" / "containerd.pid").unlink(missing_ok=True)  # after a kill it would be waited for
        roots = ["--data-root", at / "data", "--exec-root", at / "exec", "--pidfile", at / "pid", "--host", self.url]
        if self._process is not None:
            self._process.wait(PATIENCE)
        with (at / "log").open("ab") as log:
            command = ["dockerd", *map(str, roots), "--bridge", self._bridge, "--iptables=false"]
            command += ["--live-restore"] * self._live_restore
            command += self._options
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + PATIENCE
        while not self.answers():
            if time.monotonic() > end:
                self.kill()
                raise TimeoutError(f"no second engine: {(at / 'log').read_text()[-2000:]}")
            time.sleep(0.2)

    def answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(2)
            try:
                connection.connect(self.url.removeprefix("unix://"))
                connection.sendall(b"GET /_ping HTTP/1.1\r\nHost: engine\r\n\r\n")
                return b" 200 " in connection.recv(1024)
            except OSError:
                return False

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM: without live-restore the engine stops its containers."""
        self._end(signal.SIGTERM)

    @contextmanager
    def stopping(self) -> Iterator[None]:
        """Send SIGTERM at the beginning, and wait for the end of the engine at the end."""
        self._signal(signal.SIGTERM)
        yield
        assert self._process is not None
        self._process.wait(PATIENCE)

    def log(self) -> str:
        """What the engine has logged, in all its runs."""
        return (self._directory / "log").read_text()

    def kill(self) -> None:
        """SIGKILL: containers run until the engine is started again, which then stops them."""
        self._end(signal.SIGKILL)

    def crash(self) -> None:
        """Kill engine, containerd, shims and containers at the same time, as a crash of the machine does."""
        assert self._process is not None
        self.freeze()
        processes.send(signal.SIGKILL, self.containerd, *self._below(), self.pid)
        self._process.wait(PATIENCE)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def containerd(self) -> int:
        """The pid of containerd."""
        return int((self._directory / "exec" / "containerd" / "containerd.pid").read_text())

    def container(self, name: str) -> int:
        """The pid of a container's first process."""
        with closing(self.client()) as client:
            return int(client.inspect_container(name)["State"]["Pid"])

    def shim(self, container: str) -> int:
        """The pid of the shim of a container, by the container's name."""
        with closing(self.client()) as client:
            (pid,) = processes.shims(client.inspect_container(container)["Id"])
        return pid

    def load(self, image: str = IMAGE) -> None:
        """Copy an image from the first engine."""
        with closing(docker_api()) as first, closing(self.client()) as second:
            for _ in second.load_image(b"".join(first.get_image(image))):
                pass

    def end(self) -> None:
        """End the engine with all its processes, in any state."""
        assert self._process is not None
        self.thaw()
        processes.send(signal.SIGKILL, *self._below())
        if self._process.poll() is None:
            self.stop()

    def client(self) -> docker.APIClient:
        return docker_api(self.url)

    def _below(self) -> list[int]:
        """The pids of the shims and their descendants."""
        shims = processes.shims(engine=str(self._directory))
        return [*shims, *processes.children(*shims)]

    def _signal(self, number: int) -> None:
        processes.send(number, self.pid)

    def _end(self, number: int) -> None:
        assert self._process is not None
        self._signal(number)
        self._process.wait(PATIENCE)


@contextmanager
def second_engine(*, live_restore: bool = False, options: tuple[str, ...] = ()) -> Iterator[SecondEngine]:
    """A second engine, in a folder with a short name: the path of a socket has at most 107 characters."""
    directory = Path(tempfile.mkdtemp(prefix="bq"))
    try:
        with _bridge() as bridge:
            engine = SecondEngine(directory, bridge, live_restore=live_restore, options=options)
            engine.start()
            try:
                engine.load()
                yield engine
            finally:
                engine.end()
    finally:
        subprocess.run(["umount", "--lazy", directory / "data"], check=False, stderr=subprocess.DEVNULL)  # if killed
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _bridge() -> Iterator[str]:
    """Create a bridge by system calls, because no tool may be installed. Yields its name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        name = _new_bridge(control)
        try:
            for call, address in ((SET_ADDRESS, BRIDGES[name]), (SET_MASK, MASK)):
                packed = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
                fcntl.ioctl(control, call, struct.pack("16s16s", name.encode(), packed))
            fcntl.ioctl(control, SET_FLAGS, struct.pack("16sH14x", name.encode(), UP))
            yield name
        finally:
            fcntl.ioctl(control, SET_FLAGS, struct.pack("16sH14x", name.encode(), DOWN))
            fcntl.ioctl(control, REMOVE_BRIDGE, name.encode() + b"\0")


def _new_bridge(control: socket.socket) -> str:
    """Create the first bridge that no other test has. Returns its name."""
    for name in BRIDGES:
        with suppress(FileExistsError):
            fcntl.ioctl(control, ADD_BRIDGE, name.encode() + b"\0")
            return name
    raise FileExistsError(*BRIDGES)
