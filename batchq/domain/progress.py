"""The progress of the jobs of a group, or of the children of an array: counts, rate and time left. Pure."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from batchq.domain.enums import ACTIVE, FINISHED, Status
from batchq.domain.wording import number


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
        return ", ".join(f"{number(count)} {word}" for word, count in parts.items() if count or word == "succeeded")

    @property
    def rate(self) -> float | None:
        """How many jobs end in a second, by the run times so far; None: not known."""
        return self.running / self.mean_run if self.mean_run and self.running else None

    def seconds_left(self, rate: float | None = None) -> float | None:
        """About how long the unfinished jobs take: by the run times so far, else by the rate. None: not known."""
        if not self.running + self.waiting:
            return None
        if self.mean_run is not None and self.running:
            return self.mean_run * (self.waiting / self.running + 0.5)
        return (self.running + self.waiting) / rate if rate else None


def progress_of(
    name: str, size: int, summary: Mapping[Status, int], *, stopped: int = 0, mean_run: float | None = None
) -> JobProgress:
    """The progress of `size` jobs.

    `summary`: how many have each status. `stopped`: how many of the FAILED ones were cancelled or terminated.
    """
    counts = Counter(summary)
    running = sum(counts[status] for status in ACTIVE)
    return JobProgress(
        name=name,
        succeeded=counts[Status.SUCCEEDED],
        failed=counts[Status.FAILED] - stopped,
        stopped=stopped,
        running=running,
        waiting=max(size - running - sum(counts[status] for status in FINISHED), 0),
        mean_run=mean_run,
    )
