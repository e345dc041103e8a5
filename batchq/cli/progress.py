"""The progress of the jobs of a group, or of the children of arrays: a bar, the counts, the rate and the time left."""

import sys
from collections import Counter, deque
from collections.abc import Mapping
from datetime import timedelta

from msgspec import Struct

from batchq.cli.output import is_terminal
from batchq.cli.quantities import elapsed, format_duration
from batchq.domain.enums import ACTIVE, FINISHED, Status
from batchq.ports.responses.groups import GroupRow
from batchq.ports.responses.jobs import JobRow

BAR_WIDTH = 16  # characters
RATE_PERIOD = 60.0  # seconds over which the rate is measured
MIN_RATE_PERIOD = 5.0  # seconds before the first rate is shown


class JobProgress(Struct, frozen=True, kw_only=True):
    """How many jobs are in which state."""

    name: str
    succeeded: int = 0
    #: Jobs that failed by themselves.
    failed: int = 0
    #: Jobs that were cancelled or terminated.
    stopped: int = 0
    running: int = 0
    waiting: int = 0
    #: The mean run time of the jobs that SUCCEEDED, in seconds; None: not known.
    mean_run: float | None = None

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed + self.stopped

    @property
    def size(self) -> int:
        return self.ended + self.running + self.waiting

    @property
    def counts(self) -> str:
        """`112 succeeded, 3 failed, 8 running, 77 waiting`; counts of 0 are left out, except that of succeeded jobs."""
        parts = {
            "succeeded": self.succeeded,
            "failed": self.failed,
            "stopped": self.stopped,
            "running": self.running,
            "waiting": self.waiting,
        }
        return ", ".join(f"{count} {word}" for word, count in parts.items() if count or word == "succeeded")

    def seconds_left(self, rate: float | None = None) -> float | None:
        """About how long the unfinished jobs take: by the run times so far, else by the rate. None: not known."""
        if not self.running + self.waiting:
            return None
        if self.mean_run is not None and self.running:
            return self.mean_run * (self.waiting / self.running + 0.5)
        return (self.running + self.waiting) / rate if rate else None


def group_progress(row: GroupRow) -> JobProgress:
    counts = Counter(row.status_summary)
    succeeded, failed = counts[Status.SUCCEEDED], counts[Status.FAILED] - row.stopped
    running = sum(counts[status] for status in ACTIVE)
    return JobProgress(
        name=row.group_name,
        succeeded=succeeded,
        failed=failed,
        stopped=row.stopped,
        running=running,
        waiting=max(row.size - succeeded - failed - row.stopped - running, 0),
        mean_run=row.run_seconds / succeeded if succeeded else None,
    )


def children_progress(name: str, size: int, summary: Mapping[Status, int], *, stopped: int = 0) -> JobProgress:
    """The progress of an array's children. `stopped`: how many of those that FAILED were cancelled or terminated."""
    counts = Counter(summary)
    running = sum(counts[status] for status in ACTIVE)
    return JobProgress(
        name=name,
        succeeded=counts[Status.SUCCEEDED],
        failed=counts[Status.FAILED] - stopped,
        stopped=stopped,
        running=running,
        waiting=max(size - running - sum(counts[status] for status in FINISHED), 0),
    )


def array_progress(row: JobRow) -> JobProgress:
    """The progress of the children of an array in a list."""
    summary = row.status_summary or {}
    return children_progress(row.job_name, row.array_size or 0, summary, stopped=row.stopped_children)


def has_begun(row: JobRow) -> bool:
    """Whether the job is an unfinished array of which a child runs or has ended."""
    summary = row.status_summary or {}
    return row.status not in FINISHED and any(summary.get(status) for status in ACTIVE | FINISHED)


def summary_line(progress: JobProgress) -> str:
    """`fit  200: 112 succeeded, 3 failed, 8 running, 77 waiting; about 4 min left`."""
    left = progress.seconds_left()
    return f"{progress.name}  {progress.size}: {progress.counts}{_left_text(left)}"


class ProgressMeter:
    """Measures the rate at which jobs end, and makes the line that is shown while a command waits."""

    def __init__(self) -> None:
        #: Times, in seconds, and how many jobs had ended.
        self._seen: deque[tuple[float, int]] = deque()

    def line(self, progress: JobProgress) -> str:
        """`fit [###x>...] 115/200: 112 succeeded, ...; about 4 min left, 12 a minute`; the bar on a terminal only."""
        rate = self._rate(progress.ended)
        shown = f"[{bar(progress)}] " if is_terminal(sys.stderr) and progress.size else ""
        pace = f", {_rate_text(rate)}" if rate else ""
        counts = f"{progress.name} {shown}{progress.ended}/{progress.size}: {progress.counts}"
        return f"{counts}{_left_text(progress.seconds_left(rate))}{pace}"

    def _rate(self, ended: int) -> float | None:
        """The jobs that ended in a second, lately; None: not known yet."""
        now = elapsed()
        self._seen.append((now, ended))
        while now - self._seen[0][0] > RATE_PERIOD and len(self._seen) > 2:  # noqa: PLR2004 - the ends of a period
            self._seen.popleft()
        began, before = self._seen[0]
        return (ended - before) / (now - began) if now - began >= MIN_RATE_PERIOD else None


def bar(progress: JobProgress) -> str:
    """`####x>>....`: succeeded, failed or stopped, running and waiting jobs, each with at least one character."""
    parts = (
        (progress.succeeded, "#"),
        (progress.failed + progress.stopped, "x"),
        (progress.running, ">"),
        (progress.waiting, "."),
    )
    widths = [max(1, round(BAR_WIDTH * count / progress.size)) if count else 0 for count, _ in parts]
    widths[widths.index(max(widths))] += BAR_WIDTH - sum(widths)
    return "".join(mark * width for width, (_, mark) in zip(widths, parts, strict=True))


def _rate_text(rate: float) -> str:
    """`12 a minute`, or `3 a second`."""
    return f"{rate:.0f} a second" if rate >= 1 else f"{rate * 60:.2g} a minute"


def _left_text(seconds: float | None) -> str:
    return "" if seconds is None else f"; about {format_duration(timedelta(seconds=round(seconds)))} left"
