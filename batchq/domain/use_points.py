"""What a running attempt used over time: samples, and levels of equal length that are computed from them. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple


class UsePoint(NamedTuple):
    """A sample of a container, or the sum of the samples of several containers at one time."""

    at: datetime
    #: The CPU time until then; None: not measured.
    cpu_seconds: float | None
    #: Bytes of memory in use at that time, without page cache that was not used recently; None: not measured.
    memory: float | None


class UseLevel(NamedTuple):
    """The use in one part of the time."""

    #: The mean number of vCPUs; None: not measured.
    vcpus: float | None
    #: The most bytes of memory; None: not measured.
    memory: float | None


def summed_points(series: Sequence[Iterable[UsePoint]]) -> tuple[UsePoint, ...]:
    """The sum of several containers at the times at which all of them were sampled."""
    by_time = [{point.at: point for point in points} for points in series]
    times = sorted(set.intersection(*map(set, by_time))) if by_time else []
    return tuple(
        UsePoint(at, _sum(points[at].cpu_seconds for points in by_time), _sum(points[at].memory for points in by_time))
        for at in times
    )


def use_levels(points: Sequence[UsePoint], *, count: int) -> list[UseLevel]:
    """The use in `count` parts of the time between the first and the last point.

    CPU time between two points is spread evenly over the time between them. A part without a sample has the memory of
    the sample before it.
    """
    if len(points) < 2:  # noqa: PLR2004 - a length needs two ends
        return []
    first, width = points[0].at, (points[-1].at - points[0].at) / count
    places = [(point.at - first) / width for point in points]
    cpu_seconds, memory = [0.0] * count, list[float | None]([None] * count)
    for (before, after), (low, high) in zip(pairwise(points), pairwise(places), strict=True):
        used = (after.cpu_seconds or 0.0) - (before.cpu_seconds or 0.0)
        for part in range(int(low), min(count, int(high) + 1)):
            shared = (min(high, part + 1) - max(low, part)) / (high - low)
            cpu_seconds[part] += max(0.0, used) * shared
    for point, place in zip(points, places, strict=True):
        part = min(count - 1, int(place))
        known = [size for size in (memory[part], point.memory) if size is not None]
        memory[part] = max(known, default=None)
    for part in range(1, count):
        memory[part] = memory[part - 1] if memory[part] is None else memory[part]
    is_measured = all(point.cpu_seconds is not None for point in points)
    seconds = width.total_seconds()
    return [
        UseLevel(used / seconds if is_measured else None, size) for used, size in zip(cpu_seconds, memory, strict=True)
    ]


def _sum(figures: Iterable[float | None]) -> float | None:
    known = list(figures)
    return None if None in known else sum(figure for figure in known if figure is not None)
