"""A container engine for tests: installed from Debian, started in namespaces of its own, and stopped at the end.

The engine shares nothing with the machine's engine: mounts, network, iptables and containerd are separate. Root is
required. Commands run in the engine's network namespace, so that addresses of containers and registries are valid.
"""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

FOLDER = Path(os.environ.get("ENGINES", "/tmp/engines"))
ROOTS = Path(os.environ.get("ENGINE_ROOTS", "/opt/engines"))
SCRIPT = Path(__file__).with_name("serve_engine.sh")
APT = Path(__file__).parents[2] / ".ci" / "apt"
START_TIMEOUT, STOP_TIMEOUT = 60.0, 30.0  # seconds
COMMON = ("iptables", "busybox-static", "ca-certificates", "crun")
PACKAGES = {
    "docker": ("docker.io", "docker-cli"),
    "podman": ("podman", "netavark", "aardvark-dns", "conmon", "catatonit", "nftables"),
}
ROOTLESS_PACKAGES = ("uidmap", "slirp4netns", "passt", "rootlesskit", "iproute2", "procps")

CONTAINERS_CONF = """\
[containers]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "{state}/crun"
tmp_dir = "/run/libpod"
volume_path = "{state}/volumes"
[network]
network_backend = "netavark"
network_config_dir = "{state}/networks"
"""
STORAGE_CONF = """\
[storage]
driver = "overlay"
graphroot = "{state}/data"
runroot = "/run/containers/storage"
"""
ROOTLESS_CONTAINERS_CONF = """\
[containers]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
ROOTLESS_STORAGE_CONF = """\
[storage]
driver = "overlay"
rootless_storage_path = "{state}/data"
"""
POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}'
# Podman 4 sets limits of a million files and processes, for which root needs CAP_SYS_RESOURCE; a container may lack it.
# They are in the configuration of a container, and in the file of each further process. The name of the program begins
# the errors of a start, as it does for the real crun.
RUNTIME = """\
#!/bin/sh
option=
for argument; do
    case $option in
    --bundle | -b) file=$argument/config.json ;;
    --process | -p) file=$argument ;;
    esac
    option=$argument
done
[ -f "${file-}" ] &&
    sed -i -E 's/\\{"type":"RLIMIT_[A-Z]+","hard":[0-9]{7,},"soft":[0-9]{7,}\\},?//g' "$file"
exec crun "$@"
"""


class EngineBuild(Struct, frozen=True, kw_only=True):
    """An engine that can be installed and started."""

    #: The name of its folder and of its row in the matrix.
    name: str
    #: `docker` or `podman`.
    kind: str
    #: The release of Debian that has it; None: the packages of this machine.
    suite: str | None = None
    #: Whether it runs as a user without root. The user and the packages of rootless engines need a `suite`.
    is_rootless: bool = False
    #: Flags of dockerd or podman.
    flags: tuple[str, ...] = ()
    #: Environment variables of the engine.
    environment: Mapping[str, str] = {}

    @property
    def root(self) -> Path:
        """The root directory of the installation."""
        if self.suite is None:
            return Path("/")
        return ROOTS / f"{'rootless-' if self.is_rootless else ''}{self.kind}-{self.suite}"

    @property
    def program(self) -> str:
        return "dockerd" if self.kind == "docker" else "podman"

    @property
    def is_installed(self) -> bool:
        search_path = os.pathsep.join(str(self.root / folder) for folder in ("usr/sbin", "usr/bin", "usr/local/bin"))
        return shutil.which(self.program, path=search_path) is not None

    def install(self) -> None:
        """Install the engine, unless it is installed. Raises CalledProcessError and OSError."""
        if self.is_installed:
            return
        packages = (*PACKAGES[self.kind], *COMMON, *(ROOTLESS_PACKAGES if self.is_rootless else ()))
        if self.suite is None:
            subprocess.run([APT, *packages], check=True)
        else:
            extract_debian(self.suite, packages, self.root)


def extract_debian(suite: str, packages: Sequence[str], root: Path) -> None:
    """Extract a minimal Debian with these packages at `root`. Raises CalledProcessError and OSError.

    debootstrap downloads the packages. Their scripts, which take most of the time of an installation, do not run: what
    container engines need of them is done here. `root` exists only if it is complete.
    """
    if not shutil.which("debootstrap"):
        subprocess.run([APT, "debootstrap"], check=True)
    partial = root.with_name(f"{root.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", "--download-only", f"--include={','.join(packages)}"]
    mirror = debian_mirror()
    subprocess.run(
        [*command, suite, str(partial), *([mirror] if mirror else [])], check=True, stdout=subprocess.DEVNULL
    )
    archives = partial / "var/cache/apt/archives"
    # base-files comes first: it has the links of / to /usr.
    for archive in sorted(archives.glob("*.deb"), key=lambda path: (not path.name.startswith("base-files_"), path)):
        subprocess.run(["dpkg-deb", "--extract", archive, partial], check=True)
    shutil.rmtree(archives)
    for name in ("passwd", "group"):
        shutil.copy(partial / f"usr/share/base-passwd/{name}.master", partial / f"etc/{name}")
    for name in ("hosts", "resolv.conf"):
        shutil.copy(f"/etc/{name}", partial / f"etc/{name}")
    for name in ("iptables", "ip6tables"):
        (partial / f"usr/sbin/{name}").symlink_to(f"{name}-nft")
    partial.rename(root)


def debian_mirror() -> str | None:
    """The mirror that this machine's apt uses; None: the default of debootstrap."""
    for file in Path("/etc/apt/sources.list.d").glob("*.sources"):
        for line in file.read_text().splitlines():
            if line.startswith("URIs:"):
                return line.split()[1]
    return None


