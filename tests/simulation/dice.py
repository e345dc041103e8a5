"""What chance decides in one run: how unlucky this world is, and every single mishap. Equal seeds, equal worlds."""

from dataclasses import dataclass
from random import Random

NONE = 0.0


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
        unknown=dice.choice([NONE, 0.03, 0.1, 0.25]),
        slow=dice.choice([NONE, 0.05, 0.2]),
        crash=dice.choice([NONE, 0.005, 0.01, 0.02]),
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
        self.luck = luck(self.world)

    def calm(self) -> None:
        """Nothing goes wrong from here on."""
        self.luck = SPARED

    def crashes(self) -> bool:
        return self.luck.crash > 0 and self.world.random() < self.luck.crash
