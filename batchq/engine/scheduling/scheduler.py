"""The scheduler: share usage, blocked heads, time limits, queue positions and the placement pass.

The decisions of a unit of work are staged here and applied when the unit is saved. A unit that is not saved changes
nothing.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.catalog import ComputeEnvironment, EnvironmentName
from batchq.domain.explanation.facts import BlockedHead
from batchq.domain.ids import ConsumableName, JobId, MachineName, QueueName
from batchq.domain.job import Job, JobSpec
from batchq.domain.machines import Machine
from batchq.domain.scheduling.capacity import Candidate, Cluster, FreeCapacity, is_queued_for_placement
from batchq.domain.scheduling.fairshare import Change, ShareKey, active_shares, share_refusal
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.domain.scheduling.quotas import NO_QUOTAS, ClosedAccounts
from batchq.domain.scheduling.resources import Stocks, Usage, UsageSnapshot
from batchq.domain.status_reasons import code
from batchq.engine.account_limits import AccountPolicies, QueuedJobs
from batchq.engine.scheduling.blocked import BlockedJobs, TimeLimits, read_promises
from batchq.engine.scheduling.placement_pass import NOTHING_QUEUED, PassResult, new_pass, recheck_unschedulable
from batchq.engine.scheduling.queue_cache import QueueCache
from batchq.engine.scheduling.queue_reader import NO_SEARCH, Exclusions, Searches, WaitingJobs, next_searches
from batchq.engine.scheduling.totals import QueuePositions, RecentStarts, ShareUsageTotals
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.errors import Invalid
from batchq.ports.catalog import CatalogView, Snapshot
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore

SNAPSHOT_JOBS, SNAPSHOT_SHARES = 100, 20  # in the snapshot of a queue


class PassMemo:
    """The result of the last placement pass, so that a pass that can place nothing is skipped.

    It holds from one saved unit of work to the next, updated by the jobs that begin or cease to wait.
    """

    def __init__(self) -> None:
        #: Queues without waiting jobs.
        self.empty_queues: set[QueueName] = set()
        #: Queues in which no job behind the head can start, with the `Job.sequence` of the head.
        self._full_queues: Mapping[QueueName, int] = {}
        #: The result of the pass in the present unit of work.
        self.staged: PassResult | None = None

    def clear(self) -> None:
        """Drop the results: capacity or the catalog may have changed."""
        self.empty_queues = set()
        self._full_queues = {}

    def nothing_queued(self, queues: Collection[QueueName], changes: Iterable[Change]) -> bool:
        """Whether no job waits in these queues, with the changes of the unit of work applied."""
        return self.empty_queues.issuperset(queues) and not any(is_queued_for_placement(after) for _, after in changes)

    def needs_pass(self, changed: Mapping[QueueName, int]) -> bool:
        """Whether a pass is needed because of jobs that began or ceased to wait.

        `changed`: by queue, the lowest `Job.sequence` of these jobs.
        """
        return any(sequence <= self._full_queues.get(queue, sequence) for queue, sequence in changed.items())

    def on_committed(self, committed: Committed) -> None:
        if self.staged is not None:
            self._full_queues = self.staged.full_queues
            seen = self.staged.complete_queues.items()
            self.empty_queues |= {
                queue for queue, line in seen if all(committed.unit.touched(candidate.job_id) for candidate in line)
            }
        if committed.runnable and self.empty_queues:
            self.empty_queues -= {after.spec.queue for _, after in committed.runnable if is_queued_for_placement(after)}


NO_PROMISES: Mapping[JobId, datetime] = {}
NO_PLANS: Mapping[JobId, tuple[MachineName, ...]] = {}


class PlacementState(Struct, frozen=True, kw_only=True):
    """What a placement pass leaves to the next one."""

    #: The latest start time of each blocked head.
    promises: Mapping[JobId, datetime] = NO_PROMISES
    #: The machines that are reserved for each blocked head.
    plans: Mapping[JobId, tuple[MachineName, ...]] = NO_PLANS
    #: Where searches behind blocked heads continue.
    searches: Searches = NO_SEARCH
    #: The `Job.sequence` after which unschedulable jobs are still to be examined again; None: none is left.
    unschedulable_after: int | None = None


class Scheduler:
    """Places jobs, and cancels jobs that have been blocked too long.

    `request_unit` is called when a unit of work is needed because a job has been blocked too long.
    """

    def __init__(
        self,
        *,
        store: JobStore,
        catalog: CatalogView,
        accounts: AccountPolicies,
        clock: Clock,
        request_unit: Callable[[], None],
    ) -> None:
        self._store = store
        #: Cached fronts of the queues.
        self.queue_cache = QueueCache(store)
        self._accounts, self._catalog, self._clock = accounts, catalog, clock
        #: Usage of shares and of consumable resources.
        self.share_usage = ShareUsageTotals(catalog)
        #: The machines, arranged for the environments of `_arranged_for`.
        self._machines: MachineSet | None = None
        self._arranged_for: tuple[Sequence[Machine], Mapping[EnvironmentName, ComputeEnvironment]] = (), {}
        #: Counts of queued jobs and of pending dependencies.
        self.queued_jobs = QueuedJobs(accounts)
        #: The resources that active jobs hold.
        self._resource_usage = Usage()
        #: The blocked heads and since when they have been blocked.
        self._blocked_jobs = BlockedJobs()
        #: Since when each waiting job has had its position.
        self._positions = QueuePositions(clock.now())
        #: How many jobs of each queue were placed recently.
        self.recent_starts = RecentStarts(clock.now())
        #: The result of the last placement pass.
        self._pass_memo = PassMemo()
        #: As last saved, and as the present unit of work leaves it. At first all unschedulable jobs are examined again:
        #: machines may have changed before the start.
        self._saved = self._staged = PlacementState(unschedulable_after=-1)
        #: Whether the start times stored before the restart have been read.
        self._promises_read = False
        self.time_limits = TimeLimits(
            store=store, catalog=catalog, heads=self._blocked_jobs, clock=clock, request_unit=request_unit
        )

    async def load(self, active: Iterable[Job]) -> None:
        """Load the stored state: at the start, and whenever memory may differ from the store."""
        self._resource_usage = Usage(active)
        await self.share_usage.load(self._store, self._clock.now())
        await self.queued_jobs.load(self._store)
        self._blocked_jobs.marks = {}
        self._saved = replace(self._saved, searches=NO_SEARCH)
        self.queue_cache.clear()
        self._pass_memo.clear()
        self.time_limits.schedule_scan(self._clock.now())

    async def cancel_overdue(self, unit: UnitOfWork, *, catalog_changed: bool, safe_mode: bool) -> None:
        """Cancel the jobs that have been blocked too long; the first step of the scheduler in each unit of work.

        `safe_mode`: safe mode is active; then no job is cancelled, because it is not known which jobs run. While
        unschedulable jobs must be examined again, after a start or a change of the catalog, none of them is cancelled:
        it may fit now.
        """
        if catalog_changed:
            self.share_usage.prune(unit.now)
            self.queue_cache.clear()
            self._pass_memo.clear()
            self.time_limits.reset_due()
        self._pass_memo.staged = None
        self._blocked_jobs.staged = self._blocked_jobs.marks
        self._staged = self._saved
        if not safe_mode:
            recheck_due = catalog_changed or self._saved.unschedulable_after is not None
            await self.time_limits.cancel(unit, recheck_due=recheck_due)

    def needs_pass(self, unit: UnitOfWork) -> bool:
        """Whether the changes so far may let a job start or change a queue's head."""
        changed = unit.placement.changed_queues
        return unit.placement.is_due or (bool(changed) and self._pass_memo.needs_pass(changed))

    async def recheck_unschedulable(
        self, unit: UnitOfWork, machines: Sequence[Machine], *, catalog_changed: bool
    ) -> bool:
        """After a change of the catalog, examine a page of unschedulable jobs again; False if more remain."""
        if catalog_changed:
            self.time_limits.schedule_scan(unit.now)
            self._saved = replace(self._saved, unschedulable_after=-1)
        if self._saved.unschedulable_after is None:
            return True
        _, used_up = self.share_usage.after(unit)
        room = FreeCapacity(cluster=self._cluster(machines, used_up), usage=Usage().after(()), now=unit.now)
        after = await recheck_unschedulable(
            unit, self._store, self._catalog, capacity=room, after=self._saved.unschedulable_after
        )
        self._staged = replace(self._staged, unschedulable_after=after)
        return after is None

    async def place(
        self, unit: UnitOfWork, machines: Sequence[Machine], *, skip: Exclusions, capacity_freed: bool
    ) -> bool:
        """Place the jobs that fit; False if another pass must follow.

        That is so if the pass stopped at a limit of the unit of work, placed many jobs, or a head has failed meanwhile.

        `capacity_freed`: whether more resources may be free than at the last call.
        """
        open_queues = [name for name, queue in self._catalog.queues.items() if not queue.drained]
        if self._pass_memo.nothing_queued(open_queues, unit.job_changes):
            result, promises, plans = NOTHING_QUEUED, NO_PROMISES, NO_PLANS
        else:
            uses, used_up = self.share_usage.after(unit)
            held = self._resource_usage.after([change.after for change in unit.job_changes])
            site = self._cluster(machines, used_up)
            new = partial(new_pass, unit, self.queue_cache, self._catalog, usage=uses, skip=skip)
            if not self._promises_read:
                heads = await new(capacity=FreeCapacity(cluster=site, usage=held, now=unit.now)).place_all()
                ids = [head.job_id for head in heads.values()]
                self._saved = replace(self._saved, promises=await read_promises(unit, self.queue_cache, ids))
                self._promises_read = True
            saved = self._saved
            room = FreeCapacity(cluster=site, usage=held, now=unit.now, promised=saved.promises, planned=saved.plans)
            placement = new(capacity=room, empty_queues=self._pass_memo.empty_queues)
            result = await placement.run(saved.searches if unit.placement.search_due else NO_SEARCH)
            promises, plans = room.promises, room.plans
        self._pass_memo.staged = result
        searches = self._next_searches(unit, result, capacity_freed=capacity_freed)
        self._staged = replace(self._staged, searches=searches)
        if result.finished:
            marks = await self._blocked_jobs.mark(unit, self.queue_cache, result.heads, promises)
            self._staged = replace(self._staged, promises=promises, plans=plans)
            return not result.repeat and len(marks) == len(result.heads)
        return False

    @property
    def has_blocked_shares(self) -> bool:
        """Whether a fair-share queue, whose order changes with time, has a blocked head, as last saved."""
        queues = (self._catalog.queues.get(place) for place in self._blocked_jobs.marks if isinstance(place, str))
        return any(queue is not None and queue.policy is not None for queue in queues)

    @property
    def searching(self) -> bool:
        """Whether jobs behind blocked heads are still to be searched."""
        return bool(self._staged.searches)

    def _next_searches(self, unit: UnitOfWork, result: PassResult, *, capacity_freed: bool) -> Searches:
        """The searches after the pass. A head that left its place frees its reservation."""
        if not capacity_freed and self._blocked_jobs.marks:
            heads = {head.job_id for head in result.heads.values()}
            capacity_freed = any(job.job_id not in heads for job in self._blocked_jobs.marks.values())
        searched = result.searches if unit.placement.search_due else self._saved.searches
        if not result.finished:
            return searched
        return next_searches(
            searched, result.unread_queues, unit.placement.changed_queues, capacity_freed=capacity_freed
        )

    def on_committed(self, committed: Committed) -> None:
        """Apply the changes of a saved unit of work. The time limits follow the blocked heads."""
        self._saved = self._staged
        self._resource_usage.update(committed.jobs)
        self.queued_jobs.on_committed(committed)
        self.queue_cache.on_committed(committed)
        self._pass_memo.on_committed(committed)
        if committed.unit.changes_usage:
            self.share_usage.on_committed(committed)
        if committed.transitions:
            self.recent_starts.on_committed(committed)
        if committed.runnable:
            self._positions.on_committed(committed)
        self._blocked_jobs.on_committed(committed)
        self.time_limits.on_committed(committed)

    def admit(self, unit: UnitOfWork, spec: JobSpec) -> None:
        """Check a new job against the limits of its queue and account. Raises Invalid.

        AWS: a queue has at most 500 active shares. On a server with users each user opens a part of them only. An
        account may have a limit on queued jobs.
        """
        if spec.share_identifier is not None:
            key = ShareKey(spec.queue, spec.share_identifier)
            user = spec.owner.user if self._accounts.are_enforced else None
            why = share_refusal(self.share_usage.shares, key, unit.new_shares(), user=user)
            if why is not None:
                raise Invalid(why)
        self.queued_jobs.admit(unit, spec)

    def used_up(self, name: ConsumableName) -> int:
        """The units that jobs took from a consumable resource while it was NON_REPLENISHABLE, as last saved."""
        return self.share_usage.used_up.get(name, 0)

    def usage(self) -> UsageSnapshot:
        """The resources that active jobs hold, as last saved."""
        return self._resource_usage.after(())

    def heads(self) -> dict[QueueName, BlockedHead]:
        """The blocked head of each queue, as last saved."""
        return {
            slot: BlockedHead(job_id=job.job_id, reason=job.reason, since=job.since)
            for slot, job in self._blocked_jobs.marks.items()
            if isinstance(slot, str)
        }

    def share_millicpus(self) -> dict[tuple[QueueName, str], int]:
        """The vCPUs that the jobs of each share hold, in thousandths, as last saved; shares without any are omitted."""
        return {(key.queue, key.share): use.millicpus for key, use in self.share_usage.shares.items() if use.millicpus}

    def cluster(self, machines: Sequence[Machine]) -> Cluster:
        """The total capacity, as last saved."""
        return self._cluster(machines, self.share_usage.used_up)

    def blocked_heads(self) -> tuple[tuple[QueueName, str, datetime], ...]:
        """For each blocked head of a queue, or of an account in a queue: the queue, the reason's code, since when."""
        heads = self._blocked_jobs.marks.items()
        return tuple(
            (slot if isinstance(slot, str) else slot[0], code(head.reason), head.since) for slot, head in heads
        )

    async def snapshot(self, queue: QueueName, active: Iterable[Job], skip: Exclusions) -> Snapshot:
        """The next jobs of a queue in the order in which they would start if capacity became free for each in turn.

        Also the resources that its running jobs hold. Unschedulable jobs are not included.
        """
        unit, uses = UnitOfWork(now=self._clock.now(), active={}), self.share_usage.shares
        policy_name = self._catalog.queues[queue].policy
        policy = None if policy_name is None else self._catalog.policies.get(policy_name)
        waiting = WaitingJobs(unit, self._store, skip, ClosedAccounts(NO_QUOTAS))
        line = waiting.in_order(queue) if policy is None else waiting.in_share_order(queue, policy, uses)
        first: list[Candidate] = []
        while len(first) < SNAPSHOT_JOBS and (job := await anext(line, None)) is not None:
            first.append(job)
        created = {
            job.id: job.created_at
            for job in (await self._store.jobs([candidate.job_id for candidate in first])).values()
        }
        since = {candidate.job_id: self._positions.since(queue, candidate.sequence) for candidate in first}
        shares = [(key.share, use.millicpus) for key, use in uses.items() if key.queue == queue and use.millicpus > 0]
        return Snapshot(
            jobs=tuple((job_id, max(created.get(job_id, unit.now), at)) for job_id, at in since.items()),
            updated_at=unit.now,
            millicpus=sum(job.spec.resources.millicpus for job in active if job.spec.queue == queue),
            shares=tuple(sorted(shares, key=lambda share: (-share[1], share[0])))[:SNAPSHOT_SHARES],
            active_shares=active_shares(uses, queue),
        )

    def _cluster(self, machines: Sequence[Machine], used_up: Mapping[ConsumableName, int]) -> Cluster:
        """A copy of the present catalog: it may change while the store is read."""
        stocks = Stocks(dict(self._catalog.consumables), used_up)
        quotas = self._accounts.quotas()
        environments = dict(self._catalog.environments)
        if self._machines is None or self._arranged_for != (machines, environments):
            self._arranged_for = machines, environments
            self._machines = MachineSet(machines, environments.values())
        return Cluster(environments=environments, machines=self._machines, stocks=stocks, quotas=quotas)
