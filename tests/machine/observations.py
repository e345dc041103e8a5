"""The requests and the stored state after each commit: the input of the model."""

from collections import defaultdict
from dataclasses import dataclass, field

ACTIVE = {"STARTING", "RUNNING"}
OVER = {"SUCCEEDED", "FAILED"}


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A job that runs containers: a plain one, or a child. `scripts` are (seconds, exit code) of its attempts."""

    parent: str | None = None
    scripts: tuple[tuple[float | None, int], ...]
    attempts: int
    stops_at_exit_3: bool
    after: tuple[str, ...] = ()

    def script(self, attempt):
        return self.scripts[min(attempt, len(self.scripts)) - 1]


@dataclass(frozen=True, kw_only=True)
class Array:
    """An array. `begins_after` are the arrays that must have children before it has any."""

    children: tuple[str, ...]
    after: tuple[str, ...] = ()
    begins_after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class GrantedOrder:
    """A cancel or terminate that succeeded. `sent` and `granted` count the commits before the request and its reply."""

    kind: str
    of: str
    user: str
    reason: str
    sent: int
    granted: int
    at: float


@dataclass(frozen=True, kw_only=True)
class HoldReply:
    """The reply to a hold, release, pause or resume. `sent` and `granted` as in `GrantedOrder`."""

    kind: str
    of: str
    #: The text of the error; None: it succeeded.
    refused: str | None
    sent: int
    granted: int
    at: float

    @property
    def holds(self) -> bool:
        """Whether it held or paused the job."""
        return self.kind in ("hold", "pause") and self.refused is None

    @property
    def releases(self) -> bool:
        return self.kind in ("release", "resume") and self.refused is None


@dataclass(frozen=True, kw_only=True)
class RefusedSubmission:
    """A submission that was refused because of its dependencies."""

    after: tuple[str, ...]
    commit: int
    why: str


@dataclass(frozen=True, kw_only=True)
class Observation:
    """A job as one commit left it, when this was another status, attempt, or array state than before."""

    commit: int
    at: float
    status: str
    reason: str | None
    attempts: int
    #: Of the attempts that no pause ended.
    exits: tuple[int | None, ...]
    #: The numbers of the attempts that a pause ended.
    paused: tuple[int, ...]
    #: It is held, or will be at the end of its attempt.
    held: bool
    cancelled: bool
    terminated: bool
    has_children: bool
    counts: tuple[tuple[str, int], ...]
    started_at: object
    stopped_at: object


ShownOrder = tuple[str, str, str]  # kind, user, reason


@dataclass(kw_only=True)
class JobObservations:
    observations: list[Observation] = field(default_factory=list)
    #: The stop orders other than pauses that the job showed, each time they changed, with the number of the commit.
    orders: list[tuple[int, tuple[ShownOrder, ...]]] = field(default_factory=list)

    def orders_at(self, commit) -> tuple[ShownOrder, ...]:
        """The stop orders that the job showed after so many commits."""
        return next((orders for number, orders in reversed(self.orders) if number <= commit), ())

    def at(self, commit) -> Observation | None:
        """The job after so many commits; None before it existed."""
        return next((observation for observation in reversed(self.observations) if observation.commit <= commit), None)

    @property
    def last(self) -> Observation:
        return self.observations[-1]

    @property
    def starts(self) -> list[Observation]:
        """The first observation of each attempt: it is STARTING."""
        return [
            observation
            for before, observation in zip([None, *self.observations], self.observations, strict=False)
            if _starts(before, observation)
        ]

    @property
    def over(self) -> Observation | None:
        return self.last if self.last.status in OVER else None

    @property
    def begun(self) -> Observation | None:
        return next((observation for observation in self.observations if observation.has_children), None)


@dataclass(kw_only=True)
class Record:
    """One run. All times exclude `away`, the seconds in which no server ran."""

    leaves: dict[str, Leaf] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    orders: list[GrantedOrder] = field(default_factory=list)
    holds: list[HoldReply] = field(default_factory=list)
    refused: list[RefusedSubmission] = field(default_factory=list)
    away: float = 0.0
    errors: list[str] = field(default_factory=list)
    seen: dict[str, JobObservations] = field(default_factory=lambda: defaultdict(JobObservations))

    def ids(self):
        return [*self.leaves, *self.arrays]


class CommitRecorder:
    """Records the jobs of each commit. `number` is how many commits there were."""

    def __init__(self, record, clock):
        self._record = record
        self._clock = clock
        self.number = 0

    def committed(self, changes):
        self.number += 1
        for job in (*changes.inserted, *changes.updated):
            self._observe(job)

    def _observe(self, job):
        seen = self._record.seen[job.id]
        observations = seen.observations
        orders = tuple(
            (str(order.kind), order.user, order.reason) for order in job.stop_orders if order.kind != "PAUSE"
        )
        if orders != seen.orders_at(self.number):
            seen.orders.append((self.number, orders))
        observation = observation_of(job, self.number, self._clock())
        known = observations[-1] if observations else None
        if known is None or _changes(known) != _changes(observation):
            observations.append(observation)


def _starts(before: Observation | None, after: Observation) -> bool:
    same = before is not None and (before.status, before.attempts) == (after.status, after.attempts)
    return after.status == "STARTING" and not same


def _changes(observation):
    return observation.status, observation.attempts, observation.has_children, observation.held


def observation_of(job, commit, at):
    return Observation(
        commit=commit,
        at=at,
        status=str(job.status),
        reason=job.status_reason,
        attempts=len(job.attempts),
        exits=tuple(attempt.exit_code for attempt in job.attempts if not attempt.paused),
        paused=tuple(attempt.number for attempt in job.attempts if attempt.paused),
        held=job.hold is not None,
        cancelled=job.is_cancelled,
        terminated=job.is_terminated,
        has_children=job.array_state is not None,
        counts=()
        if job.array_state is None
        else tuple((str(status), count) for status, count in job.array_state.counts),
        started_at=job.started_at,
        stopped_at=job.stopped_at,
    )
