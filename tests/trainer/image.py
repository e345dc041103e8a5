"""The image `batchq-trainer`: the test image, this machine's Python with its standard library, and `train.py`.

`python -m tests.trainer.image` creates it. No registry is used.
"""

import hashlib
import io
import re
import subprocess
import sys
import sysconfig
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
from docker.errors import ImageNotFound

NAME = "batchq-trainer"
BASE = "batchq-test:latest"
LABEL = "io.batchq.test.content"
TRAINER = Path(__file__).parent / "train.py"
PYTHON = Path(sys._base_executable).resolve()
LIBRARY = Path(sysconfig.get_paths()["stdlib"])
UNUSED = re.compile(
    r"/(__pycache__|site-packages|dist-packages|tests?|idlelib|tkinter|ensurepip|lib2to3|config-3[^/]*)/"
)
LOADED = re.compile(r"(?:=> )?(/\S+) \(0x")


def ensure_image() -> str:
    """Create the image unless one with the present content exists; its name with a tag for the content.

    It also is `latest`, which another checkout may replace.
    """
    content = hashlib.sha256(TRAINER.read_bytes() + Path(__file__).read_bytes() + str(PYTHON).encode()).hexdigest()
    with closing(docker.from_env(timeout=300)) as engine:
        name = f"{NAME}:{content[:12]}"
        if _content(engine, name) != content:
            library = [it for it in LIBRARY.rglob("*") if it.is_file() and not UNUSED.search(str(it))]
            shared = _shared_libraries([PYTHON, *(it for it in library if ".so" in it.suffixes)])
            folders = ":".join(sorted({str(it.parent) for it in shared}))
            changes = [
                f"ENV PATH=/bin:/usr/bin LD_LIBRARY_PATH={folders} PYTHONDONTWRITEBYTECODE=1 HOME=/tmp",
                f"LABEL {LABEL}={content}",
                f'CMD ["{PYTHON}", "/train.py"]',
            ]
            engine.api.import_image_from_data(
                _packed(_exported(engine), [PYTHON, *library, *shared]),
                repository=NAME,
                tag=content[:12],
                changes=changes,
            )
        engine.images.get(name).tag(NAME, tag="latest")
    return name


def _content(engine: Any, name: str) -> str | None:
    try:
        return engine.images.get(name).labels.get(LABEL)
    except ImageNotFound:
        return None


def _shared_libraries(binaries: list[Path]) -> list[Path]:
    found = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    return sorted({Path(it) for it in LOADED.findall(found)})


def _exported(engine: Any) -> bytes:
    """The root file system of the test image."""
    container = engine.containers.create(BASE)
    try:
        return b"".join(container.export())
    finally:
        container.remove()


def _packed(base: bytes, files: list[Path]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(base)) as old, tarfile.open(fileobj=made, mode="w") as tar:
        added = {str(it).lstrip("/") for it in files}
        for info in (it for it in old if it.name not in added):
            tar.addfile(info, old.extractfile(info) if info.isreg() else None)
        for it in files:
            tar.add(it.resolve(), str(it))
        tar.add(TRAINER, "train.py")
    return made.getvalue()


if __name__ == "__main__":
    print(ensure_image())
