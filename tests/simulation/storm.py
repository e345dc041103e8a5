"""A storm, in which all goes wrong that this world's luck allows, then calm, in which all must settle."""

import asyncio
from datetime import timedelta

from batchq.domain.ids import Tag
from batchq.domain.job import FINISHED
from batchq.domain.lifecycle.container_gates import keys
from batchq.ports.runtime import LaunchSpec
from tests.simulation import ending
from tests.simulation.twin import Twin
from tests.simulation.world import World
from tests.support import builders

CALM_AFTER = 40.0  # seconds until the last late call has been carried out and every leftover was seen


class Storm:
    def __init__(self, world: World) -> None:
        self._world = world
        self._dice = world.dice
        self._clock = world.clock
        self._story = world.story
        self._witness = world.witness
        self._machine = world.machine
        self._twin = Twin(world)

    async def course(self) -> None:
        luck = self._dice.luck
        self._dice.calm()
        self._story.tell(f"{luck}")
        await self._world.settle_ground()
        await self._world.serve()
        self._dice.luck = luck
        await self._storm()
        await self._calm()
        await ending.settle(self._world)
        await ending.check(self._world)

    async def _storm(self) -> None:
        users = self._world.spawn(self._use(), "users")
        twin = self._world.spawn(self._twin.run(), "a twin")
        ends = self._clock.now() + timedelta(seconds=self._dice.world.choice([12, 30, 75]))
        while self._clock.now() < ends:
            await self._clock.sleep(self._dice.world.uniform(0.1, 8))
            self._mischief()
        users.cancel()
        twin.cancel()

    async def _use(self) -> None:
        pace = self._dice.client.choice([0.2, 2, 6])
        for _ in range(self._dice.client.randint(4, 18)):
            await self._clock.sleep(self._dice.client.uniform(0, pace))
            self._world.spawn(self._world.client.act(), "a user")

    def _mischief(self) -> None:
        world, luck = self._dice.world, self._dice.luck
        if world.random() < luck.humans:
            world.choice([self._a_human_kills, self._a_human_removes, self._a_name_is_taken, self._a_stray])()
        if world.random() < luck.upheavals:
            stirs = [self._go_away, self._freeze, self._machine.runtime.end_subscriptions, self._a_network_dies]
            world.choice(stirs)()
        if world.random() < luck.restarts:
            self._restart()

    def _restart(self) -> None:
        assert self._world.server is not None
        if self._dice.world.random() < 0.3:
            self._world.server.leave()
        else:
            self._story.counts["crashes"] += 1
            self._world.server.life.end("in the middle")

    def _go_away(self) -> None:
        self._story.tell("engine goes away")
        self._machine.runtime.faults.unreachable = True
        asyncio.get_running_loop().call_later(self._dice.world.uniform(1, 25), self._come_back)

    def _come_back(self) -> None:
        self._story.tell("engine is back")
        self._machine.runtime.faults.unreachable = False

    def _freeze(self) -> None:
        seconds = self._dice.world.uniform(1, 15)
        self._story.tell(f"engine freezes for {seconds:.1f}")
        self._machine.freeze(seconds)

    def _a_network_dies(self) -> None:
        for environment in sorted({it for it, _ in self._machine.engine.pause_containers}):
            self._story.tell(f"the network that jobs on {environment} share dies")
            self._machine.runtime.remove_pause_containers(environment)

    def _a_human_removes(self) -> None:
        if self._machine.engine.containers:
            tag = self._dice.world.choice(list(self._machine.engine.containers))
            self._story.tell(f"a human removes {self._story.called(tag)}")
            self._witness.truth.vanished.add(tag)
            self._machine.runtime.remove_externally(tag)

    def _a_human_kills(self) -> None:
        live = [it.tag for it in self._witness.truth.all() if it.lives(self._clock.now())]
        if live:
            tag = self._dice.world.choice(live)
            self._story.tell(f"a human kills {self._story.called(tag)}")
            self._machine.runtime._send_signal(tag, self._machine.engine.kill)

    def _a_name_is_taken(self) -> None:
        known = [it for it in self._witness.jobs.values() if it.status not in FINISHED]
        if known:
            job = self._dice.world.choice(known)
            part = self._dice.world.choice(keys(job)) if job.spec.task or job.spec.nodes else ""
            self._machine.runtime.occupy_name(Tag(job_id=job.id, attempt=len(job.attempts) + 2, part=part))

    def _a_stray(self) -> None:
        """A container of no known job; so few that they are no sign of a wrong database.

        One that appears after the first survey of a server is left alone by it.
        """
        if self._story.counts["strays"] < 3:
            self._story.counts["strays"] += 1
            tag = Tag(job_id=builders.job_id(10**9 + self._story.counts["strays"]), attempt=1)
            self._witness.strays[tag] = self._story.counts["boots"] if self._world.has_surveyed else None
            self._machine.engine.create(LaunchSpec(tag=tag, spec=builders.container(), environment=()))

    async def _calm(self) -> None:
        self._story.tell("calm")
        self._twin.leave()
        self._dice.calm()
        self._machine.calm()
        self._world.elsewhere.calm()
        if self._world.is_elsewhere and self._world.server is not None:
            self._world.server.leave()
        await self._clock.sleep(CALM_AFTER)
        await self._world.ready()
        await self._world.client.restore_ground()
