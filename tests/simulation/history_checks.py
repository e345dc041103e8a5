"""Checks at each commit: histories, audit records, and stop orders stay true and in order."""

from collections.abc import Mapping

from batchq.domain.access.accounts import UserName
from batchq.domain.enums import StopKind, StopProgress
from batchq.domain.ids import JobId, child_id
from batchq.domain.job import Job
from batchq.domain.stop_values import StopOrder
from batchq.engine.history_feed import HistoryFeed
from batchq.ports.history import FeedFilter, HistoryEntry
from batchq.ports.jobs import Changes
from tests.simulation.run_log import Checks, RunLog

PAGE = 7  # entries: small, so that pages end amid a commit


class HistoryChecks:
    """Records the entries of every commit; entry `n` has the number `n + 1`."""

    def __init__(self, run_log: RunLog) -> None:
        self.committed: list[HistoryEntry] = []
        self.run_log = run_log

    def record(self, changes: Changes) -> None:
        """Called for each commit before any other task runs, also if the server dies before the reply."""
        self.committed += changes.history

    def check_numbers(self, first_number: int | None, changes: Changes) -> None:
        """Check the reply of a commit. No other commit can have come between, because there is one writer."""
        expected = len(self.committed) - len(changes.history) + 1 if changes.history else None
        if first_number != expected:
            self.run_log.fail("I13 a commit returns its first number", f"{first_number} instead of {expected}")

    def check_feed(self, feed: HistoryFeed) -> None:
        """At the end of a server, also by a crash: the feed in memory equals the commits, without a gap.

        The last commit may lack, because the server may have died before it got the reply.
        """
        ring = [(entry.number, entry.entry) for entry in feed._ring]
        first = feed.last + 1 - len(ring)
        if ring != [(number, self.committed[number - 1]) for number in range(first, feed.last + 1)]:
            self.run_log.fail("I13 the feed in memory is what was committed", f"{first} to {feed.last}")

    async def check_store(self, store, deleted) -> None:
        """At the end: the stored feed is what was committed, except for deleted jobs."""
        stored, after, gaps = [], 0, []
        while (page := await store.feed(after, FeedFilter(), limit=PAGE, scan=2 * PAGE)).next > after:
            stored += page.entries
            gaps.append(page.gap)
            after = page.next
        expected = [(number, job) for number, job in enumerate(self.committed, 1) if job.job_id not in deleted]
        if [(entry.number, entry.entry) for entry in stored] != expected:
            self.run_log.fail("I13 the feed is what was committed", f"{len(stored)} entries, not {len(expected)}")
        if after != len(self.committed):
            self.run_log.fail("I13 the feed ends with the last commit", f"{after} instead of {len(self.committed)}")
        if any(gaps) != bool(deleted):
            self.run_log.fail("I13 a gap is reported where jobs were deleted", f"{gaps} {deleted}")


class OrderChecks(Checks):
    def written(self, changes: Changes) -> None:
        """Called before `jobs` has the changes."""
        ordered = {
            (job.job_id, job.stop.kind, job.stop.user, job.stop.reason)
            for job in changes.history
            if job.stop is not None and job.stop.progress is StopProgress.ORDERED and job.stop.node is None
        }
        for job in (*changes.inserted, *changes.updated):
            before = self.jobs.get(job.id)
            known = () if before is None else before.stop_orders
            self._stay_visible(job, known)
            for order in job.stop_orders[len(known) :]:
                if (job.id, order.kind, order.user, order.reason) not in ordered:
                    self.fail("I27 each stop order has an entry in the history", job, job.stop_orders)
            for order in job.stop_orders:
                first = min(order.ordered_at for order in job.stop_orders)  # an order takes over what a pause has begun
                times = [moment for moment in (first, order.signalled_at, order.killed_at) if moment is not None]
                if times != sorted(times) and not _kills_what_was_stopping(job, order):
                    self.fail("I28 an order is requested, then signalled, then kills", job, job.stop_orders)

    def _stay_visible(self, job: Job, known: tuple[StopOrder, ...]) -> None:
        if [_facts(order) for order in job.stop_orders[: len(known)]] != [_facts(other_job) for other_job in known]:
            self.fail("I26 an accepted stop order stays visible with its author", job, job.stop_orders)


def _kills_what_was_stopping(job: Job, order: StopOrder) -> bool:
    """Whether the kill of the order repeats that of a container that was being stopped before the order.

    Another container of the task, which starts later, then gets its signal after that kill.
    """
    containers = (part for attempt in job.all_attempts for part in attempt.containers)
    stopping = [
        container
        for container in containers
        if container.signalled_at is not None and container.signalled_at < order.ordered_at
    ]
    return any(stop_order.killed_at is not None for stop_order in stopping)


def _facts(order: StopOrder) -> tuple[object, ...]:
    return order.kind, order.user, order.reason, order.ordered_at


class AuditChecks(Checks):
    def __init__(self, *, jobs: Mapping[JobId, Job], run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._orders: dict[str, frozenset[tuple[StopKind, str, UserName]]] = {}

    def written(self, changes: Changes) -> None:
        """Each submission and stop order has an audit record, and no audit record names an unchanged job."""
        audited = [
            record.resource.removeprefix("job/")
            for record in changes.audit_records
            if record.resource.startswith("job/")
        ]
        changed = {job.id for job in (*changes.inserted, *changes.updated)}
        # An order to a child that is not spawned yet is saved in the row of its array.
        changed |= {
            child_id(job.id, index) for job in changes.updated for order in job.child_orders for index in order.indices
        }
        for job in (job for job in changes.inserted if job.child is None):
            if audited.count(job.id) < 1:
                self.fail("each submission has an audit record", job)
        for about in audited:
            if _whole(about) not in changed:
                self.fail("an audit record names a changed job", about)
        for job in changes.updated:
            self._ordered(job, audited)
        self._orders |= {job.id: _orders(job) for job in (*changes.inserted, *changes.updated)}

    def _ordered(self, job: Job, audited: list[str]) -> None:
        """Only orders of users have audit records; orders by a time limit or by the job's array have none."""
        before = self._orders.get(job.id, frozenset())
        by_user = any(user for _, _, user in _orders(job) - before)
        if by_user and job.child is None and job.id not in set(map(_whole, audited)):
            self.fail("each stop order of a user has an audit record", job)


def _whole(about: str) -> str:
    """The id of the job of a node `ID#INDEX` or a container `ID.NAME`."""
    return about.partition("#")[0].partition(".")[0]


def _orders(job: Job) -> frozenset[tuple[StopKind, str, UserName]]:
    return frozenset((order.kind, order.reason, order.user) for order in job.stop_orders)
