"""What users ask, and what befalls the server: one story is a list of deeds. Hypothesis writes them.

A deed speaks of earlier jobs by number, counted round: 7 of three jobs is the second. So every story can be told.
"""

from dataclasses import dataclass, field

from hypothesis import strategies as some

LARGEST = 6  # children


@dataclass(frozen=True, kw_only=True)
class Act:
    """What one attempt does: it lasts `seconds` (None: until it is stopped), and ends with this exit code.

    One that is `deaf` does not hear a stop, and is killed.
    """

    seconds: float | None = 0
    exit_code: int = 0
    deaf: bool = False


@dataclass(frozen=True, kw_only=True)
class After:
    """A dependency on an earlier job, or with `child` on one of its children, if it has any."""

    job: int
    child: int | None = None


@dataclass(frozen=True, kw_only=True)
class Submit:
    """`acts` are those of its attempts, the last one of all further ones; `own` are those of single children.

    `counterpart`: an array as large as that earlier one, each child after its own of the other (N_TO_N). `gives_up`: an
    exit code 3 is not tried again.
    """

    acts: tuple[Act, ...] = (Act(),)
    attempts: int = 1
    gives_up: bool = False
    size: int | None = None
    own: tuple[tuple[int, Act], ...] = ()
    sequential: bool = False
    counterpart: int | None = None
    after: tuple[After, ...] = ()
    large: bool = False


@dataclass(frozen=True, kw_only=True)
class Order:
    """A cancel or a terminate; `of` None is of an id that was never given."""

    kind: str
    of: int | None
    child: int | None = None


@dataclass(frozen=True, kw_only=True)
class Pass:
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Restart:
    """The server is killed, and comes back after so many seconds."""

    away: float = 0


Deed = Submit | Order | Pass | Restart


@dataclass(frozen=True, kw_only=True)
class Story:
    deeds: tuple[Deed, ...] = field(default=())

    def __repr__(self):
        return "Story(deeds=(\n  " + ",\n  ".join(map(repr, self.deeds)) + ",\n))"


seconds = some.sampled_from([0, 0.5, 2])
children = some.none() | some.integers(0, LARGEST - 1)
acts = some.builds(
    Act, seconds=some.sampled_from([0, 0.5, 2, None]), exit_code=some.sampled_from([0, 0, 1, 3]), deaf=some.booleans()
)
afters = some.builds(After, job=some.integers(0, 9), child=children)
plain = some.fixed_dictionaries(
    {
        "acts": some.lists(acts, min_size=1, max_size=3).map(tuple),
        "attempts": some.sampled_from([1, 1, 2, 3]),
        "gives_up": some.booleans(),
        "after": some.lists(afters, max_size=2).map(tuple),
        "large": some.booleans(),
    }
)
own = some.dictionaries(some.integers(0, LARGEST - 1), acts, max_size=2).map(lambda it: tuple(it.items()))
arrays = some.fixed_dictionaries(
    {
        "size": some.integers(2, LARGEST),
        "own": own,
        "sequential": some.booleans(),
        "counterpart": some.none() | some.integers(0, 9),
    }
)
submits = some.one_of(
    plain.map(lambda it: Submit(**it)),
    some.tuples(plain, arrays).map(lambda it: Submit(**it[0], **it[1])),
)
orders = some.builds(
    Order,
    kind=some.sampled_from(["cancel", "terminate"]),
    of=some.integers(0, 9) | some.integers(0, 9) | some.integers(0, 9) | some.none(),
    child=children,
)
deeds = some.one_of(
    submits,
    submits,
    orders,
    orders,
    some.builds(Pass, seconds=seconds),
    some.builds(Restart, away=seconds),
)
stories = some.builds(Story, deeds=some.lists(deeds, min_size=1, max_size=14).map(tuple))
