"""A second server of the same instance, in a network namespace of its own, where the first one's socket is not seen.

It runs containers that the server under test finds in its surveys and knows no job of: more than are taken for the
leftovers of a crash, running ones, and ones that go away between two calls. Decision 0036.
"""

from batchq.compute.simulated.script import Script, write
from batchq.domain.ids import Tag
from batchq.ports.runtime import LaunchSpec
from tests.simulation.world import World
from tests.support import builders

FIRST_NUMBER = 2 * 10**9  # of the ids of its jobs, which no other job has


class Twin:
    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = world.dice.twins
        self._engine = world.machine.engine
        self._tags: list[Tag] = []

    async def run(self) -> None:
        """Run some containers, and remove some of them, until the task is cancelled."""
        while self._world.dice.has_twin:
            await self._world.clock.sleep(self._dice.uniform(0.2, 6))
            if self._tags and self._dice.random() < 0.3:
                self._remove(self._dice.choice(self._tags))
            else:
                self._start()

    def leave(self) -> None:
        for tag in tuple(self._tags):
            self._remove(tag)

    def _start(self) -> None:
        world, counts = self._world, self._world.story.counts
        counts["containers of a twin"] += 1
        tag = Tag(job_id=builders.job_id(FIRST_NUMBER + counts["containers of a twin"]), attempt=1)
        world.story.name(tag.job_id, f"twin-{counts['containers of a twin']}")
        world.witness.strays[tag] = counts["boots"] if world.has_surveyed else None
        script = Script(seconds=self._dice.choice([0.5, 5, 60]), output=("of the twin",))
        self._engine.create(LaunchSpec(tag=tag, spec=builders.container(), environment=(write(script),)))
        self._engine.start(tag)
        self._tags.append(tag)

    def _remove(self, tag: Tag) -> None:
        self._tags.remove(tag)
        if tag in self._engine.containers:
            self._world.machine.runtime.remove_externally(tag)
