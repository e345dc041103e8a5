"""Pictures of the activity of a queue, or of all queues of a caller, in the last 24 hours or 30 days."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import chain, pairwise
from typing import Annotated, Literal, NamedTuple

from markupsafe import Markup
from msgspec import Struct
from pydantic import BaseModel, BeforeValidator, ConfigDict

from batchq.api.console.plot import Plot, PlotColumn, PlotMark, Series, plot
from batchq.api.console.strip import StripCell, strip
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.domain.activity import BILLION, FINE, Activity, ActivityBucket, ActivityLoad
from batchq.domain.catalog import EnvironmentName
from batchq.domain.container import Resources
from batchq.domain.cost import rounded
from batchq.domain.ids import QueueName
from batchq.domain.use import MIB, NOT_MEASURED
from batchq.domain.wording import average_words, bytes_words, duration_words
from batchq.ports.clock import Clock
from batchq.services.activity import DAY_HOURS, MAX_HOURS

FRESH_FOR = timedelta(seconds=15)  # pictures are drawn again after it; samples are twice as far apart
MAX_PICTURES = 200  # of callers and queues, that are kept
MAX_ENVIRONMENTS = 10  # with pictures

#: A figure as text.
Unit = Callable[[float], str]


class PicturesQuery(BaseModel):
    """The query of a page with pictures."""

    model_config = ConfigDict(frozen=True)

    #: How far back the pictures reach.
    hours: Annotated[Literal[24, 720], BeforeValidator(int)] = 24


class PicturePeriod(NamedTuple):
    """How far back pictures reach, and how its times are shown."""

    hours: int
    words: str
    #: Of its beginning, its quarters and its end.
    x_texts: Sequence[str]
    #: Buckets with one hover text, and in one bar.
    per_column: int
    #: Of a time, for strftime.
    time_format: str


PERIODS = (
    PicturePeriod(DAY_HOURS, "24 hours", ("24 h ago", "18 h", "12 h", "6 h", "now"), 6, "%H:%M UTC"),
    PicturePeriod(MAX_HOURS, "30 days", ("30 d ago", "22 d", "15 d", "8 d", "now"), 12, "%Y-%m-%d %H:%M UTC"),
)


class Kind(NamedTuple):
    """A figure of a bucket, and how it is drawn."""

    name: str
    colour: str
    mark: PlotMark
    figure: Callable[[ActivityBucket], float | None]

    def series(self, values: Sequence[float | None], words: str) -> Series:
        return Series(name=f"{self.name}: {words}", colour=self.colour, mark=self.mark, points=list(enumerate(values)))


LOAD = (
    Kind("running", "RUNNING", PlotMark.AREA, lambda bucket: None if bucket.load is None else bucket.load.running),
    Kind("waiting", "RUNNABLE", PlotMark.AREA, lambda bucket: None if bucket.load is None else bucket.load.waiting),
)
VCPUS = (
    Kind("requested", "USED", PlotMark.AREA, lambda bucket: None if bucket.load is None else _vcpus(bucket.load)),
    Kind("used", "RUNNING", PlotMark.LINE, lambda bucket: _used(bucket, "used_millicpus", 1000)),
    Kind("limit", "LIMIT", PlotMark.LINE, lambda bucket: None if bucket.capacity is None else _vcpus(bucket.capacity)),
)
MEMORY = (
    Kind("requested", "USED", PlotMark.AREA, lambda bucket: None if bucket.load is None else bucket.load.memory_mib),
    Kind("used", "RUNNING", PlotMark.LINE, lambda bucket: _used(bucket, "used_mib", 1)),
    Kind("limit", "LIMIT", PlotMark.LINE, lambda bucket: (bucket.capacity and bucket.capacity.memory_mib) or None),
)
COST = (
    Kind(
        "running jobs",
        "USED",
        PlotMark.AREA,
        lambda bucket: None if bucket.load is None else bucket.load.hourly_cost / BILLION,
    ),
)
ENDS = (
    Kind("succeeded", "SUCCEEDED", PlotMark.BARS, lambda bucket: bucket.ends.succeeded),
    Kind("failed", "FAILED", PlotMark.BARS, lambda bucket: bucket.ends.failed),
    Kind("cancelled or terminated", "STOPPED", PlotMark.BARS, lambda bucket: bucket.ends.stopped),
)
WAITS = (
    Kind("95 of 100 jobs", "RUNNABLE", PlotMark.LINE, lambda bucket: bucket.ends.wait(0.95)),
    Kind("half of the jobs", "RUNNING", PlotMark.LINE, lambda bucket: bucket.ends.wait(0.5)),
)


class Pictures(Struct, frozen=True, kw_only=True):
    """The pictures of one page. A picture without values has the same size as others."""

    load: Markup
    vcpus: Markup
    memory: Markup
    #: None: no job with a price ran.
    cost: Markup | None
    ends: Markup
    waits: Markup
    failures: Markup
    #: Jobs that failed by themselves in the period.
    failed: int
    period: PicturePeriod


class PictureCache:
    """Recent pictures. They change less often than pages are requested."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pictures: dict[object, tuple[datetime, Pictures]] = {}

    async def of(self, parts: Parts, queue: QueueName | None, *, hours: int = DAY_HOURS, caller: Caller) -> Pictures:
        """The pictures of one queue, or of all queues of the caller. Raises NotFound and StoreFailed."""
        now, queues = self._clock.now(), frozenset(parts.catalog.queues_of(caller))
        key = caller.visibility, queues, queue, hours
        known = self._pictures.get(key)
        if known is not None and now - known[0] < FRESH_FOR:
            return known[1]
        activity = await parts.overviews.activity.activity(queue, hours=hours, caller=caller)
        return self._keep(key, now, await asyncio.to_thread(pictures, activity))

    async def of_environments(
        self, parts: Parts, names: Sequence[EnvironmentName], *, hours: int = DAY_HOURS, caller: Caller
    ) -> Mapping[str, Pictures | None]:
        """The pictures of compute environments; empty for callers who may not see all jobs. Raises StoreFailed.

        None: nothing was recorded in the period.
        """
        now, found = self._clock.now(), dict[str, Pictures | None]()
        keys = {str(name): (caller.visibility, "environment", name, hours) for name in names[:MAX_ENVIRONMENTS]}
        for name, key in keys.items():
            known = self._pictures.get(key)
            if known is not None and now - known[0] < FRESH_FOR:
                found[name] = known[1]
        missing = [EnvironmentName(name) for name in keys if name not in found]
        for name, activity in (
            await parts.overviews.activity.environments(missing, hours=hours, caller=caller)
        ).items():
            has_records = any(activity.slots())
            drawn = self._keep(keys[name], now, await asyncio.to_thread(pictures, activity)) if has_records else None
            found[name] = drawn
        return found

    def _keep(self, key: object, now: datetime, drawn: Pictures) -> Pictures:
        if len(self._pictures) >= MAX_PICTURES:
            self._pictures.clear()
        self._pictures[key] = now, drawn
        return drawn


