"""Checks of resources, recounted from the commits: vCPUs, memory, consumable resources, shares, account limits."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

from batchq.domain.catalog import ComputeEnvironment, ConsumableResource, ResourceKind
from batchq.domain.enums import FINISHED
from batchq.domain.ids import ConsumableName, JobId
from batchq.domain.job import Job
from batchq.domain.machines import Machine, usable_machine
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.ports.catalog import CatalogResource
from batchq.ports.jobs import Changes
from tests.simulation.history_checks import AuditChecks
from tests.simulation.run_log import Checks, RunLog
from tests.simulation.submissions import EAST_LABEL, TEAM, is_limited

CATALOG_DELAY = timedelta(seconds=1)  # a server knows a change of the catalog a moment after the store


class ResourceChecks(Checks):
    def __init__(self, *, jobs: Mapping[JobId, Job], now: Callable[[], datetime], run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._now = now
        self._audit = AuditChecks(jobs=jobs, run_log=run_log)
        self._sizes: dict[str, list[tuple[datetime, int]]] = defaultdict(list)
        self._kinds: dict[ConsumableName, ResourceKind] = {}
        #: The machines of the engine.
        self.machines: tuple[Machine, ...] = ()
        #: Whether jobs of the environment `east` run only on machines with its label.
        self.selects_by_label = False
        #: The machines of the second engine, which runs the jobs of the environment `west`.
        self.far: frozenset[str] = frozenset()
        #: vCPUs that the jobs of the account may have in use together; None: it has no limit.
        self.account_limit: float | None = None
        self.used_up: Counter[ConsumableName] = Counter()

    def limit(self, vcpus: float | None) -> None:
        """The limit of the account has changed."""
        self.account_limit = vcpus
        if vcpus is not None:
            self._sizes[TEAM].append((self._now(), int(vcpus * 1000)))

    def changed(self, name: str, resource: CatalogResource | None) -> None:
        """A resource was saved; None: it was deleted."""
        if resource is None:
            self._sizes[name].append((self._now(), 0))
        elif isinstance(resource, ComputeEnvironment):
            self._sizes[resource.name].append((self._now(), resource.max_millicpus))
        elif isinstance(resource, ConsumableResource):
            self._kinds[resource.name] = resource.kind
            self._sizes[resource.name].append((self._now(), resource.total))

    def begun(self, job: Job) -> None:
        """I10: an attempt begins only if its resources are free."""
        self._check_limit(job.attempt.environment, self._held(job.attempt.environment))
        team = sum(
            other_job.spec.resources.millicpus for other_job in self._active() if is_limited(other_job.spec.owner)
        )
        if self.account_limit is not None and is_limited(job.spec.owner):
            self._check_limit(TEAM, team)
        for machine in self.machines:
            self._check_machine(machine)
        self._check_selection(job)
        for need in job.spec.needs:
            if self._kinds[need.resource] is ResourceKind.NON_REPLENISHABLE:
                self.used_up[need.resource] += need.quantity
                self._check_limit(need.resource, self.used_up[need.resource])
            else:
                self._check_limit(need.resource, self._in_use(need.resource))

    def written(self, changes: Changes, begun: Iterable[Job]) -> None:
        """The shares and used-up quantities of a commit equal the recount."""
        self._audit.written(changes)
        used = {
            need.resource: self.used_up[need.resource]
            for job in begun
            for need in job.spec.needs
            if self._kinds[need.resource] is ResourceKind.NON_REPLENISHABLE
        }
        if dict(changes.used_up) != used:
            self.run_log.fail("I10 what is used up is counted once", f"{changes.used_up}, and it is {used}")
        self.check_shares(dict(changes.shares))

    def check_shares(self, shares: Mapping[ShareKey, ShareUse]) -> None:
        for key, use in shares.items():
            of = [job for job in self.jobs.values() if (job.spec.queue, job.spec.share_identifier) == key]
            active = sum(job.status not in FINISHED and job.child is None for job in of)
            held = sum(job.spec.resources.millicpus for job in of if job.attempt is not None)
            if (use.active, use.millicpus) != (active, held) or use.used < 0:
                self.run_log.fail(
                    "I10 the usage of a share is what its jobs hold", f"{key} {use}, and it is {active} {held}"
                )

    def _check_selection(self, job: Job) -> None:
        """A job of `east` runs on machines with its label only, one of `west` on the second engine."""
        environment, names = job.attempt.environment, {container.machine for container in job.attempt.containers}
        east = {machine.name for machine in self.machines if EAST_LABEL in machine.labels}
        if self.far and (environment == "west") != self.far.issuperset(names):
            self.run_log.fail("I10 a job runs on the engine of its environment", job.id)
        if self.selects_by_label and environment == "east" and not east.issuperset(names):
            self.run_log.fail("I10 a job runs on machines of its environment", job.id)

    def _check_machine(self, machine: Machine) -> None:
        """No machine has less than the nodes of jobs on it hold. An engine with one machine does not name it."""
        expected = machine.name if machine.is_enforced or self.far else None
        nodes = {
            (job.id, container.node): job.spec.nodes.task(container.node).resources
            for job in self._active()
            for container in job.attempt.containers
            if container.machine == expected
        }
        millicpus, memory = (
            sum(getattr(node, name) for node in nodes.values()) for name in ("millicpus", "memory_mib")
        )
        most = usable_machine(machine).resources
        if memory > most.memory_mib or (machine.is_enforced and millicpus > most.millicpus):
            self.run_log.fail("I10 no more than there is", f"{machine}: {millicpus} and {memory} MiB")
        names = {known.name for known in self.machines}
        unnamed = [job.tag for job in self._active() if job.attempt.containers[0].machine not in names]
        if machine.is_enforced and unnamed:
            self.run_log.fail("I10 each attempt names its machine", unnamed)

    def _active(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.attempt is not None]

    def _held(self, environment: str) -> int:
        return sum(job.spec.resources.millicpus for job in self._active() if job.attempt.environment == environment)

    def _in_use(self, resource: ConsumableName) -> int:
        return sum(need.quantity for job in self._active() for need in job.spec.needs if need.resource == resource)

    def _check_limit(self, name: str, used: int) -> None:
        """No more is used than exists, or existed a moment ago."""
        sizes, now = self._sizes[name], self._now()
        until = [at for at, _ in sizes[1:]] + [now]
        largest = max(size for (_, size), ends in zip(sizes, until, strict=True) if now - ends <= CATALOG_DELAY)
        if used > largest:
            self.run_log.fail("I10 no more than there is", f"{name}: {used} of {largest}")
