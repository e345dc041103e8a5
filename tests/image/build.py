"""Builds the image of packaging/Dockerfile without a registry: the base image has this machine's Python.

The wheels of the dependencies are downloaded once, to .venv/wheels, by pip.
"""

import hashlib
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import files, requires
from pathlib import Path

import docker

from tests.house.rooms import ROOT
from tests.support.images import file_system, label_of, shared_libraries
from tests.support.installed_size import dependencies

PACKAGING = ROOT / "packaging"
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
WHEELS = ROOT / ".venv" / "wheels"
#: Of the AWS CLI, version 1.
AWS_WHEELS = ROOT / ".venv" / "aws-wheels"
BASE, NAME = "batchq-python:latest", "batchq-server:test"
LABEL = "io.batchq.test.content"
PYTHON = Path(sys._base_executable).resolve()
LIBRARY = Path(sysconfig.get_paths()["stdlib"])
#: Folders of the standard library that the server does not need.
UNUSED = {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "lib2to3"}


def ensure_base() -> None:
    """Create the base image unless it exists: the test image with this machine's Python and its standard library."""
    content = hashlib.sha256(Path(__file__).read_bytes() + str(PYTHON).encode()).hexdigest()
    with closing(docker.from_env(timeout=300)) as engine:
        if label_of(engine, BASE, LABEL) == content:
            return
        library = [path for path in LIBRARY.rglob("*") if path.is_file() and UNUSED.isdisjoint(path.parts)]
        binaries = [dependency for dependency in (*library, *modules_of_dependencies()) if ".so" in dependency.suffixes]
        shared = shared_libraries([PYTHON, *binaries])
        folders = ":".join(sorted({str(path.parent) for path in shared}))
        copied = [(path, str(path)) for path in (PYTHON, *library, *shared)]
        links = [(Path("/usr/bin/python3"), str(PYTHON))]
        name, tag = BASE.split(":")
        changes = [f"ENV PATH=/bin:/usr/bin LD_LIBRARY_PATH={folders} LANG=C.UTF-8", f"LABEL {LABEL}={content}"]
        content = file_system(engine, copied, links)
        engine.api.import_image_from_data(content, repository=name, tag=tag, changes=changes)


def modules_of_dependencies() -> Iterator[Path]:
    """The installed files of the packages that the wheels contain: the image needs the libraries that they load."""
    for name in dependencies(requires("batchq") or ()):
        yield from (Path(path.locate()) for path in files(name) or ())


def ensure_wheels(folder: Path = WHEELS, package: str = f"{ROOT}[kubernetes]") -> None:
    """Download the wheels of what the package needs at the pinned versions, unless this was done for these pins."""
    pins = hashlib.sha256(CONSTRAINTS.read_bytes() + (ROOT / "pyproject.toml").read_bytes()).hexdigest()
    stamp = folder / pins
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check"]
        pip += ["--dest", str(folder), "--constraint", str(CONSTRAINTS), package]
        subprocess.run([str(ROOT / ".ci" / "again"), *pip], check=True)
        for archive in folder.glob("batchq-*"):
            archive.unlink()
        stamp.touch()


def build_image(wheel: Path, folder: Path) -> str:
    """Build the image with this wheel of batchq, in a context that is written to `folder`. Returns its name."""
    ensure_base()
    ensure_wheels()
    for file in (wheel, *WHEELS.glob("*.whl"), PACKAGING / "Dockerfile"):
        shutil.copy(file, folder)
    arguments = {"BASE": BASE, "PIP_FLAGS": "--no-index", "VERSION": wheel.name.split("-")[1]}
    with closing(docker.from_env(timeout=300)) as engine:
        engine.images.build(path=str(folder), tag=NAME, buildargs=arguments, network_mode="none", rm=True, forcerm=True)
    return NAME
