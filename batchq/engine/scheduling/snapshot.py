"""The snapshot of a queue: its jobs in the order in which they would start if capacity became free for each in turn.

Unschedulable jobs are not included. The time when a job got its position is held in memory only, so it is never earlier
than the start of the server.
"""

from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime

from batchq.domain.catalog import JobQueue, SchedulingPolicy
from batchq.domain.ids import QueueName
from batchq.domain.scheduling.capacity import Candidate, is_queued_for_placement
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse, active_shares
from batchq.domain.scheduling.quotas import NO_QUOTAS, ClosedAccounts
from batchq.engine.scheduling.queue_reader import Skip, WaitingJobs
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.ports.catalog import Snapshot
from batchq.ports.jobs import JobStore

MAX_STEPS = 128  # steps of a queue; snapshots show fewer positions
MAX_JOBS = 100  # in a snapshot
MAX_SHARES = 20  # in a snapshot


async def take_snapshot(
    unit: UnitOfWork,
    store: JobStore,
    queue: JobQueue,
    *,
    policy: SchedulingPolicy | None,
    uses: Mapping[ShareKey, ShareUse],
    held_millicpus: int,
    since: Callable[[QueueName, int], datetime],
    skip: Skip,
) -> Snapshot:
    """The snapshot of a queue at the time of an empty unit of work.

    `held_millicpus`: what the active jobs of the queue hold, in thousandths of a vCPU. `since`: returns since when a
    job of the given order has had its position.
    """
    waiting = WaitingJobs(unit, store, skip, ClosedAccounts(NO_QUOTAS))
    line = waiting.in_order(queue.name) if policy is None else waiting.in_share_order(queue.name, policy, uses)
    first = await _first(line)
    created = {it.id: it.created_at for it in (await store.jobs([it.job_id for it in first])).values()}
    shares = sorted(
        ((key.share, use.millicpus) for key, use in uses.items() if key.queue == queue.name), key=_largest_first
    )
    return Snapshot(
        jobs=tuple((it.job_id, max(created.get(it.job_id, unit.now), since(queue.name, it.order))) for it in first),
        updated_at=unit.now,
        millicpus=held_millicpus,
        shares=tuple(it for it in shares if it[1] > 0)[:MAX_SHARES],
        active_shares=active_shares(uses, queue.name),
    )


async def _first(line: AsyncIterator[Candidate]) -> list[Candidate]:
    first: list[Candidate] = []
    while len(first) < MAX_JOBS and (it := await anext(line, None)) is not None:
        first.append(it)
    return first


def _largest_first(share: tuple[str, int]) -> tuple[int, str]:
    return -share[1], share[0]


class QueuePositions:
    """Since when each waiting job has had its position: when a job before it last began or ceased to wait.

    In a fair-share queue, a job that ceases to wait may have stood before all others.
    """

    def __init__(self, since: datetime) -> None:
        #: The server's start.
        self._since = since
        #: By queue, ascending orders and the time at which a job of that order was the last to enter or leave.
        self._steps: dict[QueueName, tuple[list[int], list[datetime]]] = {}

    def on_committed(self, committed: Committed) -> None:
        first: dict[QueueName, int] = {}
        for before, after in committed.changes:
            if (
                before is not None
                and before.status is after.status
                and before.hold is after.hold
                and before.unschedulable is after.unschedulable
            ):
                continue
            waited, waits = before is not None and is_queued_for_placement(before), is_queued_for_placement(after)
            if waited != waits:
                order = -1 if waited and after.spec.share_identifier is not None else after.order
                first[after.spec.queue] = min(order, first.get(after.spec.queue, order))
        for queue, order in first.items():
            self._add_step(queue, order, committed.unit.now)

    def since(self, queue: QueueName, order: int) -> datetime:
        """Since when the job with this order has had its position."""
        orders, times = self._steps.get(queue, ([], []))
        step = bisect_right(orders, order) - 1
        return times[step] if step >= 0 else self._since

    def _add_step(self, queue: QueueName, order: int, now: datetime) -> None:
        """Record that every job behind `order` changed position at `now`."""
        orders, times = self._steps.setdefault(queue, ([], []))
        kept = bisect_left(orders, order)
        if kept < MAX_STEPS:
            del orders[kept:], times[kept:]
            orders.append(order)
            times.append(now)
