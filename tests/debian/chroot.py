"""A fresh Debian with Python, made by debootstrap once, and a shell in a copy of it, with namespaces of its own.

The copy is an overlay that vanishes with the shell. It shares one thing with the machine: the socket of the engine. pip
finds packages in the folder /wheels of the copy, as it would find them in an index.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copy, rmtree

from tests.engines.engine import ROOTS, debian_mirror
from tests.support.docker_api import engine_socket

ROOT = ROOTS / "debian-bookworm"
PACKAGES = "python3-venv,systemd"
END = "-- end of the command --"
#: Mounts the overlay at the folder $1 and enters it. Loopback is down in a new network namespace.
ENTER = """\
set -e
mount -t tmpfs changes "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount --bind /dev dev
mount -t tmpfs run run
touch run/docker.sock
mount --bind "$3" run/docker.sock
mkdir wheels
mount --bind "$4" wheels
"$5" -c '
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", b"lo", 1))'
exec chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TZ=UTC \\
    PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels PIP_DISABLE_PIP_VERSION_CHECK=1 bash --norc
"""


def ensure_root() -> None:
    """Install Debian with debootstrap, unless this was done. Raises CalledProcessError."""
    complete = ROOT / "usr" / "bin" / "systemd-analyze"
    if complete.exists() and not (ROOT / "debootstrap").exists():
        return
    rmtree(ROOT, ignore_errors=True)
    ROOT.parent.mkdir(parents=True, exist_ok=True)
    mirror = debian_mirror()
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(ROOT)]
    subprocess.run([*command, *([mirror] if mirror else [])], check=True, stdout=subprocess.DEVNULL)


class Debian:
    """A shell of root in the copy."""

    def __init__(self, folder: Path, wheels: Path, python: str) -> None:
        self._wheels = wheels
        words = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        self._shell = subprocess.Popen(
            [*words, "bash", "-c", ENTER, "enter", str(folder), str(ROOT), str(engine_socket()), str(wheels), python],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def publish(self, *files: Path) -> None:
        """Add packages that pip finds."""
        for file in files:
            copy(file, self._wheels)

    def run(self, command: str) -> list[str]:
        """The output of a command. Raises AssertionError if the command fails."""
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{command}\nprintf '\\n%s %s\\n' '{END}' $?\n")
        self._shell.stdin.flush()
        lines: list[str] = []
        for line in self._shell.stdout:
            if line.startswith(END):
                assert line.split()[-1] == "0", "\n".join([command, *lines])
                return "\n".join(lines).strip("\n").splitlines()
            lines.append(line.rstrip("\n"))
        raise AssertionError("\n".join(["the shell has ended", command, *lines]))

    def close(self) -> None:
        self._shell.communicate("exit\n", timeout=60)


@contextmanager
def debian(python: str) -> Iterator[Debian]:
    """`python`: an interpreter of this machine."""
    with tempfile.TemporaryDirectory(prefix="batchq-debian-") as changes, tempfile.TemporaryDirectory() as wheels:
        opened = Debian(Path(changes), Path(wheels), python)
        try:
            yield opened
        finally:
            opened.close()
