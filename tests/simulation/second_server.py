"""A second server of the same instance, in another network namespace, where the first server's socket is not visible.

The server under test finds its containers in surveys and has no jobs for them: more than a crash leaves, running ones,
and ones that disappear between two calls. Decision 0036.
"""

from batchq.compute.simulated.script import Script, script_variable
from batchq.domain.ids import Tag
from batchq.ports.runtime import LaunchSpec
from tests.simulation.world import World
from tests.support import builders

FIRST_NUMBER = 2 * 10**9  # of the ids of its jobs, which no other job has


class SecondServer:
    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.choices.second_servers
        self._engine = world.machine.engine
        self._tags: list[Tag] = []

    async def run(self) -> None:
        """Run some containers, and remove some of them, until the task is cancelled."""
        while self._world.choices.has_second_server:
            await self._world.clock.sleep(self._rng.uniform(0.2, 6))
            if self._tags and self._rng.random() < 0.3:
                self._remove(self._rng.choice(self._tags))
            else:
                self._start()

    def leave(self) -> None:
        for tag in tuple(self._tags):
            self._remove(tag)

    def _start(self) -> None:
        world, counts = self._world, self._world.run_log.counts
        counts["containers of the second server"] += 1
        tag = Tag(job_id=builders.job_id(FIRST_NUMBER + counts["containers of the second server"]), attempt=1)
        world.run_log.set_name(tag.job_id, f"second-{counts['containers of the second server']}")
        world.invariants.orphans[tag] = counts["boots"] if world.has_surveyed else None
        script = Script(seconds=self._rng.choice([0.5, 5, 60]), output=("of the second server",))
        self._engine.create(LaunchSpec(tag=tag, spec=builders.container(), environment=(script_variable(script),)))
        self._engine.start(tag)
        self._tags.append(tag)

    def _remove(self, tag: Tag) -> None:
        self._tags.remove(tag)
        if tag in self._engine.containers:
            self._world.machine.runtime.remove_externally(tag)