def pictures(activity: Activity) -> Pictures:
    """Draw the period of the activity."""
    failed = sum(bucket.ends.failed for bucket in activity.buckets)
    return Pictures(
        load=_levels(activity, "Running and waiting jobs", LOAD, average_words),
        vcpus=_levels(activity, "vCPUs", VCPUS, average_words),
        memory=_levels(activity, "Memory", MEMORY if _has_memory_limit(activity) else MEMORY[:2], _memory_words),
        cost=_levels(activity, "Cost an hour", COST, _cost_words(activity.currency)) if _has_cost(activity) else None,
        ends=_ends(activity),
        waits=_levels(activity, "Waits between RUNNABLE and STARTING", WAITS, _seconds),
        failures=_failures(activity),
        failed=failed,
        period=_period(activity),
    )


def _levels(activity: Activity, label: str, kinds: Sequence[Kind], unit: Unit) -> Markup:
    """A level for each bucket."""
    slots = activity.slots()
    values = [[None if slot is None else kind.figure(slot) for slot in slots] for kind in kinds]
    areas = [each for kind, each in zip(kinds, values, strict=True) if kind.mark is PlotMark.AREA]
    stack = [sum(value or 0.0 for value in at) for at in zip(*areas, strict=True)]
    most = max(chain(stack, (value or 0.0 for each in values for value in each))) or 1.0
    series = [
        kind.series(each, _level_words(each, unit, is_use=kind.name == "used"))
        for kind, each in zip(kinds, values, strict=True)
    ]
    averages = [[_average(part) for part in _parts(activity, each)] for each in values]
    return _picture(activity, label, series, size=len(slots), most=most, unit=unit, figures=(kinds, averages))


def _level_words(values: Sequence[float | None], unit: Unit, *, is_use: bool) -> str:
    """The last value and the highest one. The present bucket may have no sample yet."""
    known = [value for value in values if value is not None]
    if not known:
        return NOT_MEASURED if is_use else "none recorded"
    when = "now" if any(value is not None for value in values[-2:]) else "at last"
    return f"{unit(known[-1])} {when}, at most {unit(max(known))}"


def _used(bucket: ActivityBucket, figure: str, parts: int) -> float | None:
    """What the measured jobs used; None: no job was measured."""
    load = bucket.load
    return None if load is None or not load.measured else float(getattr(load, figure)) / parts


