"""The progress of the jobs of a group, or of the children of arrays, as a line with a bar."""

import sys
from collections import Counter, deque
from datetime import timedelta

from batchq.cli.output import is_terminal
from batchq.cli.quantities import elapsed, format_duration
from batchq.domain.enums import ACTIVE, FINISHED, Status
from batchq.domain.progress import JobProgress, progress_of
from batchq.domain.wording import rate_words
from batchq.ports.responses.groups import GroupRow
from batchq.ports.responses.jobs import JobRow

BAR_WIDTH = 16  # characters
RATE_PERIOD = 60.0  # seconds over which the rate is measured
MIN_RATE_PERIOD = 5.0  # seconds before the first rate is shown


def group_progress(row: GroupRow) -> JobProgress:
    counts = Counter(row.status_summary)
    mean_run = row.run_seconds / counts[Status.SUCCEEDED] if counts[Status.SUCCEEDED] else None
    return progress_of(row.group_name, row.size, counts, stopped=row.stopped, mean_run=mean_run)


def array_progress(row: JobRow) -> JobProgress:
    """The progress of the children of an array in a list."""
    summary = row.status_summary or {}
    return progress_of(row.job_name, row.array_size or 0, summary, stopped=row.stopped_children)


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
        pace = f", {rate_words(rate)}" if rate else ""
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


def _left_text(seconds: float | None) -> str:
    return "" if seconds is None else f"; about {format_duration(timedelta(seconds=round(seconds)))} left"
