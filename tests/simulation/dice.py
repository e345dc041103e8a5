"""What chance decides in one run: how unlucky this world is, and every single mishap. Equal seeds, equal worlds."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from random import Random
from typing import NamedTuple
from uuid import UUID

from batchq.compute.simulated.faults import LOST_REPLY, NO_EFFECT, Fault
from batchq.domain.ids import JobId, Tag
from batchq.ports.jobs import Changes

NONE = 0.0
A_MOMENT = 0.001  # seconds
CHANGES = frozenset({"create", "start", "signal_stop", "kill", "remove", "pull"})


class Point(NamedTuple):
    """A moment in which a server may be killed: before, during or after a call of the engine, or a commit."""

    when: str
    what: str
    about: Tag | Changes | None = None


class Spoilt(StrEnum):
    """How a transaction fails: before it wrote anything, or when it had."""

    FULL = "database or disk is full"
    WRITTEN = "disk I/O error"
    CROSSED = "another has changed it"


@dataclass(frozen=True, kw_only=True)
class Luck:
    """How often things go wrong, as probabilities a call; most worlds are spared some kinds, so that others show."""

    unknown: float
    slow: float
    crash: float
    unsaved: float
    unread: float
    quiet_deaths: float
    humans: float
    upheavals: float
    restarts: float


def luck(dice: Random) -> Luck:
    return Luck(
        unknown=dice.choice([NONE, 0.05, 0.13, 0.3]),
        slow=dice.choice([NONE, 0.05, 0.2]),
        crash=dice.choice([NONE, 0.008, 0.015, 0.03]),
        unsaved=dice.choice([NONE, 0.03, 0.15]),
        unread=dice.choice([NONE, NONE, 0.02]),
        quiet_deaths=dice.choice([NONE, 0.2, 0.6, 1.0]),
        humans=dice.choice([NONE, NONE, 0.3]),
        upheavals=dice.choice([NONE, 0.5, 1.0]),
        restarts=dice.choice([NONE, 0.2, 0.5]),
    )


SPARED = Luck(
    unknown=NONE,
    slow=NONE,
    crash=NONE,
    unsaved=NONE,
    unread=NONE,
    quiet_deaths=NONE,
    humans=NONE,
    upheavals=NONE,
    restarts=NONE,
)


class Dice:
    """One stream of chance for each part of the world, so that a change in one does not stir the others at once."""

    def __init__(self, seed: int) -> None:
        self.world = Random(f"{seed} world")
        self.client = Random(f"{seed} client")
        self.engine = Random(f"{seed} engine")
        self.store = Random(f"{seed} store")
        self.ids = Random(f"{seed} ids")
        self.sweeps = Random(f"{seed} sweeps")
        self.sweeping = self.sweeps.choice([NONE, NONE, 0.1, 0.3])
        self.looks = Random(f"{seed} looks")
        self.crossings = Random(f"{seed} crossings")
        self.crossing = self.crossings.choice([NONE, 0.02, 0.1])
        self.engines = Random(f"{seed} engines")
        self.elsewhere = self.engines.choice([NONE, NONE, 0.1, 0.3])
        self.clocks = Random(f"{seed} clocks")
        #: How often the machine's clock is set between two servers.
        self.clock_setting = self.clocks.choice([NONE, NONE, 0.3, 0.7])
        self.twins = Random(f"{seed} twins")
        #: Whether a second server of the same instance runs containers on the engine.
        self.has_twin = self.twins.random() < 0.3
        self.kills_engine = Random(f"{seed} engine ends")
        #: How often the engine is killed in a start.
        self.ending = self.kills_engine.choice([NONE, NONE, 0.03, 0.1])
        self.luck = luck(self.world)
        #: vCPUs that the jobs of an account may have in use together.
        self.account_limit: float | None = Random(f"{seed} accounts").choice([None, 2.0, 4.0])

    def job_id(self) -> JobId:
        """The id of the next submitted job: what sorts by ids would else make each run another."""
        return JobId(str(UUID(int=self.ids.getrandbits(128), version=4)))

    def calm(self) -> None:
        """Nothing goes wrong from here on."""
        self.luck = SPARED

    def goes_elsewhere(self) -> bool:
        """Whether the next server is started on another container engine."""
        return self.luck is not SPARED and self.engines.random() < self.elsewhere

    def sets_clock(self) -> bool:
        """Whether the machine's clock is set before the next server starts."""
        return self.luck is not SPARED and self.clocks.random() < self.clock_setting

    def skew(self) -> timedelta:
        """How far the machine's clock is ahead: whole seconds, so that two never differ by less than is noticed."""
        return timedelta(seconds=self.clocks.choice([0, self.clocks.randint(-7200, 7200)]))

    def crashes(self, point: Point) -> bool:
        """Whether the server dies at this point."""
        return self.luck.crash > 0 and self.world.random() < self.luck.crash

    def patience(self) -> float | None:
        """Seconds that a user waits for an answer."""
        return self.client.choice([None, None, None, 30.0, 0.0, 0.01])

    def grace(self) -> float:
        """Seconds between a stop signal and the kill, of all jobs of this world."""
        return self.world.choice([0, 2, 6])

    def downtime(self) -> float:
        """Seconds until the next server starts."""
        return self.world.choice([0, 0.5, 3, 20])

    def fault(self, call: str) -> Fault | None:
        """What befalls a call of the engine."""
        if self.engine.random() >= self.luck.unknown:
            return None
        late = Fault(takes_effect=True, delay=self.engine.uniform(0.1, 20))
        return self.engine.choice([NO_EFFECT, LOST_REPLY, late]) if call in CHANGES else NO_EFFECT

    def ends_engine(self, call: str) -> bool:
        """Whether the engine is killed in this call, when the program of the container runs and that is not saved."""
        return call == "start" and self.luck is not SPARED and self.kills_engine.random() < self.ending

    def delay(self, call: str) -> float:
        """Seconds that a call of the engine takes."""
        return A_MOMENT if self.engine.random() >= self.luck.slow else self.engine.uniform(0.5, 8)

    def tells(self) -> tuple[float, ...]:
        """After how many seconds each the next death is told."""
        usual = self.engine.random() >= self.luck.quiet_deaths
        told = [(), (0.0, 0.5), (3.0,), (0.0, 0.0, 7.0), (self.engine.uniform(0, 2),)]
        return (0.0,) if usual else self.engine.choice(told)

    def looked_at(self) -> bool:
        """Whether the next one that dies is looked at by who hears of it."""
        return self.looks.random() < 0.5

    def spoils(self) -> Spoilt | None:
        """Whether a transaction fails; half of those that do have written something already.

        After one that another has crossed, the server reads anew what it knew.
        """
        if self.luck is not SPARED and self.crossings.random() < self.crossing:
            return Spoilt.CROSSED
        if self.store.random() >= self.luck.unsaved:
            return None
        return Spoilt.FULL if self.store.random() < 0.5 else Spoilt.WRITTEN