def _has_memory_limit(activity: Activity) -> bool:
    """A compute environment has none."""
    return any(bucket.capacity is not None and bucket.capacity.memory_mib for bucket in activity.buckets)


def _has_cost(activity: Activity) -> bool:
    return any(bucket.load is not None and bucket.load.hourly_cost for bucket in activity.buckets)


def _cost_words(currency: str | None) -> Unit:
    return lambda amount: f"{rounded(Decimal(amount)):,} {currency}"


def _memory_words(mib: float) -> str:
    return bytes_words(int(mib * MIB))


def _vcpus(amounts: ActivityLoad | Resources) -> float:
    return amounts.millicpus / 1000


def _ends(activity: Activity) -> Markup:
    """A bar for each column."""
    slots = activity.slots()
    values = [[None if slot is None else kind.figure(slot) for slot in slots] for kind in ENDS]
    sums = [[sum(value or 0.0 for value in part) for part in _parts(activity, each)] for each in values]
    most = max(map(sum, zip(*sums, strict=True))) or 1.0
    series = [kind.series(each, average_words(sum(each))) for kind, each in zip(ENDS, sums, strict=True)]
    return _picture(
        activity,
        "Ended jobs",
        series,
        size=len(slots) / _period(activity).per_column,
        most=most,
        unit=average_words,
        figures=(ENDS, sums),
    )


def _failures(activity: Activity) -> Markup:
    """A cell for each column."""
    slots, period = activity.slots(), _period(activity)
    cells = []
    for start in range(0, len(slots), period.per_column):
        known = [slot for slot in slots[start : start + period.per_column] if slot is not None]
        count = sum(slot.ends.failed for slot in known)
        ended = count + sum(slot.ends.succeeded + slot.ends.stopped for slot in known)
        text = f"{average_words(count)} failed of {average_words(ended)} that ended" if known else "no server ran"
        text = f"{_time(activity, start)}: {text}"
        cells.append(StripCell(count=count if known else None, is_busy=ended > 0, text=text))
    return strip(cells, label=f"Jobs that failed by themselves in the last {period.words}", x_texts=period.x_texts)


def _picture(
    activity: Activity,
    label: str,
    series: Sequence[Series],
    *,
    size: float,
    most: float,
    unit: Unit,
    figures: tuple[Sequence[Kind], Sequence[Sequence[float | None]]],
) -> Markup:
    """`size`: the end of the x axis. `figures`: the values of each kind in each column, for the hover texts."""
    slots, period = activity.slots(), _period(activity)
    step = size / len(slots)  # of the x axis, for each slot
    starts = range(0, len(slots), period.per_column)
    columns = [
        PlotColumn(first=start * step, end=(start + period.per_column) * step, text=f"{_time(activity, start)}: {text}")
        for start, *values in zip(starts, *figures[1], strict=True)
        if (text := _values_text(figures[0], values, unit))
    ]
    gaps = [
        PlotColumn(first=first * step, end=end * step, text=f"{_time(activity, first)}: the server did not run")
        for first, end in _gaps(slots)
    ]
    picture = Plot(
        label=f"{label} in the last {period.words}",
        series=series,
        x=(0, size),
        y=(0, most),
        y_texts=(unit(most), "0"),
        x_texts=period.x_texts,
        columns=columns,
        gaps=gaps,
    )
    return plot(picture)


def _values_text(kinds: Sequence[Kind], values: Sequence[float | None], unit: Unit) -> str:
    known = zip(kinds, values, strict=True)
    return ", ".join(f"{kind.name} {unit(value)}" for kind, value in known if value is not None)


def _gaps(slots: Sequence[ActivityBucket | None]) -> Iterator[tuple[int, int]]:
    """The first and the end of each part without a server, after the first bucket."""
    numbers = [number for number, slot in enumerate(slots) if slot is not None] or [len(slots)]
    yield from ((before + 1, after) for before, after in pairwise(numbers) if after > before + 1)
    if numbers[-1] < len(slots) - 2:  # the present bucket has no sample yet
        yield numbers[-1] + 1, len(slots)


def _parts(activity: Activity, values: Sequence[float | None]) -> list[Sequence[float | None]]:
    length = _period(activity).per_column
    return [values[start : start + length] for start in range(0, len(values), length)]


def _period(activity: Activity) -> PicturePeriod:
    return PERIODS[activity.width != FINE]


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _time(activity: Activity, slot: int) -> str:
    at = (activity.first + slot * activity.width).astimezone(UTC)
    return at.strftime(_period(activity).time_format)


def _seconds(seconds: float) -> str:
    return duration_words(timedelta(seconds=seconds))
