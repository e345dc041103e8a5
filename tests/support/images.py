"""Images that are made from files of this machine, without a registry, on the root file system of the test image."""

import io
import re
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docker.errors import ImageNotFound

BASE = "batchq-test:latest"
LOADED = re.compile(r"(?:=> )?(/\S+) \(0x")


def label_of(engine: Any, name: str, label: str) -> str | None:
    """The value of a label of an image; None without the image."""
    try:
        return engine.images.get(name).labels.get(label)
    except ImageNotFound:
        return None


def shared_libraries(binaries: Iterable[Path]) -> list[Path]:
    """The libraries that these programs and libraries load."""
    found = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    return sorted({Path(name) for name in LOADED.findall(found)})


def file_system(engine: Any, files: Iterable[tuple[Path, str]], links: Iterable[tuple[Path, str]] = ()) -> bytes:
    """A tar archive of the test image with these files, by their paths in the image, and symbolic links."""
    files, made = [(file, path.lstrip("/")) for file, path in files], io.BytesIO()
    added = {path for _, path in files}
    with tarfile.open(fileobj=io.BytesIO(_base(engine))) as old, tarfile.open(fileobj=made, mode="w") as tar:
        for info in (item for item in old if item.name not in added):
            tar.addfile(info, old.extractfile(info) if info.isreg() else None)
        for file, path in files:
            tar.add(file.resolve(), path)
        for link, target in links:
            info = tarfile.TarInfo(str(link))
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    return made.getvalue()


def _base(engine: Any) -> bytes:
    container = engine.containers.create(BASE)
    try:
        return b"".join(container.export())
    finally:
        container.remove()
