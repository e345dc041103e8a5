"""A plot played over and over, each time with one thing going wrong at the next point, until there is no next."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from msgspec.structs import replace

from tests.simulation.dice import Point, Spoilt
from tests.simulation.fate import NONE, UNANSWERED, Fate, Mishap
from tests.simulation.plots import Play, Plot
from tests.simulation.run import ends, live
from tests.simulation.story import Broken

DOWN = (0.5, 20.0)  # seconds: the containers run on, and all of them have ended
Moment = Callable[[Play, Point], bool]
Request = Callable[[Play], Coroutine[Any, Any, None]]


def terminate_a(play: Play) -> Coroutine[Any, Any, None]:
    return play.terminate("a")


def cancel_c(play: Play) -> Coroutine[Any, Any, None]:
    return play.cancel("c")


def play(plot: Plot, mishap: Mishap = NONE, sees: Moment | None = None) -> Play:
    """To its end. Raises Broken if that is another end than the plot's, or if a promise was broken on the way."""
    it = perform(plot, mishap, sees)
    if it.ends() != plot.ends:
        raise Broken(f"{plot.name}, with {mishap}: {it.ends()}")
    return it


def perform(plot: Plot, mishap: Mishap = NONE, sees: Moment | None = None, asks: Request = terminate_a) -> Play:
    """The same, whatever its end. `asks` is what a user wants at the point of `asks_at`."""
    fate, plays = Fate(mishap), []

    def stage(world) -> Play:
        plays.append(Play(world, plot, fate))
        fate.asks = lambda: world.spawn(asks(plays[0]), "a user")
        if sees is not None:
            fate.sees = lambda point: sees(plays[0], point)
        return plays[0]

    told = live(fate, stage)
    if told.broken:
        raise Broken(f"{plot.name}, with {mishap}: {ends(told)}")
    plays[0].fate = fate
    return plays[0]


def points(plot: Plot, moment: Moment = lambda _play, _point: True, mishap: Mishap = NONE) -> list[int]:
    """The points of a plot, in order, that are of a moment."""
    found: list[bool] = []
    perform(plot, mishap, lambda it, point: found.append(moment(it, point)))
    return [number for number, holds in enumerate(found) if holds]


def crashes(plot: Plot, mishap: Mishap = NONE) -> Iterator[Mishap]:
    """The server dies, at each point; and with each answer that it does not hear."""
    fate = perform(plot, mishap).fate
    for downtime in DOWN:
        for at in range(fate.points + 1):
            yield replace(mishap, crash_at=at, downtime=downtime)
        for at in range(fate.calls + 1):
            for fault in UNANSWERED.values():
                yield replace(mishap, fault_at=at, fault=fault, dies=True, downtime=downtime)


def crashes_at(plot: Plot, moment: Moment, mishap: Mishap = NONE) -> list[Mishap]:
    """The server dies, at each point of a moment."""
    found = points(plot, moment, mishap)
    return [replace(mishap, crash_at=at, downtime=downtime) for at in found for downtime in DOWN]


def faults(plot: Plot) -> Iterator[Mishap]:
    """Each call of the engine is not answered."""
    for at in range(perform(plot).fate.calls + 1):
        for fault in UNANSWERED.values():
            yield Mishap(fault_at=at, fault=fault)


def spoils(plot: Plot) -> Iterator[Mishap]:
    """Each transaction fails."""
    for at in range(perform(plot).fate.commits + 1):
        for spoilt in Spoilt:
            yield Mishap(spoils_at=at, spoilt=spoilt)


def bugs(plot: Plot) -> Iterator[Mishap]:
    """Something unforeseen is raised at each point."""
    return (Mishap(bug_at=at) for at in range(perform(plot).fate.points + 1))


def asked_at(
    plot: Plot, moment: Moment, mishap: Mishap = NONE, *, asks: Request = terminate_a, sees: Moment | None = None
) -> list[Play]:
    """A user asks for something, at each point of a moment."""
    found = points(plot, moment, mishap)
    return [perform(plot, replace(mishap, asks_at=at), sees, asks) for at in found]
