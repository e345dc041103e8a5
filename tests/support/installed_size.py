"""How many bytes of disk the packages have that `pip install batchq` installs, with their bytecode."""

from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

BLOCK = 4096  # bytes, in which file systems allocate files and directories


def disk_bytes(paths):
    """The blocks of these files, and of the directories in which they are."""
    files = [it for it in paths if it.is_file()]
    return sum(-(-it.stat().st_size // BLOCK) * BLOCK for it in files) + BLOCK * len({it.parent for it in files})


def dependencies(requirements):
    """The names of the packages that these requirements install, without those of unselected extras."""
    waiting, found = [(it, "") for it in requirements], set()
    while waiting:
        text, extra = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        for selected in ("", *requirement.extras):
            key = requirement.name.lower().replace("_", "-"), selected
            if key not in found:
                found.add(key)
                waiting += [(it, selected) for it in distribution(requirement.name).requires or ()]
    return {name for name, _ in found}


def size_of(name):
    return disk_bytes(Path(it.locate()) for it in distribution(name).files or ())
