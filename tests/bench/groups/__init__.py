"""The groups of figures: each yields the figures that are measured on the same servers."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.bench.figures import Figure
from tests.bench.groups import (
    arrays,
    cancel,
    console,
    containers,
    ends,
    events,
    history,
    life,
    million,
    pages,
    stop,
    sweep,
    wire,
)
from tests.bench.scale import Scale

GROUPS: Mapping[str, Callable[[Scale, Path], Iterator[Figure]]] = {
    "containers": containers.measure,
    "ends": ends.measure,
    "stop": stop.measure,
    "wire": wire.measure,
    "arrays": arrays.measure,
    "cancel": cancel.measure,
    "sweep": sweep.measure,
    "history": history.measure,
    "life": life.measure,
    "million": million.measure,
    "pages": pages.measure,
    "events": events.measure,
    "console": console.measure,
}
