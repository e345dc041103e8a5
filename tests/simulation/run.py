"""One run of a world, from its first server to its end or to the first broken promise, and what is told of it."""

import asyncio
import gc
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from batchq.engine import arrays, bulk_stops
from tests.simulation.dice import Dice
from tests.simulation.storm import Storm
from tests.simulation.story import Broken, Complaints, Story
from tests.simulation.world import World
from tests.support.clock import TimerLoop


class Course(Protocol):
    """What happens in a world."""

    async def course(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Told:
    """A run, when it is over. `seconds` are its own time."""

    lines: tuple[str, ...]
    digest: str
    broken: str | None
    counts: Counter[str]
    seconds: float


def tell(seed: int) -> Told:
    return live(Dice(seed), Storm)


def check(seed: int) -> Told:
    """The same. Raises Broken with the story's end."""
    told = tell(seed)
    if told.broken:
        raise Broken(f"seed {seed}: {ends(told)}\nAll of it: python -m tests.simulation --seed {seed}")
    return told


def ends(told: Told) -> str:
    """How it was broken, and what came before."""
    last = "\n".join(told.lines[-40:])
    return f"{told.broken}\n{last}"


def live(dice: Dice, course: Callable[[World], Course]) -> Told:
    gc.disable()  # what it clears away, and when, would be another story each time
    try:
        with asyncio.Runner(loop_factory=TimerLoop) as runner:
            return runner.run(_live(dice, course))
    finally:
        gc.enable()


async def _live(dice: Dice, course: Callable[[World], Course]) -> Told:
    story = Story()
    complaints, log = Complaints(story), logging.getLogger("batchq")
    told_before, most_before = log.propagate, (arrays.MOST, bulk_stops.MOST)
    log.addHandler(complaints)
    log.propagate = False
    asyncio.get_running_loop().set_exception_handler(lambda _, it: complaints.complain(it["message"], it))
    try:
        world = World(dice, story)
        await _until_over(world, course(world), story)
    finally:
        log.removeHandler(complaints)
        log.propagate, (arrays.MOST, bulk_stops.MOST) = told_before, most_before
    return Told(
        lines=tuple(story.lines),
        digest=story.digest,
        broken=story.broken,
        counts=story.counts,
        seconds=asyncio.get_running_loop().time(),
    )


async def _until_over(world: World, of: Course, story: Story) -> None:
    """The world goes to its end, or as far as the first broken promise."""
    course = asyncio.create_task(of.course(), name="the course of the world")
    broken = asyncio.create_task(story.ended.wait())
    await asyncio.wait({course, broken}, return_when=asyncio.FIRST_COMPLETED)
    broken.cancel()
    if course.done():
        course.result()
    course.cancel()
    await asyncio.gather(course, broken, return_exceptions=True)
    await world.end()
