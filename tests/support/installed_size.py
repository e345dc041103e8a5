"""How many bytes the files have that `pip install batchq` installs, with their bytecode."""

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement


def file_bytes(paths):
    """The bytes in these files. The blocks that a file system allocates for them, and the paths in bytecode, differ."""
    return sum(path.stat().st_size for path in paths if path.is_file())


def dependencies(requirements):
    """The names of the packages that these requirements install, without those of unselected extras."""
    waiting, found = [(requirement, "") for requirement in requirements], set()
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for selected in ("", *requirement.extras):
            key = requirement.name.lower().replace("_", "-"), selected
            if key not in found:
                found.add(key)
                waiting += [(require, selected) for require in distribution(requirement.name).requires or ()]
    return {name for name, _ in found}


def size_of(name):
    return file_bytes(Path(path.locate()) for path in distribution(name).files or ())
