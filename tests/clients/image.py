"""The image for jobs of workflow engines: the busybox of the test images, this machine's bash and Python, the engines.

Jobs of engines run the engine, by bash and Python. The image is made from files of this machine, without a registry.
"""

import hashlib
import io
import json
import re
import subprocess
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
from docker.errors import ImageNotFound

from tests.clients.client import BIN, INSTALLED, PROGRAMS

NAME = "batchq-clients:latest"
WHEELS = INSTALLED / "wheels"
BASE = "batchq-test:latest"
LABEL = "io.batchq.test.made-of"
ENGINES = ("snakemake", "snakemake-storage-plugin-s3", "pip")
TOOLS = tuple(map(Path, ("/bin/bash", "/usr/bin/env")))
NOT_NEEDED = re.compile(
    r"/(__pycache__|tests?|examples|idlelib|dist-packages|config-3[^/]*|include)/"
    r"|/botocore/data/(?!s3/|sts/|[^/]*$)"
)
LOADED = re.compile(r"(?:=> )?(/\S+) \(0x")


def see_to_image() -> str:
    """Make it when it is not there, or is of other clients."""
    made_of = hashlib.sha256((INSTALLED / ".installed").read_bytes() + Path(__file__).read_bytes()).hexdigest()
    with closing(docker.from_env(timeout=300)) as engine:
        if revision(engine) != made_of:
            files, loaded = gathered()
            settings = [*environment(loaded), f"LABEL {LABEL}={made_of}", 'CMD ["bash"]']
            name, tag = NAME.split(":")
            engine.api.import_image_from_data(
                packed(exported(engine), [*files, *loaded]), repository=name, tag=tag, changes=settings
            )
    return NAME


def revision(engine: Any) -> str | None:
    try:
        return engine.images.get(NAME).labels.get(LABEL)
    except ImageNotFound:
        return None


def environment(loaded: list[Path]) -> list[str]:
    folders = ":".join(sorted({str(it.parent) for it in loaded}))
    # pip has no index; the wheels that jobs install are in the image.
    pip = f"PIP_NO_INDEX=1 PIP_NO_DEPS=1 PIP_FIND_LINKS={WHEELS}"
    return [f"ENV PATH={BIN}:/bin:/usr/bin LD_LIBRARY_PATH={folders} HOME=/tmp LANG=C.UTF-8 {pip}"]


def gathered() -> tuple[list[Path], list[Path]]:
    """The files that engines are made of, and the shared libraries of the system that these load."""
    program = "import sys, sysconfig; print(sys._base_executable, sysconfig.get_paths()['stdlib'])"
    executable, standard = output_of(BIN / "python", "-c", program).split()
    python = Path(executable).resolve()
    engines = [Path(it) for it in json.loads(output_of(BIN / "python", PROGRAMS / "files_of.py", *ENGINES))]
    library = [it for it in Path(standard).rglob("*") if "site-packages" not in it.parts]
    own = sorted({it for it in (*engines, *library, *WHEELS.iterdir(), INSTALLED / "pyvenv.cfg") if wanted(it)})
    binaries = [python, *TOOLS, *(it for it in own if ".so" in it.suffixes)]
    loaded = {Path(it) for it in LOADED.findall(output_of("ldd", *binaries))}
    return [*own, python, *TOOLS], sorted(it for it in loaded if not it.is_relative_to(INSTALLED))


def output_of(*words: object) -> str:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False).stdout


def wanted(file: Path) -> bool:
    return file.is_file() and not NOT_NEEDED.search(str(file))


def exported(engine: Any) -> bytes:
    """The root file system of the test image."""
    container = engine.containers.create(BASE)
    try:
        return b"".join(container.export())
    finally:
        container.remove()


def packed(base: bytes, files: list[Path]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(base)) as old, tarfile.open(fileobj=made, mode="w") as tar:
        added = {str(it).lstrip("/") for it in files}
        for info in (it for it in old if it.name not in added):
            tar.addfile(info, old.extractfile(info) if info.isreg() else None)
        for it in files:
            tar.add(it.resolve(), str(it))
        python = next(str(it) for it in files if it.name.startswith("python3.") and it.parent.name == "bin")
        for link in (BIN / "python", BIN / "python3", BIN / Path(python).name):
            tar.addfile(linked(link, python))
    return made.getvalue()


def linked(link: Path, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(str(link))
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info
