"""The elements of a sequence of requests, which hypothesis generates.

A step names an earlier job by a number, modulo the number of jobs, so every sequence can be executed.
"""

from dataclasses import dataclass, field

from hypothesis import strategies as some

LARGEST = 6  # children


@dataclass(frozen=True, kw_only=True)
class AttemptScript:
    """The behaviour of the container of one attempt."""

    #: None: it runs until it is stopped.
    seconds: float | None = 0
    exit_code: int = 0
    #: It ignores the stop signal, and is killed.
    ignores_signal: bool = False


@dataclass(frozen=True, kw_only=True)
class After:
    """A dependency on an earlier job, or with `child` on one of its children, if it has children."""

    job: int
    child: int | None = None


@dataclass(frozen=True, kw_only=True)
class Submit:
    """SubmitJob."""

    #: Of the attempts in their order; the last one also of all further attempts.
    scripts: tuple[AttemptScript, ...] = (AttemptScript(),)
    attempts: int = 1
    #: Exit code 3 is not retried.
    stops_at_exit_3: bool = False
    #: How many children the array has; None: not an array.
    size: int | None = None
    #: By index: the script of all attempts of that child.
    own: tuple[tuple[int, AttemptScript], ...] = ()
    sequential: bool = False
    #: An earlier array: this one has its size, and each child depends on the child of the same index (N_TO_N).
    counterpart: int | None = None
    after: tuple[After, ...] = ()
    large: bool = False


@dataclass(frozen=True, kw_only=True)
class Order:
    """CancelJob or TerminateJob. `of` is None for an unknown id."""

    kind: str
    of: int | None
    child: int | None = None


@dataclass(frozen=True, kw_only=True)
class HoldRequest:
    """`kind`: hold, release, pause or resume."""

    kind: str
    of: int
    child: int | None = None


@dataclass(frozen=True, kw_only=True)
class Wait:
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Restart:
    """The server is killed, and the next one starts `away` seconds later."""

    away: float = 0


Step = Submit | Order | HoldRequest | Wait | Restart


@dataclass(frozen=True, kw_only=True)
class Sequence:
    steps: tuple[Step, ...] = field(default=())

    def __repr__(self):
        return "Sequence(steps=(\n  " + ",\n  ".join(map(repr, self.steps)) + ",\n))"


seconds = some.sampled_from([0, 0.5, 2])
children = some.none() | some.integers(0, LARGEST - 1)
scripts = some.builds(
    AttemptScript,
    seconds=some.sampled_from([0, 0.5, 2, None]),
    exit_code=some.sampled_from([0, 0, 1, 3]),
    ignores_signal=some.booleans(),
)
dependencies = some.builds(After, job=some.integers(0, 9), child=children)
plain = some.fixed_dictionaries(
    {
        "scripts": some.lists(scripts, min_size=1, max_size=3).map(tuple),
        "attempts": some.sampled_from([1, 1, 2, 3]),
        "stops_at_exit_3": some.booleans(),
        "after": some.lists(dependencies, max_size=2).map(tuple),
        "large": some.booleans(),
    }
)
own = some.dictionaries(some.integers(0, LARGEST - 1), scripts, max_size=2).map(lambda value: tuple(value.items()))
arrays = some.fixed_dictionaries(
    {
        "size": some.integers(2, LARGEST),
        "own": own,
        "sequential": some.booleans(),
        "counterpart": some.none() | some.integers(0, 9),
    }
)
submits = some.one_of(
    plain.map(lambda value: Submit(**value)), some.tuples(plain, arrays).map(lambda pair: Submit(**pair[0], **pair[1]))
)
orders = some.builds(
    Order,
    kind=some.sampled_from(["cancel", "terminate"]),
    of=some.integers(0, 9) | some.integers(0, 9) | some.integers(0, 9) | some.none(),
    child=children,
)
holds = some.builds(
    HoldRequest,
    kind=some.sampled_from(["hold", "pause", "pause", "release", "resume"]),
    of=some.integers(0, 9),
    child=children,
)
steps = some.one_of(
    submits,
    submits,
    orders,
    orders,
    holds,
    holds,
    some.builds(Wait, seconds=seconds),
    some.builds(Restart, away=seconds),
)
sequences = some.builds(
    Sequence, steps=some.tuples(submits, some.lists(steps, max_size=14)).map(lambda pair: (pair[0], *pair[1]))
)
