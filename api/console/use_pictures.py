"""What jobs used as pictures: of a running attempt over time, and of the last jobs of a definition."""

from collections.abc import Callable, Sequence
from datetime import timedelta

from markupsafe import Markup
from msgspec import Struct

from batchq.api.console.job_words import shown_resources
from batchq.api.console.plot import Plot, PlotColumn, PlotMark, Series, plot
from batchq.domain.job import Job
from batchq.domain.use import MIB, NOT_MEASURED
from batchq.domain.use_points import UsePoint, use_levels
from batchq.domain.wording import bytes_words, memory_words, seconds_words

LEVELS = 60  # of a picture
HEADROOM = 1.1  # of the axis above the highest value


class UsePictures(Struct, frozen=True, kw_only=True):
    """CPU and memory of an attempt under way."""

    cpu: Markup
    memory: Markup


def use_pictures(job: Job, points: Sequence[UsePoint]) -> UsePictures | None:
    """None for an attempt that was not measured, or not for long enough."""
    levels = use_levels(points, count=LEVELS)
    if not levels:
        return None
    requested, length = shown_resources(job), points[-1].at - points[0].at
    return UsePictures(
        cpu=_levels(
            "vCPUs", [level.vcpus for level in levels], requested.millicpus / 1000, length=length, unit=_vcpus_words
        ),
        memory=_levels(
            "Memory",
            [level.memory for level in levels],
            requested.memory_mib * MIB,
            length=length,
            unit=lambda size: memory_words(round(size / MIB)) if size % MIB == 0 else bytes_words(round(size)),
        ),
    )


def _levels(
    label: str, values: Sequence[float | None], requested: float, *, length: timedelta, unit: Callable[[float], str]
) -> Markup:
    known = [value for value in values if value is not None]
    words = f"{unit(known[-1])} now, at most {unit(max(known))}" if known else NOT_MEASURED
    seconds = length.total_seconds()
    columns = [
        PlotColumn(first=at, end=at + 1, text=f"{seconds_words(seconds * (LEVELS - at) / LEVELS)} ago: {unit(value)}")
        for at, value in enumerate(values)
        if value is not None
    ]
    used = Series(name=f"used: {words}", colour="USED", mark=PlotMark.AREA, points=list(enumerate(values)))
    limit = Series(
        name=f"requested: {unit(requested)}",
        colour="LIMIT",
        mark=PlotMark.LINE,
        points=[(at, requested) for at in range(LEVELS)],
    )
    most = max([requested, *known]) * HEADROOM
    ticks = [f"{seconds_words(seconds * part / 4)} ago" for part in (4, 3, 2, 1)]
    picture = Plot(
        label=f"{label} used by the attempt: {words}; requested: {unit(requested)}",
        series=[used, limit],
        x=(0, LEVELS),
        y=(0, most),
        y_texts=(unit(most), "0"),
        x_texts=[*ticks, "now"],
        columns=columns,
    )
    return plot(picture)


def _vcpus_words(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
