"""The scheduler: share usage, blocked heads, time limits, queue positions and the placement pass.

The decisions of a unit of work are staged here and applied when the unit is saved. A unit that is not saved changes
nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from batchq.domain.container import Resources
from batchq.domain.ids import ConsumableName, JobId, QueueName
from batchq.domain.job import Job, JobSpec
from batchq.domain.scheduling.capacity import Cluster, FreeCapacity
from batchq.domain.scheduling.fairshare import MOST_SHARES, Change, ShareKey, ShareUse, may_open
from batchq.domain.scheduling.resources import Stocks
from batchq.domain.scheduling.usage import Usage, UsageSnapshot
from batchq.domain.status_reasons import code
from batchq.engine.account_limits import Accounts
from batchq.engine.scheduling.admission import QueuedJobs
from batchq.engine.scheduling.blocked import BlockedJobs, read_promises
from batchq.engine.scheduling.catalog_view import CatalogView
from batchq.engine.scheduling.placement_pass import (
    NOBODY_WAITS,
    Filled,
    blocked_heads,
    fill_room,
    free_misfits,
)
from batchq.engine.scheduling.queue_cache import Ahead
from batchq.engine.scheduling.queue_reader import Skip
from batchq.engine.scheduling.queue_search import NO_SEARCH, Searches, follow
from batchq.engine.scheduling.share_usage import QueuePositions, ShareUsageTotals
from batchq.engine.scheduling.skip_pass import PassMemo
from batchq.engine.scheduling.snapshot import snapshot
from batchq.engine.scheduling.time_limits import Limits
from batchq.engine.unit_of_work import Committed, StagedState, UnitOfWork
from batchq.errors import Invalid
from batchq.ports.catalog import Snapshot
from batchq.ports.clock import Clock
from batchq.ports.jobs import Changes, JobStore

NO_PROMISES: Mapping[JobId, datetime] = {}


class Scheduler:
    """Places jobs, and cancels jobs that have been blocked too long.

    `ring` is called when a unit of work is needed because a job has been blocked too long.
    """

    def __init__(
        self, *, store: JobStore, ground: CatalogView, accounts: Accounts, clock: Clock, ring: Callable[[], None]
    ) -> None:
        self._store = store
        #: Cached fronts of the queues.
        self.ahead = Ahead(store)
        self._accounts = accounts
        self._ground = ground
        self._clock = clock
        #: Usage of shares and of consumable resources.
        self._ledger = ShareUsageTotals(ground)
        #: Counts of queued jobs and of pending dependencies.
        self.tally = QueuedJobs(accounts)
        #: The resources that active jobs hold.
        self._held = Usage()
        #: The blocked heads and since when they have been blocked.
        self._heads = BlockedJobs()
        #: Since when each waiting job has had its position.
        self._positions = QueuePositions(clock.now())
        #: The result of the last placement pass.
        self._outlook = PassMemo()
        #: The latest start time of each blocked head, as last saved.
        self._promises = NO_PROMISES
        #: Whether the start times stored before the restart have been read.
        self._promises_read = False
        self._staged_promises = NO_PROMISES
        #: Where searches behind blocked heads continue, as last saved.
        self._searches: Searches = NO_SEARCH
        self._staged_searches: Searches = NO_SEARCH
        #: The order after which unschedulable jobs must be examined again; None: all are examined.
        self._misfits_after: int | None = None
        self._staged_misfits_after: int | None = None
        self.limits = Limits(store=store, ground=ground, heads=self._heads, clock=clock, ring=ring)

    async def load(self, active: Iterable[Job]) -> None:
        """Load the stored state: at the start, and whenever memory may differ from the store."""
        self._held = Usage(active)
        await self._ledger.load(self._store, self._clock.now())
        await self.tally.load(self._store)
        self._heads.marks = {}
        self._searches = NO_SEARCH
        self.ahead.forget()
        self._outlook.forget()
        self.limits.look_through(self._clock.now())

    async def cancel_overdue(self, unit: UnitOfWork, *, ground_changed: bool, held: bool) -> None:
        """Begin a unit of work: cancel the jobs that have been blocked too long.

        `held`: safe mode is active; then no job is cancelled, because it is not known which jobs run.
        """
        if ground_changed:
            self._ledger.forget(unit.now)
            self.ahead.forget()
            self._outlook.forget()
            self.limits.forget()
        self._outlook.begin()
        self._staged_promises = self._promises
        self._heads.begin()
        self._staged_misfits_after = self._misfits_after
        self._staged_searches = self._searches
        if not held:
            await self.limits.cancel(unit)

    def concerns(self, unit: UnitOfWork) -> bool:
        """Whether the changes so far may let a job start or change a queue's head."""
        return unit.place or self._outlook.concerns(unit.changed_queues)

    async def free_misfits(self, unit: UnitOfWork, host: Resources, *, ground_changed: bool) -> bool:
        """After a change of the catalog, examine a page of unschedulable jobs again; False if more remain."""
        if ground_changed:
            self.limits.look_through(unit.now)
            self._misfits_after = -1
        if self._misfits_after is None:
            return True
        _, used_up = self._ledger_after(unit, unit.pairs())
        room = FreeCapacity(site=self._site(host, used_up), held=Usage().after(()), now=unit.now)
        self._staged_misfits_after = await free_misfits(
            unit, self._store, self._ground, room=room, after=self._misfits_after
        )
        return self._staged_misfits_after is None

    async def fill(self, unit: UnitOfWork, host: Resources, *, skip: Skip, grown: bool) -> bool:
        """Place the jobs that fit; False if another pass must follow.

        That is so if the pass stopped at a limit of the unit of work, placed many jobs, or a head has failed meanwhile.

        `grown`: whether more resources may be free than at the last call.
        """
        changes = unit.pairs()
        if self._outlook.is_bare(self._ground.queues, changes):
            filled, promises = NOBODY_WAITS, NO_PROMISES
        else:
            uses, used_up = self._ledger_after(unit, changes)
            held = self._held.after([change.after for change in changes])
            site = self._site(host, used_up)
            if not self._promises_read:
                room = FreeCapacity(site=site, held=held, now=unit.now)
                ids = await blocked_heads(unit, self.ahead, self._ground, room=room, uses=uses, skip=skip)
                self._promises = await read_promises(unit, self.ahead, ids)
                self._promises_read = True
            room = FreeCapacity(site=site, held=held, now=unit.now, promised=self._promises)
            filled = await fill_room(
                unit,
                self.ahead,
                self._ground,
                room=room,
                uses=uses,
                skip=skip,
                nobody=self._outlook.nobody,
                searches=self._searches if unit.search else NO_SEARCH,
            )
            promises = room.promises
        self._outlook.stage(filled)
        self._staged_searches = self._followed(unit, filled, grown=grown)
        if filled.finished:
            marks = await self._heads.mark(unit, self.ahead, filled.heads, promises)
            self._staged_promises = promises
            return not filled.worthwhile and len(marks) == len(filled.heads)
        return False

    @property
    def shares_wait(self) -> bool:
        """Whether a fair-share queue, whose order changes with time, has a blocked head, as last saved."""
        queues = (self._ground.queues.get(place) for place in self._heads.marks if isinstance(place, str))
        return any(it is not None and it.policy is not None for it in queues)

    @property
    def searching(self) -> bool:
        """Whether jobs behind blocked heads are still to be searched."""
        return bool(self._staged_searches)

    def _followed(self, unit: UnitOfWork, filled: Filled, *, grown: bool) -> Searches:
        """The searches after the pass. A head that left its place frees its reservation."""
        heads = {it.job_id for it in filled.heads.values()}
        grown = grown or any(it.job_id not in heads for it in self._heads.marks.values())
        searched = filled.searches if unit.search else self._searches
        if not filled.finished:
            return searched
        return follow(searched, filled.cut, unit.changed_queues, grown=grown)

    def written_to(self, unit: UnitOfWork, changes: Changes) -> Changes:
        """The changes of the unit of work with the usage of shares and of consumable resources added."""
        return self._ledger.stage(unit.pairs(), unit.now).written_to(changes)

    @property
    def staged(self) -> tuple[StagedState, ...]:
        """The staged states in the order in which they are updated: time limits read the blocked heads."""
        queues = (self._ledger, self.tally, self._positions, self.ahead, self._outlook)
        return self, *queues, self._heads, self.limits

    def on_committed(self, committed: Committed) -> None:
        self._held.update(committed.jobs)
        self._promises = self._staged_promises
        self._misfits_after = self._staged_misfits_after
        self._searches = self._staged_searches

    def admit(self, unit: UnitOfWork, spec: JobSpec) -> None:
        """Check a new job against the limits of its queue and account. Raises Invalid.

        AWS: a queue has at most 500 active shares. An account may have a limit on queued jobs.
        """
        if spec.share_identifier is not None:
            key = ShareKey(spec.queue, spec.share_identifier)
            if not may_open(self._ledger.shares, key, unit.opened()):
                raise Invalid(f"JobQueue {spec.queue} has {MOST_SHARES} active share identifiers, which is the most.")
        self.tally.admit(unit, spec)

    def in_use(self, name: ConsumableName, active: Iterable[Job]) -> int:
        """The units of a consumable resource that active jobs hold."""
        return sum(need.quantity for job in active for need in job.spec.needs if need.resource == name)

    def used_up(self, name: ConsumableName) -> int:
        """The units that jobs took from a consumable resource while it was NON_REPLENISHABLE, as last saved."""
        return self._ledger.used_up.get(name, 0)

    def usage(self) -> UsageSnapshot:
        """The resources that active jobs hold, as last saved."""
        return self._held.after(())

    def blocked_heads(self) -> tuple[tuple[QueueName, str, datetime], ...]:
        """For each blocked head of a queue, or of an account in a queue: the queue, the reason's code, since when."""
        heads = self._heads.marks.items()
        return tuple(
            (slot if isinstance(slot, str) else slot[0], code(head.reason), head.since) for slot, head in heads
        )

    async def snapshot(self, queue: QueueName, active: Iterable[Job], skip: Skip) -> Snapshot:
        """The next jobs of a queue in their order, and the resources that its running jobs hold."""
        unit = UnitOfWork(now=self._clock.now(), active={})
        held = sum(it.spec.resources.millicpus for it in active if it.spec.queue == queue)
        asked = self._ground.queues[queue]
        policy = None if asked.policy is None else self._ground.policies.get(asked.policy)
        return await snapshot(
            unit,
            self._store,
            asked,
            policy=policy,
            uses=self._ledger.shares,
            held=held,
            since=self._positions.since,
            skip=skip,
        )

    def _ledger_after(
        self, unit: UnitOfWork, changes: Sequence[Change]
    ) -> tuple[Mapping[ShareKey, ShareUse], Mapping[ConsumableName, int]]:
        """The usage of shares and of consumable resources as the unit of work leaves it so far."""
        return self._ledger.with_page(self._ledger.page(changes, unit.now))

    def _site(self, host: Resources, used_up: Mapping[ConsumableName, int]) -> Cluster:
        """A copy of the present catalog: it may change while the store is read."""
        stocks = Stocks(dict(self._ground.consumables), used_up)
        quotas = self._accounts.quotas()
        return Cluster(environments=dict(self._ground.environments), host=host, stocks=stocks, quotas=quotas)