class RunningEngine:
    """An engine that was started in namespaces of its own."""

    def __init__(self, build: EngineBuild) -> None:
        self.build = build
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.state = Path(tempfile.mkdtemp(prefix=f"{build.name}-", dir=FOLDER))
        self.socket = self.state / "docker.sock"
        self.url = f"unix://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None
        #: The mount namespace of the engine, by which its remaining processes are found.
        self._namespace = ""

    def start(self) -> None:
        """Start the engine and wait for its reply. Raises TimeoutError with the end of its log."""
        if self.build.kind == "podman":
            self._configure_podman()
        kind = f"{'rootless-' if self.build.is_rootless else ''}{self.build.kind}"
        inner = [str(SCRIPT), kind, str(self.build.root), str(self.state), *self.build.flags]
        with (self.state / "log").open("wb") as log:
            self._process = subprocess.Popen(
                ["unshare", "--mount", "--net", "--propagation", "private", *inner],
                env=os.environ | dict(self.build.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end = time.monotonic() + START_TIMEOUT
        while not self.answers():
            if time.monotonic() > end or self._process.poll() is not None:
                tail = (self.state / "log").read_text()[-2000:]
                raise TimeoutError(f"{self.build.name} does not answer: {tail}")
            time.sleep(0.2)
        self._namespace = namespace_of(self._process.pid)

    def answers(self) -> bool:
        """Whether the engine replies to a ping."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(4)
            try:
                connection.connect(str(self.socket))
                connection.sendall(b"GET /_ping HTTP/1.1\r\nHost: engine\r\n\r\n")
                return b" 200 " in connection.recv(1024)
            except OSError:
                return False

    def command(self, *words: str) -> list[str]:
        """The command in the network namespace of the engine."""
        assert self._process is not None
        return ["nsenter", "--target", str(self._process.pid), "--net", *words]

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of commands: DOCKER_HOST is the engine."""
        return os.environ | {"DOCKER_HOST": self.url}

    def stop(self) -> None:
        """End the engine, all containers and all other processes in its mount namespace; remove its folder."""
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_TIMEOUT)
            if process.poll() is None:
                process.kill()
                process.wait()
        self._kill_rest()
        for _ in range(50):
            shutil.rmtree(self.state, ignore_errors=True)
            if not self.state.exists():
                return
            time.sleep(0.1)

    def _kill_rest(self) -> None:
        """Kill shims and conmons, which outlive the engine, and the containers below them."""
        if not self._namespace:
            return
        own = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal() and self._owns(entry)]
        for pid in [child for parent in own for child in children_of(parent)] + own:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _owns(self, process: Path) -> bool:
        """Whether the process is in the mount namespace of the engine, or was started by this rootless engine.

        A rootless engine makes mount namespaces of its own.
        """
        if namespace_of(int(process.name)) == self._namespace:
            return True
        try:
            return f"XDG_RUNTIME_DIR={self.state}/run\0".encode() in (process / "environ").read_bytes()
        except OSError:
            return False

    def _configure_podman(self) -> None:
        etc = self.state / "etc"
        etc.mkdir()
        configuration, storage = CONTAINERS_CONF, STORAGE_CONF
        if self.build.is_rootless:  # the other folders are below its home directory, as its user has them
            configuration, storage = ROOTLESS_CONTAINERS_CONF, ROOTLESS_STORAGE_CONF
        (etc / "containers.conf").write_text(configuration.format(state=self.state))
        (etc / "storage.conf").write_text(storage.format(state=self.state))
        (etc / "policy.json").write_text(POLICY)
        (etc / "registries.conf").write_text("")
        runtime = self.state / "crun"
        runtime.write_text(RUNTIME)
        runtime.chmod(0o755)


def namespace_of(pid: int) -> str:
    """The mount namespace of the process; empty: the process does not exist, or shares that of this process."""
    try:
        namespace = str(Path(f"/proc/{pid}/ns/mnt").readlink())
    except OSError:
        return ""
    return "" if namespace == str(Path("/proc/self/ns/mnt").readlink()) else namespace


def children_of(pid: int) -> list[int]:
    """The pids of the children of all threads of the process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return found


@contextmanager
def started(build: EngineBuild) -> Iterator[RunningEngine]:
    """Install and start the engine; it is stopped at the end."""
    build.install()
    engine = RunningEngine(build)
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()
