"""The image for jobs of clients: the busybox of the test images, this machine's bash and Python, the engines.

Jobs of engines run the engine, by bash and Python. The image is made from files of this machine, without a registry.
"""

import hashlib
import json
import re
import subprocess
from contextlib import closing
from pathlib import Path

import docker

from tests.clients.client import BIN, INSTALLED, PROGRAMS
from tests.support.images import file_system, label_of, shared_libraries

NAME = "batchq-clients:latest"
WHEELS = INSTALLED / "wheels"
LABEL = "io.batchq.test.made-of"
ENGINES = ("snakemake", "snakemake-storage-plugin-s3", "sagemaker-training", "toil", "pip")
TOOLS = tuple(map(Path, ("/bin/bash", "/usr/bin/env")))
NAMES = Path("/etc/nsswitch.conf")  # without this file glibc asks the name server before it reads /etc/hosts
NOT_NEEDED = re.compile(
    r"/(__pycache__|tests?|examples|idlelib|dist-packages|config-3[^/]*|include)/"
    r"|/botocore/data/(?!s3/|sts/|[^/]*$)"
)


def ensure_clients_image() -> str:
    """Create the image unless it exists with the present clients. Returns its name."""
    made_of = hashlib.sha256((INSTALLED / ".installed").read_bytes() + Path(__file__).read_bytes()).hexdigest()
    with closing(docker.from_env(timeout=300)) as engine:
        if label_of(engine, NAME, LABEL) != made_of:
            files, loaded = image_files()
            settings = [*environment(loaded), f"LABEL {LABEL}={made_of}", 'CMD ["bash"]']
            name, tag = NAME.split(":")
            content = file_system(engine, [(path, str(path)) for path in (*files, *loaded)], links=python_links(files))
            engine.api.import_image_from_data(content, repository=name, tag=tag, changes=settings)
    return NAME


def environment(loaded: list[Path]) -> list[str]:
    folders = ":".join(sorted({str(path.parent) for path in loaded}))
    # pip has no index; the wheels that jobs install are in the image.
    pip = f"PIP_NO_INDEX=1 PIP_NO_DEPS=1 PIP_FIND_LINKS={WHEELS}"
    return [f"ENV PATH={BIN}:/bin:/usr/bin LD_LIBRARY_PATH={folders} HOME=/tmp LANG=C.UTF-8 {pip}"]


def image_files() -> tuple[list[Path], list[Path]]:
    """The files of the engines, and the shared libraries of the system that these load."""
    program = "import sys, sysconfig; print(sys._base_executable, sysconfig.get_paths()['stdlib'])"
    executable, standard = output_of(BIN / "python", "-c", program).split()
    python = Path(executable).resolve()
    engines = [Path(load) for load in json.loads(output_of(BIN / "python", PROGRAMS / "files_of.py", *ENGINES))]
    library = [path for path in Path(standard).rglob("*") if "site-packages" not in path.parts]
    own = sorted(
        {engine for engine in (*engines, *library, *WHEELS.iterdir(), INSTALLED / "pyvenv.cfg") if is_needed(engine)}
    )
    binaries = [python, *TOOLS, *(path for path in own if ".so" in path.suffixes)]
    loaded = [library for library in shared_libraries(binaries) if not library.is_relative_to(INSTALLED)]
    return [*own, python, *TOOLS, *([NAMES] if NAMES.exists() else [])], loaded


def output_of(*words: object) -> str:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False).stdout


def is_needed(file: Path) -> bool:
    return file.is_file() and not NOT_NEEDED.search(str(file))


def python_links(files: list[Path]) -> list[tuple[Path, str]]:
    """The links of the environment to its interpreter."""
    python = next(path for path in files if path.name.startswith("python3.") and path.parent.name == "bin")
    return [(BIN / name, str(python)) for name in ("python", "python3", python.name)]
