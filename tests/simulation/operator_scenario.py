"""The random scenario with an operator who force-fails jobs, and with a short retention."""

import asyncio
from datetime import timedelta
from random import Random

from batchq.domain.ids import JobId
from batchq.domain.job import ACTIVE, FINISHED
from batchq.engine.retention import Pruner
from batchq.errors import BatchqError
from tests.simulation.client import NoReply
from tests.simulation.random_scenario import RandomScenario
from tests.simulation.server import Server
from tests.simulation.world import World
from tests.support.builders import ADMIN


class OperatorScenario(RandomScenario):
    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._deleted = set[JobId]()
        self._chance = Random(f"{world.choices.ids.random()} operator")

    async def _storm(self) -> None:
        self._invariants.deletes = True
        self._world.spawn(self._delete_finished(), "forgetting")
        operator = self._world.spawn(self._force_fail_now_and_then(), "an operator")
        await super()._storm()
        operator.cancel()

    async def _force_fail_now_and_then(self) -> None:
        pace = self._chance.choice([3, 10, 30])
        while True:
            await self._clock.sleep(self._chance.uniform(0.2, pace))
            active = [it.id for it in self._invariants.jobs.values() if it.status in ACTIVE]
            if active:
                self._world.spawn(self._force(self._chance.choice(active)), "force-fail")

    async def _force(self, job_id: JobId) -> None:
        self._run_log.write(f"operator force-fails {self._run_log.name_of(job_id)}")
        self._run_log.counts["forced"] += 1
        try:
            job = await self._world.client.request(lambda it: it.jobs.force_fail(job_id, "stuck", caller=ADMIN))
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
        over = [it.id for it in self._invariants.jobs.values() if it.status in FINISHED]
        for job_id in set(over) - server.store.stored(over).keys() - self._deleted:
            self._deleted.add(job_id)
            self._invariants.times.deleted(job_id, retention)
