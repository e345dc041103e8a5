"""Activity over time as lines of text: a sparkline of the last hours, and the figures of it.

A space in a sparkline is a time in which the server did not run. A time without a job is the lowest block.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from math import ceil

from msgspec import Struct, field

from batchq.cli.http_client import call
from batchq.cli.quantities import elapsed, format_duration
from batchq.domain.wording import average_words, number
from batchq.ports.responses.activity import ActivityBucketResponse, ActivityResponse

ACTIVITY = "/v1/batchq/activity"
LENGTH = 48  # characters: half an hour each for the 5-minute buckets of a day
BLOCKS = "▁▂▃▄▅▆▇█"
GAP = " "
FRESH_FOR = 30.0  # seconds: the server takes a sample as often
HOUR = 3600  # seconds

Bucket = ActivityBucketResponse
#: The figure of a bucket; None: not known.
Figure = Callable[[Bucket], float | None]


class ActivityReader(Struct, frozen=True):
    """Requests the activity of all queues of the caller, not more often than it changes."""

    url: str
    #: The last response with its time; at most one item.
    _last: list[tuple[float, ActivityResponse]] = field(default_factory=list)

    def read(self) -> ActivityResponse:
        """The activity of the last day. Raises the errors of `http_client.call`."""
        if not self._last or elapsed() - self._last[0][0] > FRESH_FOR:
            self._last[:] = [(elapsed(), fetch_activity(self.url))]
        return self._last[0][1]


def fetch_activity(url: str, queue: str | None = None) -> ActivityResponse:
    """The response of `POST /v1/batchq/activity` for the last day. `queue`: None: all queues of the caller."""
    content = {} if queue is None else {"jobQueue": queue}
    return call(url, ACTIVITY, content, answer=ActivityResponse)


def load_lines(activity: ActivityResponse) -> list[str]:
    """A line for the running and one for the waiting jobs; none before the first sample."""
    figures: dict[str, Figure] = {"running": lambda bucket: bucket.running, "waiting": lambda bucket: bucket.waiting}
    return [line for name, figure in figures.items() for line in _level_line(activity, name, figure)]


def activity_lines(activity: ActivityResponse) -> list[str]:
    """All figures of one queue, with a heading; only a heading before the first sample."""
    slots = _slots(activity)
    hours = len(slots) * activity.bucket_seconds // HOUR
    heading = f"the last {hours} h"
    if not activity.buckets:
        return [f"{heading}: nothing is recorded yet"]
    limits = [bucket.limits for bucket in activity.buckets if bucket.limits is not None]
    has_use = any(bucket.used_memory_mib is not None for bucket in activity.buckets)
    of = f" of {average_words(limits[-1].vcpus)}" if limits else ""
    return [
        f"{heading}; a space is a time in which the server did not run",
        *load_lines(activity),
        *_level_line(activity, "vCPUs", lambda bucket: bucket.vcpus, of=of),
        *_level_line(activity, "vCPUs used", lambda bucket: bucket.used_vcpus),
        *_level_line(activity, "MiB requested", lambda bucket: bucket.memory_mib if has_use else None),
        *_level_line(activity, "MiB used", lambda bucket: bucket.used_memory_mib),
        *_level_line(
            activity, f"{activity.currency} an hour", lambda bucket: bucket.cost_per_hour, words="{:,.2f}".format
        ),
        _count_line(activity, "succeeded", lambda bucket: bucket.succeeded),
        _count_line(activity, "failed", lambda bucket: bucket.failed),
        _count_line(activity, "stopped", lambda bucket: bucket.stopped),
        *_wait_line(activity),
    ]


def sparkline(values: Sequence[float | None]) -> str:
    """A block for each value, and GAP for None. Only 0 is the lowest block, unless all values are 0."""
    most = max((value for value in values if value is not None), default=0)
    return "".join(GAP if value is None else BLOCKS[_height(value, most)] for value in values)


def _height(value: float, most: float) -> int:
    steps = len(BLOCKS) - 1
    return min(steps, ceil(value * steps / most)) if value else 0


def _level_line(
    activity: ActivityResponse,
    name: str,
    figure: Figure,
    *,
    of: str = "",
    words: Callable[[float], str] = average_words,
) -> list[str]:
    known = [value for bucket in activity.buckets if (value := figure(bucket)) is not None]
    if not known:
        return []
    parts = _parts(activity, figure, lambda values: sum(values) / len(values))
    return [f"{name:<16} {sparkline(parts)}  now {words(known[-1])}, at most {words(max(known))}{of}"]


def _count_line(activity: ActivityResponse, name: str, figure: Figure) -> str:
    total = sum(int(figure(bucket) or 0) for bucket in activity.buckets)
    return f"{name:<16} {sparkline(_parts(activity, figure, sum))}  {number(total)}"


def _wait_line(activity: ActivityResponse) -> list[str]:
    waits = [bucket.wait for bucket in activity.buckets if bucket.wait is not None]
    if not waits:
        return []
    parts = _parts(activity, lambda bucket: bucket.wait.p95 if bucket.wait else None, max)
    last, longest = f"{_seconds(waits[-1].p50)}, p95 {_seconds(waits[-1].p95)}", max(wait.p95 for wait in waits)
    return [f"{'wait, p95':<16} {sparkline(parts)}  last p50 {last}, at most {_seconds(longest)}"]


def _parts(
    activity: ActivityResponse, figure: Figure, together: Callable[[Sequence[float]], float]
) -> list[float | None]:
    """At most LENGTH values, each of several neighbouring buckets together; None: none of them is known."""
    values = [None if bucket is None else figure(bucket) for bucket in _slots(activity)]
    size = -(-len(values) // LENGTH)
    groups = [values[start : start + size] for start in range(0, len(values), size)]
    known = [[value for value in group if value is not None] for group in groups]
    return [together(group) if group else None for group in known]


def _slots(activity: ActivityResponse) -> list[Bucket | None]:
    """A bucket, or None for a time in which the server did not run, by time."""
    width = activity.bucket_seconds * 1000
    found = {bucket.at: bucket for bucket in activity.buckets}
    return [found.get(at) for at in range(activity.first, activity.at + 1, width)]


def _seconds(seconds: float) -> str:
    return format_duration(timedelta(seconds=seconds))
