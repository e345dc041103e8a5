"""Random changes of the catalog while jobs wait and run, and what must hold of it.

Queues change their priority, their environments and their policy; environments are disabled; queues, environments,
consumable resources and job definitions are deleted and created again under the same name.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from random import Random

from msgspec.structs import replace

from batchq.domain.catalog import ComputeEnvironment, EnvironmentName, JobQueue, PolicyName, ShareWeight
from batchq.domain.enums import State
from batchq.domain.ids import DefinitionRef, QueueName
from batchq.domain.job import Job
from batchq.ports.catalog import CatalogResource
from batchq.services.catalog import CatalogService
from tests.simulation.resource_checks import CATALOG_DELAY
from tests.simulation.run_log import Checks, RunLog
from tests.simulation.submissions import DEFINITIONS, ENVIRONMENTS, LICENCES, QUEUES
from tests.support import builders
from tests.support.builders import ADMIN


class CatalogChanges:
    """What a user does to the catalog."""

    def __init__(self, rng: Random, policy: PolicyName) -> None:
        self._rng = rng
        self._policy = policy
        #: The resources as they were before they were deleted.
        self._deleted: dict[str, CatalogResource] = {}

    async def change(self, catalog: CatalogService) -> str:
        """One random change. Returns a description. Raises the errors of the service."""
        work = self._rng.choice(
            [
                self._reorder,
                self._reorder,
                self._disable_environment,
                self._replace_queue,
                self._replace_queue,
                self._replace_environment,
                self._replace_consumable,
                self._replace_definition,
                self._weigh_shares,
            ]
        )
        return await work(catalog)

    async def restore(self, catalog: CatalogService) -> None:
        """Let every resource exist again, ENABLED, with all environments for each queue."""
        for name in (*ENVIRONMENTS, *QUEUES, LICENCES):
            await self._create_again(catalog, name)
        for name in ENVIRONMENTS:
            await _set_environment(catalog, name, State.ENABLED)
        for name in QUEUES:
            await _update_queue(catalog, name, environments=_all_environments(), state=State.ENABLED)

    async def _reorder(self, catalog: CatalogService) -> str:
        name, rng = self._rng.choice(list(QUEUES)), self._rng
        environments = tuple(map(EnvironmentName, rng.sample(ENVIRONMENTS, rng.choice([1, 2]))))
        await _update_queue(catalog, name, environments=environments, priority=rng.choice([0, 1, 10]))
        return f"reorders {name}: {environments}"

    async def _disable_environment(self, catalog: CatalogService) -> str:
        name, state = self._rng.choice(ENVIRONMENTS), self._rng.choice(list(State))
        await _set_environment(catalog, name, state)
        return f"{state} {name}"

    async def _replace_queue(self, catalog: CatalogService) -> str:
        """Delete the queue if it has no unfinished jobs, and create it again; now or with a later change."""
        name = self._rng.choice(list(QUEUES))
        if not await self._create_again(catalog, name):
            await _update_queue(catalog, name, state=State.DISABLED)
            await self._delete(catalog, catalog.job_queues, name)
        return f"replaces {name}"

    async def _replace_environment(self, catalog: CatalogService) -> str:
        name = self._rng.choice(ENVIRONMENTS)
        if not await self._create_again(catalog, name):
            for queue in QUEUES:
                await _update_queue(
                    catalog, queue, environments=tuple(each for each in _all_environments() if each != name)
                )
            await _set_environment(catalog, name, State.DISABLED)
            await self._delete(catalog, catalog.compute_environments, name)
        return f"replaces {name}"

    async def _replace_consumable(self, catalog: CatalogService) -> str:
        if not await self._create_again(catalog, LICENCES):
            await self._delete(catalog, catalog.consumable_resources, LICENCES)
        return f"replaces {LICENCES}"

    async def _replace_definition(self, catalog: CatalogService) -> str:
        name = self._rng.choice(list(DEFINITIONS))
        newest = await catalog.definitions.find(name, None, caller=ADMIN)
        await catalog.definitions.deregister(DefinitionRef(name=name, revision=newest.ref.revision), caller=ADMIN)
        await catalog.definitions.register(builders.definition(name=name, image=DEFINITIONS[name]), caller=ADMIN)
        return f"replaces {name}"

    async def _weigh_shares(self, catalog: CatalogService) -> str:
        weights = tuple(
            ShareWeight(identifier=share, weight=self._rng.choice([0.1, 1.0, 5.0])) for share in ("red", "bl*", "gr*")
        )
        await catalog.scheduling_policies.update(
            self._policy,
            lambda was: replace(was, shares=weights, reservation=self._rng.choice([0, 40])),
            caller=ADMIN,
        )
        return "weighs the shares"

    async def _delete(self, catalog: CatalogService, table, name: str) -> None:
        self._deleted[name] = table.get(name)
        await table.delete(name, caller=ADMIN)
        if self._rng.random() < 0.7:
            await self._create_again(catalog, name)

    async def _create_again(self, catalog: CatalogService, name: str) -> bool:
        """Whether the resource was deleted. A restart may have come between its deletion and the reply to it."""
        for table in (catalog.compute_environments, catalog.consumable_resources, catalog.job_queues):
            if name in table.known:
                return False
        resource = self._deleted[name]
        if isinstance(resource, JobQueue):
            resource = replace(resource, state=State.ENABLED)
            await catalog.job_queues.create(resource, caller=ADMIN)
        elif isinstance(resource, ComputeEnvironment):
            await catalog.compute_environments.create(replace(resource, state=State.ENABLED), caller=ADMIN)
        else:
            await catalog.consumable_resources.create(resource, caller=ADMIN)
        return True


def _all_environments() -> tuple[EnvironmentName, ...]:
    return tuple(map(EnvironmentName, ENVIRONMENTS))


async def _update_queue(catalog: CatalogService, name: str, **changes: object) -> None:
    await catalog.job_queues.update(QueueName(name), lambda was: replace(was, **changes), caller=ADMIN)


async def _set_environment(catalog: CatalogService, name: str, state: State) -> None:
    await catalog.compute_environments.update(
        EnvironmentName(name), lambda was: replace(was, state=state), caller=ADMIN
    )


class CatalogChecks(Checks):
    """Every new job has a queue, and every attempt begins in an ENABLED environment of the queue of its job."""

    def __init__(self, *, jobs: Mapping[str, Job], now: Callable[[], datetime], run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._now = now
        #: By name, the versions of each queue and environment with their times; None: it was deleted.
        self._versions: dict[str, list[tuple[datetime, CatalogResource | None]]] = {}

    def changed(self, name: str, resource: CatalogResource | None) -> None:
        """A resource was saved; None: it was deleted."""
        self._versions.setdefault(name, []).append((self._now(), resource))
        self.run_log.counts["catalog: deletions"] += resource is None

    def written(self, inserted: tuple[Job, ...], begun: list[Job]) -> None:
        for job in inserted:
            if self._versions[job.spec.queue][-1][1] is None:
                self.fail("a new job has a queue", job, job.spec.queue)
        for job in begun:
            name = job.attempt.environment
            environments = self._recent(name)
            if not any(each is not None and each.state is State.ENABLED for each in environments):
                self.fail("no attempt begins in a DISABLED environment", job, name)
            if not any(each is not None and name in each.environments for each in self._recent(job.spec.queue)):
                self.fail("an attempt begins in an environment of its queue", job, name)

    def _recent(self, name: str) -> list[CatalogResource | None]:
        """The present version, and those until a moment ago: a server knows a change a moment after the store."""
        versions = self._versions[name]
        until = [at for at, _ in versions[1:]] + [self._now()]
        return [each for (_, each), ends in zip(versions, until, strict=True) if self._now() - ends <= CATALOG_DELAY]
