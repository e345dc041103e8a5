"""Random requests and faults for some time; then, without faults, every job must finish."""

import asyncio
from datetime import timedelta
from random import Random

from batchq.domain.enums import ACTIVE, FINISHED
from batchq.domain.ids import JobId, Tag
from batchq.engine.pruner import Pruner
from batchq.errors import BatchqError
from batchq.ports.runtime import LaunchSpec
from tests.simulation import final_checks, webhooks
from tests.simulation.client import NoReply
from tests.simulation.interventions import Interventions
from tests.simulation.second_server import SecondServer
from tests.simulation.server import Server
from tests.simulation.world import World
from tests.support import builders
from tests.support.builders import ADMIN
from tests.support.containers import remove_pause_containers

RECOVERY_TIME = 40.0  # seconds until the last late call has been carried out and every leftover was seen


class RandomScenario:
    def __init__(self, world: World) -> None:
        self._world = world
        self._choices = world.choices
        self._clock = world.clock
        self._run_log = world.run_log
        self._invariants = world.invariants
        self._machine = world.machine
        self._second_server = SecondServer(world)
        self._interventions = Interventions(world)

    async def run(self) -> None:
        await self._begin_and_recover()
        await final_checks.settle(self._world)
        await final_checks.check(self._world)
        if self._choices.has_webhook:
            await webhooks.check(self._world)

    async def _begin_and_recover(self) -> None:
        """Create the catalog without faults, then let users and faults act, and wait until the faults are over."""
        luck = self._choices.luck
        self._choices.stop_faults()
        self._run_log.write(f"{luck}")
        await self._world.create_catalog()
        await self._world.serve()
        self._choices.luck = luck
        await self._storm()
        await self._recover()

    async def _storm(self) -> None:
        self._interventions.begin()
        users = self._world.spawn(self._use(), "users")
        second_server = self._world.spawn(self._second_server.run(), "the second server")
        ends = self._clock.now() + timedelta(seconds=self._choices.world.choice([12, 30, 75]))
        while self._clock.now() < ends:
            await self._clock.sleep(self._choices.world.uniform(0.1, 8))
            self._disturb()
        users.cancel()
        second_server.cancel()

    async def _use(self) -> None:
        pace = self._choices.client.choice([0.2, 2, 6])
        for _ in range(self._choices.client.randint(4, 18)):
            await self._clock.sleep(self._choices.client.uniform(0, pace))
            self._world.spawn(self._world.client.act(), "a user")

    def _disturb(self) -> None:
        self._world.may_step_disk_clock()
        if self._choices.limits.random() < self._choices.limit_change_rate:
            self._limit_account(self._choices.limits.choice([0.5, 1.0, 2.0, 4.0]))
        world, luck = self._choices.world, self._choices.luck
        if world.random() < luck.manual_changes:
            world.choice([self._kill_by_hand, self._remove_by_hand, self._take_a_name, self._add_orphan])()
        if world.random() < luck.engine_outages:
            stirs = [self._stop_engine, self._freeze, self._machine.runtime.end_subscriptions, self._lose_network]
            world.choice(stirs)()
        if world.random() < luck.restarts:
            self._restart()

    def _limit_account(self, vcpus: float) -> None:
        self._run_log.write(f"the limit of the account is {vcpus}")
        self._run_log.counts["account limits"] += 1
        self._invariants.resources.limit(vcpus)

    def _restart(self) -> None:
        assert self._world.server is not None
        if self._choices.world.random() < 0.3:
            self._world.server.leave()
        else:
            self._run_log.counts["crashes"] += 1
            self._world.server.lifetime.end("in the middle")

    def _stop_engine(self) -> None:
        self._run_log.write("engine goes away")
        self._machine.runtime.faults.unreachable = True
        asyncio.get_running_loop().call_later(self._choices.world.uniform(1, 25), self._resume_engine)

    def _resume_engine(self) -> None:
        self._run_log.write("engine is back")
        self._machine.runtime.faults.unreachable = False

    def _freeze(self) -> None:
        seconds = self._choices.world.uniform(1, 15)
        self._run_log.write(f"engine freezes for {seconds:.1f}")
        self._machine.freeze(seconds)

    def _lose_network(self) -> None:
        for environment in sorted({container for container, _ in self._machine.engine.pause_containers}):
            self._run_log.write(f"the network that jobs on {environment} share dies")
            remove_pause_containers(self._machine.runtime, environment)

    def _remove_by_hand(self) -> None:
        if found := [tag for each in self._world.engines for tag in each.engine.containers]:
            tag = self._choices.world.choice(found)
            self._run_log.write(f"a human removes {self._run_log.name_of(tag)}")
            self._invariants.containers.removed_by_hand.add(tag)
            self._world.engine_with(tag).runtime.remove_externally(tag)

    def _kill_by_hand(self) -> None:
        live = [record.tag for record in self._invariants.containers.all() if record.lives(self._clock.now())]
        if live:
            tag = self._choices.world.choice(live)
            self._run_log.write(f"a human kills {self._run_log.name_of(tag)}")
            has_it = self._world.engine_with(tag)
            has_it.runtime._send_signal(tag, has_it.engine.kill)

    def _take_a_name(self) -> None:
        known = [job for job in self._invariants.jobs.values() if job.status not in FINISHED]
        if known:
            job = self._choices.world.choice(known)
            part = self._choices.world.choice(list(job.spec.nodes.containers))
            tag = Tag(job_id=job.id, attempt=len(job.attempts) + 2, container_key=part)
            for each in self._world.engines:
                each.engine.foreign_names.add(tag)

    def _add_orphan(self) -> None:
        """Create a container of no known job; so few that the server does not suspect a wrong database.

        A server leaves containers alone that appear after its first survey. After a restore the operator purges them.
        """
        if self._run_log.counts["orphans"] < 3 and not self._choices.restore_rate:
            self._run_log.counts["orphans"] += 1
            tag = Tag(job_id=builders.job_id(10**9 + self._run_log.counts["orphans"]), attempt=1)
            self._invariants.orphans[tag] = self._run_log.counts["boots"] if self._world.has_surveyed else None
            self._machine.engine.create(LaunchSpec(tag=tag, spec=builders.container(), environment=()))

    async def _recover(self) -> None:
        self._run_log.write("calm")
        self._second_server.leave()
        self._choices.stop_faults()
        for each in self._world.engines:
            each.stop_faults()
        self._world.other_engine.stop_faults()
        if self._world.on_other_engine and self._world.server is not None:
            self._world.server.leave()
        await self._world.ready()
        await self._interventions.end()
        await self._clock.sleep(RECOVERY_TIME)
        await self._world.ready()
        if self._choices.limit_change_rate:
            self._limit_account(self._choices.account_limit)
        await self._world.client.restore_catalog()


