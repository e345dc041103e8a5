"""The groups of figures: each module measures figures on the same servers, by its function `measure`."""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

from tests.bench.figures import Figure, Scale

NAMES = "containers ends stop use wire arrays cancel history life million pages events console kubernetes"
GROUPS: Mapping[str, Callable[[Scale, Path], Iterator[Figure]]] = {
    name: import_module(f"tests.bench.groups.{name}").measure for name in NAMES.split()
}
