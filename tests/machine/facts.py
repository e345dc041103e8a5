"""What was asked, and what was seen of it: all that the model is told."""

from collections import defaultdict
from dataclasses import dataclass, field

ACTIVE = {"STARTING", "RUNNING"}
OVER = {"SUCCEEDED", "FAILED"}


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A job that runs: a plain one, or a child. `acts` are (seconds, exit code) of its attempts, one at least."""

    parent: str | None = None
    acts: tuple[tuple[float | None, int], ...]
    attempts: int
    gives_up: bool
    after: tuple[str, ...] = ()

    def act(self, attempt):
        return self.acts[min(attempt, len(self.acts)) - 1]


@dataclass(frozen=True, kw_only=True)
class Array:
    """`begins_after` are arrays that must have children before it has any."""

    children: tuple[str, ...]
    after: tuple[str, ...] = ()
    begins_after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An order that was granted: between which commits, and when."""

    kind: str
    of: str
    reason: str
    sent: int
    granted: int
    at: float


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A job that was not taken, for what it was to wait for."""

    after: tuple[str, ...]
    commit: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A job as one commit left it, when this was another status, attempt, or array state than before."""

    commit: int
    at: float
    status: str
    reason: str | None
    attempts: int
    exits: tuple[int | None, ...]
    cancelled: bool
    terminated: bool
    array_state: bool
    counts: tuple[tuple[str, int], ...]
    started_at: object
    stopped_at: object


@dataclass(kw_only=True)
class Seen:
    sights: list[Sight] = field(default_factory=list)

    def at(self, commit) -> Sight | None:
        """How it stood after so many commits, None before it was there."""
        return next((it for it in reversed(self.sights) if it.commit <= commit), None)

    @property
    def last(self) -> Sight:
        return self.sights[-1]

    @property
    def starts(self) -> list[Sight]:
        """The commits by which its attempts were placed."""
        return [it for it in self.sights if it.status == "STARTING"]

    @property
    def over(self) -> Sight | None:
        return self.last if self.last.status in OVER else None

    @property
    def begun(self) -> Sight | None:
        return next((it for it in self.sights if it.array_state), None)


@dataclass(kw_only=True)
class Facts:
    """`away` is how long no server was there. All times are told without that: nothing happens meanwhile."""

    leaves: dict[str, Leaf] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    orders: list[Asked] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    away: float = 0.0
    trouble: list[str] = field(default_factory=list)
    seen: dict[str, Seen] = field(default_factory=lambda: defaultdict(Seen))

    def ids(self):
        return [*self.leaves, *self.arrays]


class Journal:
    """Records what each commit made of each job. `commits` is how many there were."""

    def __init__(self, facts, clock):
        self._facts = facts
        self._clock = clock
        self.commits = 0

    def committed(self, changes):
        self.commits += 1
        for job in (*changes.inserted, *changes.updated):
            self._see(job)

    def _see(self, job):
        sights = self._facts.seen[job.id].sights
        sight = sight_of(job, self.commits, self._clock())
        known = sights[-1] if sights else None
        if known is None or (known.status, known.attempts, known.array_state) != (
            sight.status,
            sight.attempts,
            sight.array_state,
        ):
            sights.append(sight)


def sight_of(job, commit, at):
    return Sight(
        commit=commit,
        at=at,
        status=str(job.status),
        reason=job.status_reason,
        attempts=len(job.attempts),
        exits=tuple(it.exit_code for it in job.attempts),
        cancelled=job.is_cancelled,
        terminated=job.is_terminated,
        array_state=job.array_state is not None,
        counts=()
        if job.array_state is None
        else tuple((str(status), count) for status, count in job.array_state.counts),
        started_at=job.started_at,
        stopped_at=job.stopped_at,
    )
