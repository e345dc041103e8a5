"""The last jobs of a definition as a picture: run times with their outcomes, and the figures of all of them."""

from collections.abc import Sequence

from markupsafe import Markup
from msgspec import Struct

from batchq.api.console.job_words import job_title
from batchq.api.console.plot import Plot, PlotMark, Series, plot
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.domain.enums import Status
from batchq.domain.ids import job_path
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.stopping import is_stopped_by_user
from batchq.domain.use import MIB, DefinitionUse, spread
from batchq.domain.wording import bytes_words, memory_words, seconds_words
from batchq.ports.job_search import PageQuery, SearchOrder

MAX_RUNS = 50
HEADROOM = 1.1  # of the axis above the longest run

#: The colour of an outcome, and its name.
OUTCOMES = {"SUCCEEDED": "succeeded", "FAILED": "failed by themselves", "STOPPED": "cancelled or terminated"}


class RunsPicture(Struct, frozen=True, kw_only=True):
    """The last jobs that ended."""

    #: None: none of them has run.
    picture: Markup | None
    jobs: int
    failed: int
    #: Those that were not cancelled or terminated, of which `failed` is a part.
    undisturbed: int
    #: Run times in words; empty without a run.
    median: str
    p95: str

    @property
    def rate(self) -> str:
        """The part that failed by itself, as `12 %`; a small one is not written as 0."""
        percent = 100 * self.failed / self.undisturbed if self.undisturbed else 0
        return f"{max(1, round(percent)) if self.failed else 0} %"


class MemoryShare(Struct, frozen=True, kw_only=True):
    """The memory that 95 of 100 attempts did not exceed, beside the request."""

    bytes: float
    limit: float

    @property
    def words(self) -> tuple[str, str]:
        return bytes_words(int(self.bytes)), memory_words(round(self.limit / MIB))


async def last_runs(parts: Parts, definition: str, *, caller: Caller) -> tuple[Job, ...]:
    """The jobs of a definition that ended last, as far as the caller may see them. Children count, arrays do not."""
    selection = JobSelection(definitions=frozenset({definition}), children=True)
    query = PageQuery(selection=selection, order_by=SearchOrder.ENDED, limit=MAX_RUNS)
    found = await parts.search.search(query, caller=caller)
    return tuple(job for job in found.jobs if job.spec.array_size is None or job.child is not None)


def runs_picture(jobs: Sequence[Job]) -> RunsPicture | None:
    """A dot for each job that ran, the one that ended last on the right. `jobs`: the last one first."""
    if not jobs:
        return None
    ended = [(job, _outcome(job), _seconds(job)) for job in reversed(jobs)]
    times = spread(seconds for _, _, seconds in ended)
    outcomes = [outcome for _, outcome, _ in ended]
    return RunsPicture(
        picture=None if times is None else _dots(ended, times.most),
        jobs=len(jobs),
        failed=outcomes.count("FAILED"),
        undisturbed=len(jobs) - outcomes.count("STOPPED"),
        median="" if times is None else seconds_words(times.median),
        p95="" if times is None else seconds_words(times.p95),
    )


def memory_share(used: DefinitionUse) -> MemoryShare | None:
    """None: no working set was measured."""
    found = used.working_set
    if found is None:
        return None
    return MemoryShare(bytes=found.p95, limit=used.memory_mib * MIB)


def _dots(ended: Sequence[tuple[Job, str, float | None]], most: float) -> Markup:
    places = list(enumerate(ended))
    series = [
        Series(
            name=f"{words}: {sum(outcome == colour for _, outcome, _ in ended)}",
            colour=colour,
            mark=PlotMark.DOTS,
            points=[(at + 0.5, seconds) for at, (_, outcome, seconds) in places if outcome == colour],
            titles=[_title(job, words, seconds) for _, (job, outcome, seconds) in places if outcome == colour],
            paths=[job_path(job.id) for _, (job, outcome, _) in places if outcome == colour],
        )
        for colour, words in OUTCOMES.items()
        if any(outcome == colour for _, outcome, _ in ended)
    ]
    high = most * HEADROOM or 1.0
    picture = Plot(
        label=f"Run times of the last {len(ended)} jobs that ended",
        series=series,
        x=(0, len(ended)),
        y=(0, high),
        y_texts=(seconds_words(high), "0"),
        x_texts=("ended first", "ended last"),
    )
    return plot(picture)


def _title(job: Job, outcome: str, seconds: float | None) -> str:
    run = job.latest_attempt
    code = "" if run is None or run.exit_code is None else f", exit code {run.exit_code}"
    return f"{job_title(job)}: {outcome}{code}, {'did not run' if seconds is None else seconds_words(seconds)}"


def _outcome(job: Job) -> str:
    if job.status is Status.SUCCEEDED:
        return "SUCCEEDED"
    return "STOPPED" if is_stopped_by_user(job) else "FAILED"


def _seconds(job: Job) -> float | None:
    """The run time of the latest attempt; None: the job did not run."""
    if job.started_at is None or job.stopped_at is None:
        return None
    return max(0.0, (job.stopped_at - job.started_at).total_seconds())