class OperatorScenario(RandomScenario):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._deleted = set[JobId]()
        self._chance = Random(f"{world.choices.ids.random()} operator")

    async def _storm(self) -> None:
        self._invariants.deletes = self._invariants.groups.is_inexact = True
        self._world.spawn(self._delete_finished(), "forgetting")
        operator = self._world.spawn(self._force_fail_now_and_then(), "an operator")
        await super()._storm()
        operator.cancel()

    async def _force_fail_now_and_then(self) -> None:
        pace = self._chance.choice([2, 5, 20])
        while True:
            await self._clock.sleep(self._chance.uniform(0.2, pace))
            active = [job.id for job in self._invariants.jobs.values() if job.status in ACTIVE]
            if active:
                self._world.spawn(self._force(self._chance.choice(active)), "force-fail")

    async def _force(self, job_id: JobId) -> None:
        self._run_log.write(f"operator force-fails {self._run_log.name_of(job_id)}")
        self._run_log.counts["forced"] += 1
        try:
            job = await self._world.client.request(lambda server: server.jobs.force_fail(job_id, "stuck", caller=ADMIN))
        except (NoReply, BatchqError) as why:
            self._run_log.write(f"operator got {type(why).__name__}")
            return
        if job.status not in FINISHED:
            self._run_log.fail("I7 a force-failed job is over", f"{job}")

    async def _delete_finished(self) -> None:
        """Delete finished jobs after a minute at least, because clients repeat requests for minutes."""
        retention = timedelta(seconds=self._chance.choice([60, 90, 200]))
        while True:
            await self._clock.sleep(self._chance.uniform(1, 10))
            server = self._world.server
            if server is not None and server.ready and server.lifetime.alive:
                await self._round(server, retention)

    async def _round(self, server: Server, retention: timedelta) -> None:
        loop = server.engine.loop
        pruner = Pruner(
            store=server.store,
            archive=self._world.archive,
            clock=server.clock,
            retention=retention,
            unit_lock=loop.unit_lock,
            jobs_with_containers=lambda: loop.state.jobs_with_containers,
        )
        work = asyncio.create_task(pruner.prune_once())
        died = asyncio.create_task(server.lifetime.died.wait())
        await asyncio.wait({work, died}, return_when=asyncio.FIRST_COMPLETED)
        work.cancel()
        died.cancel()
        for failure in await asyncio.gather(work, died, return_exceptions=True):
            if isinstance(failure, Exception) and not isinstance(failure, BatchqError):
                raise failure
        over = [job.id for job in self._invariants.jobs.values() if job.status in FINISHED]
        for job_id in set(over) - server.store.stored(over).keys() - self._deleted:
            self._deleted.add(job_id)
            self._invariants.times.deleted(job_id, retention)
