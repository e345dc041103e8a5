"""Checks that lists, searches, counts and summaries of arrays show what follows from the jobs, before each commit."""

import sqlite3
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from batchq.domain.enums import Status
from batchq.domain.ids import JobId, child_id
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.arrays import is_parent, size, unspawned_child
from batchq.domain.lifecycle.views import PendingArrayOrders, has_pending_order
from batchq.engine.engine import Engine
from batchq.ports.job_search import PageQuery
from batchq.services.job_reads import PendingOrdersView
from batchq.store.sqlite_store import SqliteStore
from tests.simulation.run_log import Checks, RunLog
from tests.support.inline import InlineDatabase

EVERY = 5  # commits
MAX_JOBS = 10_000  # on a page
T = TypeVar("T")


class PageChecks(Checks):
    """The pages are read from the database without faults, with the engine's pending orders."""

    def __init__(
        self, engine: Engine, connection: sqlite3.Connection, *, jobs: Mapping[JobId, Job], run_log: RunLog
    ) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._store = SqliteStore(InlineDatabase(connection))
        self._view = PendingOrdersView(self._store, engine.pending_array_orders, lambda: None)
        self._commits = 0

    def check(self) -> None:
        self._commits += 1
        if self._commits % EVERY:
            return
        stored = _result(self._store.jobs(list(self.jobs)))
        orders = PendingArrayOrders({job.id: job for job in stored.values() if has_pending_order(job)})
        shown = {job_id: orders.project(job) for job_id, job in stored.items()}
        listed = [job for job in shown.values() if job.child is None]
        for status in Status:
            expected = {job.id for job in listed if job.status is status}
            self._check_pages(JobSelection(statuses=frozenset({status})), expected)
        held = {job.id for job in listed if job.held}
        self._check_pages(JobSelection(held=True), held)
        for array in filter(is_parent, listed):
            self._check_array(array, [job for job in shown.values() if job.child and job.child.parent == array.id])

    def _check_pages(self, selection: JobSelection, expected: set[JobId]) -> None:
        query = PageQuery(selection=selection, limit=MAX_JOBS)
        for read in (self._view.list, self._view.search):
            page = _result(read(query))
            self._check_equal(f"{read.__name__} of {selection}", {job.id for job in page.jobs}, expected)
        (count,) = _result(self._view.counts([query]))
        self._check_equal(f"the count of {selection}", count.jobs, len(expected))

    def _check_array(self, array: Job, children: list[Job]) -> None:
        """The summary of an array is the sum of its children as they are listed."""
        true = Counter(child.status for child in children)
        if array.array_state is not None:
            self._check_equal(f"the summary of {array.id}", dict(array.array_state.counts), dict(true))
        for status in true:
            expected = {child.id for child in children if child.status is status}
            self._check_pages(JobSelection(parent=array.id, statuses=frozenset({status})), expected)
        runs = Counter[Status]()
        for run in _result(self._view.child_runs(self.jobs[array.id])):
            runs[run.status] += run.end - run.first
        is_stopped = array.stop_orders and array.array_state is not None
        for index in range(size(array)):
            unspawned = unspawned_child(array, child_id(array.id, index))
            if unspawned is not None:
                true[Status.FAILED if is_stopped else unspawned.status] += 1
        self._check_equal(f"the children of {array.id}", dict(runs), dict(+true))

    def _check_equal(self, what: str, shown: object, expected: object) -> None:
        if shown != expected:
            self.run_log.fail("pages show what is stored", f"{what}: {shown}, and not {expected}")


def _result(read: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    try:
        read.send(None)
    except StopIteration as over:
        return over.value
    raise AssertionError("the read waits")
