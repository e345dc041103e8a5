"""The image `batchq-trainer`: the test image, this machine's Python with its standard library, and `train.py`.

`python -m tests.trainer.image` creates it. No registry is used.
"""

import hashlib
import re
import sys
import sysconfig
from contextlib import closing
from pathlib import Path

import docker

from tests.support.images import file_system, label_of, shared_libraries

NAME = "batchq-trainer"
LABEL = "io.batchq.test.content"
TRAINER = Path(__file__).parent / "train.py"
PYTHON = Path(sys._base_executable).resolve()
LIBRARY = Path(sysconfig.get_paths()["stdlib"])
UNUSED = re.compile(
    r"/(__pycache__|site-packages|dist-packages|tests?|idlelib|tkinter|ensurepip|lib2to3|config-3[^/]*)/"
)


def ensure_image() -> str:
    """Create the image unless one with the present content exists; its name with a tag for the content.

    It also is `latest`, which another checkout may replace.
    """
    content = hashlib.sha256(TRAINER.read_bytes() + Path(__file__).read_bytes() + str(PYTHON).encode()).hexdigest()
    with closing(docker.from_env(timeout=300)) as engine:
        name = f"{NAME}:{content[:12]}"
        if label_of(engine, name, LABEL) != content:
            library = [path for path in LIBRARY.rglob("*") if path.is_file() and not UNUSED.search(str(path))]
            shared = shared_libraries([PYTHON, *(path for path in library if ".so" in path.suffixes)])
            folders = ":".join(sorted({str(path.parent) for path in shared}))
            changes = [
                f"ENV PATH=/bin:/usr/bin LD_LIBRARY_PATH={folders} PYTHONDONTWRITEBYTECODE=1 HOME=/tmp",
                f"LABEL {LABEL}={content}",
                f'CMD ["{PYTHON}", "/train.py"]',
            ]
            engine.api.import_image_from_data(
                file_system(
                    engine, [*((path, str(path)) for path in (PYTHON, *library, *shared)), (TRAINER, "train.py")]
                ),
                repository=NAME,
                tag=content[:12],
                changes=changes,
            )
        engine.images.get(name).tag(NAME, tag="latest")
    return name


if __name__ == "__main__":
    print(ensure_image())
