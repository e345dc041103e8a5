"""Calls of `.ci/engine` to a Docker engine, with the standard library only: before a CLI, an SDK or a venv exists."""

import hashlib
import io
import json
import os
import socket
import ssl
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import urlsplit

DEFAULT_HOST = "unix:///var/run/docker.sock"
NAME = "batchq-test"
# Increase it with each change below: images of another revision are made again.
REVISION = "batchq test image, revision 1"
COMMON: dict[str, object] = {"Cmd": ["sh"], "Env": ["PATH=/bin"]}
IMAGES: dict[str, dict[str, object]] = {
    "latest": {},
    "sigint": {"StopSignal": "SIGINT"},
    "entrypoint": {"Entrypoint": ["/bin/echo", "entry"], "Cmd": None},
}
FOLDERS = {"bin": 0o755, "dev": 0o755, "etc": 0o755, "mnt": 0o755, "proc": 0o555, "sys": 0o555, "tmp": 0o1777}
FILES = {
    "etc/passwd": b"root:x:0:0:root:/:/bin/sh\nworker:x:1000:1000::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
    "etc/group": b"root:x:0:\nworker:x:1000:\nnogroup:x:65534:\n",
}


class Refused(Exception):
    """The engine refused the request."""


class UnixConnection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def where() -> str:
    return os.environ.get("DOCKER_HOST") or DEFAULT_HOST


def connect(timeout: float) -> HTTPConnection:
    url = urlsplit(where())
    if url.scheme == "unix":
        return UnixConnection(url.path, timeout)
    if not url.hostname:
        sys.exit(f"engine: unsupported DOCKER_HOST={where()}")
    if os.environ.get("DOCKER_TLS_VERIFY"):
        return HTTPSConnection(url.hostname, url.port or 2376, timeout=timeout, context=tls())
    return HTTPConnection(url.hostname, url.port or 2375, timeout=timeout)


def tls() -> ssl.SSLContext:
    certificates = Path(os.environ.get("DOCKER_CERT_PATH") or "~/.docker").expanduser()
    context = ssl.create_default_context(cafile=str(certificates / "ca.pem"))
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    return context


@contextmanager
def response(method: str, path: str, body: bytes | None = None, timeout: float = 600) -> Iterator[tuple[int, bytes]]:
    kind = "application/json" if body and body.startswith(b"{") else "application/x-tar"
    connection = connect(timeout)
    try:
        connection.request(method, path, body, {"Content-Type": kind} if body else {})
        answer = connection.getresponse()
        yield answer.status, answer.read()
    finally:
        connection.close()


def ask(method: str, path: str, body: bytes | None = None) -> bytes:
    with response(method, path, body) as (status, content):
        # A pull or an import that fails half-way has status 200 already: its error is the last line of the response.
        if status >= HTTPStatus.BAD_REQUEST or b'"errorDetail"' in content[-1000:]:
            raise Refused(f"{method} {path.partition('?')[0]}: {status} {content[-300:].decode(errors='replace')}")
        return content


def ping() -> bool:
    """Whether an engine answers. The timeout is long because it may be busy; a missing engine is noticed at once."""
    try:
        with response("GET", "/_ping", timeout=60) as (status, _):
            return status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False


def has_images() -> bool:
    return all(revision(tag) == REVISION for tag in IMAGES)


def revision(tag: str) -> str | None:
    with response("GET", f"/images/{NAME}:{tag}/json") as (status, answer):
        return str(json.loads(answer).get("Comment")) if status == HTTPStatus.OK else None


def make_images(layer: bytes) -> None:
    """Load all images at once, as `docker save` would have written them: an import cannot set a stop signal."""
    architecture = json.loads(ask("GET", "/version"))["Arch"]
    files = {"layer.tar": layer}
    manifest = []
    for tag, settings in IMAGES.items():
        files[f"{tag}.json"] = json.dumps(image(layer, COMMON | settings, architecture)).encode()
        manifest.append({"Config": f"{tag}.json", "RepoTags": [f"{NAME}:{tag}"], "Layers": ["layer.tar"]})
    files["manifest.json"] = json.dumps(manifest).encode()
    ask("POST", "/images/load?quiet=1", tar_of(*(file(name, content) for name, content in files.items())))


def image(layer: bytes, settings: dict[str, object], architecture: str) -> dict[str, object]:
    return {
        "architecture": architecture,
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        "history": [{"created": "2026-01-01T00:00:00Z", "comment": REVISION}],
        "created": "2026-01-01T00:00:00Z",
    }


def tree_of(busybox: Path) -> bytes:
    """Lay out a root file system around a static busybox."""
    applets = subprocess.run([str(busybox), "--list"], check=True, capture_output=True, text=True).stdout.split()
    return tar_of(
        *(entry(name, kind=tarfile.DIRTYPE, mode=mode) for name, mode in FOLDERS.items()),
        *(file(name, content) for name, content in FILES.items()),
        file("bin/busybox", busybox.read_bytes(), mode=0o755),
        *(entry(f"bin/{it}", kind=tarfile.SYMTYPE, link="busybox") for it in applets if it != "busybox"),
    )


def tree_from_registry() -> bytes:
    """Take the root file system of the registry's busybox."""
    ask("POST", "/images/create?fromImage=busybox&tag=latest")
    container = json.loads(ask("POST", "/containers/create", b'{"Image": "busybox:latest"}'))["Id"]
    try:
        return ask("GET", f"/containers/{container}/export")
    finally:
        ask("DELETE", f"/containers/{container}?v=1")


def tar_of(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for about, content in entries:
            tar.addfile(about, io.BytesIO(content))
    return made.getvalue()


def file(name: str, content: bytes, *, mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    about, _ = entry(name, kind=tarfile.REGTYPE, mode=mode)
    about.size = len(content)
    return about, content


def entry(name: str, *, kind: bytes, mode: int = 0o777, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    about = tarfile.TarInfo(name)
    about.type, about.mode, about.linkname = kind, mode, link
    return about, b""


def main(command: str, *arguments: str) -> int:
    match command, *arguments:
        case ["where"]:
            print(where())
        case ["ping"]:
            return 0 if ping() else 1
        case ["has-images"]:
            return 0 if has_images() else 1
        case ["make-images", busybox]:
            make_images(tree_of(Path(busybox)))
        case ["make-images"]:
            make_images(tree_from_registry())
        case _:
            sys.exit("engine: usage: docker_api.py where | ping | has-images | make-images [BUSYBOX]")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except (Refused, OSError, HTTPException) as why:
        sys.exit(f"engine: {why}")
