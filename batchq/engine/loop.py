"""The event loop of the engine: handles waiting messages in units of work, one after another.

A unit of work takes all waiting messages, applies each, saves every change in one transaction, and then carries out the
effects. Units never overlap, so two decisions about a job cannot conflict. A request is answered after the commit that
saved it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from time import perf_counter

from batchq.domain import effects as do
from batchq.domain.groups import GroupChanges
from batchq.domain.ids import QueueName
from batchq.domain.intervals import IntervalSet
from batchq.domain.job import Job
from batchq.domain.lifecycle.status import with_history
from batchq.domain.machines import Machine
from batchq.engine.account_limits import AccountPolicies
from batchq.engine.budgets import Budgets
from batchq.engine.bulk_stops import BulkStops, CandidateReader, must_read_again
from batchq.engine.containers.watcher import RuntimeCheck
from batchq.engine.groups import Groups
from batchq.engine.handlers import MessageHandler
from batchq.engine.history_entries import log_transitions
from batchq.engine.history_feed import HistoryFeed
from batchq.engine.mailbox import (
    BulkStopRequest,
    ContinueWork,
    FindSubmission,
    JobEvent,
    Mailbox,
    Message,
    SearchQueues,
    Submit,
    SurveyCompleted,
    TimerFired,
    UpdateTags,
    resolve_with_error,
)
from batchq.engine.propagation import ArrayCoordinator, propagate
from batchq.engine.scheduling.queue_reader import Exclusions
from batchq.engine.scheduling.scheduler import Scheduler
from batchq.engine.staged_changes import BudgetChanges, BulkStopChanges, PendingDependents, pending_dependents
from batchq.engine.state import EngineState
from batchq.engine.supervisor import Supervisor
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.errors import BatchqError, Conflict, IllegalTransition, StaleRead, StoreFailed, Unavailable
from batchq.ports.catalog import CatalogView, Snapshot
from batchq.ports.clock import Clock
from batchq.ports.jobs import Changes, JobStore
from batchq.ports.observer import Observer

log = logging.getLogger(__name__)

MAX_MESSAGES = 1000  # in one unit of work
RETRY_DELAY = 1.0  # seconds before the messages of a failed unit of work are posted again
SHARES_INTERVAL = 60.0  # seconds between placement passes while a fair-share queue has a blocked head
SEARCH_PAUSE = 0.1  # seconds between searches behind blocked heads
NO_BULK_STOPS, NO_BUDGETS, NO_GROUPS = BulkStopChanges(), BudgetChanges(), GroupChanges()
FAILURE_SHOWN_FOR = timedelta(minutes=1)  # how long `store_failure` reports a failed commit


class EngineLoop:
    """Owns the state in memory and runs the units of work."""

    def __init__(
        self,
        *,
        mailbox: Mailbox,
        store: JobStore,
        catalog: CatalogView,
        accounts: AccountPolicies,
        clock: Clock,
        execute: Callable[[do.Effect, Job | None], None],
        on_saved: Callable[[Job], None],
        tasks: Supervisor,
        engine_check: RuntimeCheck,
        observer: Observer,
    ) -> None:
        self._store, self._catalog, self._clock = store, catalog, clock
        #: Called for each effect of a saved unit of work, with the job as saved, or None for an unknown job.
        self._execute = execute
        #: Called for each job that is loaded or saved.
        self._on_saved = on_saved
        self._tasks, self._mailbox, self._observer = tasks, mailbox, observer
        self.state, self.history_feed = EngineState(catalog, engine_check), HistoryFeed(store)
        self.arrays, self.budgets = ArrayCoordinator(), Budgets(store, accounts, self.state.sightings)
        request = partial(mailbox.post, ContinueWork())
        self.scheduler = Scheduler(store=store, catalog=catalog, accounts=accounts, clock=clock, request_unit=request)
        self._bulk_stops, self.candidate_reader = BulkStops(store), CandidateReader(store)
        begin = self._begin_bulk_stop
        self._groups = Groups(store, begin)
        self._handler = MessageHandler(
            self.state, catalog, self.budgets, self._groups, admit=self.scheduler.admit, begin_bulk_stop=begin
        )
        #: Held while a unit of work runs.
        self.unit_lock = asyncio.Lock()
        self._placement_due = self._placement_missed = True
        self._search_due = self._search_scheduled = False
        #: Whether the state in memory may differ from the stored state and must be loaded again.
        self._must_load = True
        self._pending_dependents: tuple[PendingDependents, ...] = ()
        #: Whether the server is shutting down: no job is placed.
        self.closing = False
        self._store_failed: tuple[str, datetime] | None = None

    async def load(self) -> None:
        """Load the state from the store.

        Called before the first unit of work, and whenever memory may differ from the store.
        """
        await self.history_feed.load()
        await self.state.load(self._store, self._clock.now())
        await self.arrays.load(self._store)
        await self._bulk_stops.load()
        await self.budgets.load(self._clock.now())
        await self._groups.load(self._clock.now())
        self._pending_dependents = tuple(pending_dependents(await self._store.ended_dependencies()))
        await self.scheduler.load(self.state.active.values())
        if self._has_unfinished_work:
            self._mailbox.post(ContinueWork())
        for job in self.state.active.values():
            self._on_saved(job)
        self._must_load = False

    async def snapshot(self, queue: QueueName) -> Snapshot:
        """The next jobs of a queue in their order, and the resources that its running jobs hold."""
        skip = self._skip(UnitOfWork(now=self._clock.now(), active=self.state.active))
        return await self.scheduler.snapshot(queue, self.state.active.values(), skip)

    async def run(self) -> None:
        while True:
            if self._must_load:
                await self.load()
            messages = await self._mailbox.take(MAX_MESSAGES)
            async with self.unit_lock:
                await self.process(messages)

    @property
    def _has_unfinished_work(self) -> bool:
        """Whether the next unit of work has work to do even without a message."""
        return bool(
            self.arrays.unfinished or self._bulk_stops.in_progress or self._groups.due or self._pending_dependents
        )

    @property
    def store_failure(self) -> str | None:
        """The error of the last commit if it failed within the last minute, else None.

        Failed messages are retried, so a persistent failure renews this error before the minute is over.
        """
        if self._store_failed is None or self._clock.now() - self._store_failed[1] > FAILURE_SHOWN_FOR:
            return None
        return self._store_failed[0]

    def stop_pending(self) -> tuple[IntervalSet, IntervalSet]:
        """The sequences of the children, and of other jobs, that a stop order is about to reach, as last saved."""
        skip = self._skip(UnitOfWork(now=self._clock.now(), active=self.state.active))
        return skip.children, skip.bulk_stop_targets

    async def process(self, messages: Sequence[Message]) -> None:
        """Run one unit of work.

        If the store fails, nothing has changed: requests are refused with the error, other messages are posted again
        later.
        """
        unit, began = UnitOfWork(now=self._clock.now(), active=self.state.active), perf_counter()
        try:
            first_number = await self._decide_and_save(unit, messages)
        except StoreFailed as failure:
            self._must_load = isinstance(failure, Conflict)
            self._fail_messages(messages, failure)
        except Exception:
            self._must_load = True  # the commit may or may not have been saved
            self._fail_messages(messages, Unavailable("the scheduler failed; see the server's log"))
            raise
        else:
            self._must_load = True  # stays set if one of the next two calls fails
            self._resolve_answers(unit, messages)
            self._on_committed(unit, first_number)
            self._must_load = False
        finally:
            self._observer.unit_of_work(messages=len(messages), seconds=perf_counter() - began)

    async def _decide_and_save(self, unit: UnitOfWork, messages: Sequence[Message]) -> int | None:
        """Handle the messages, and commit. Returns the number of the first history entry; None without one."""
        has_dependencies = self.scheduler.queued_jobs.pending_dependencies > 0
        follow_up = partial(propagate, unit, self._store, has_dependencies=has_dependencies)
        if has_unfinished_work := self._has_unfinished_work:
            unit.load(self.arrays.unfinished.values())  # their orders are applied to children before other events
            unit.dependents.add(self._pending_dependents)
        if self._bulk_stops.targets_outdated:
            await self._bulk_stops.read_targets()
        await self._handler.prepare(unit, messages, self._store, self.scheduler.queue_cache)
        self._handle_messages(unit, messages)
        held = self.state.safe_mode.active
        await self.scheduler.cancel_overdue(unit, catalog_changed=self.state.catalog_changed, safe_mode=held)
        await follow_up()
        if has_unfinished_work:
            await self.arrays.spawn_and_order(unit, self._store)
            await self._bulk_stops.stop_targets(unit)
            await follow_up()
        if (unit.groups != NO_GROUPS or self._groups.due) and await self._groups.release(unit):
            await follow_up()
        if (machines := self._machines_for_placement(unit)) is not None:
            await self._place(unit, machines)
            await follow_up()
        if held:
            self.state.safe_mode.drop_starts(unit)
        if self.state.engine_check.unsaved_id is not None:
            unit.container_engine.accept_engine(self.state.engine_check.unsaved_id)
        self.budgets.stage(unit)
        if unit.groups.has_members:
            await self._groups.stage(unit)
        return await self._save(unit)

    async def _save(self, unit: UnitOfWork) -> int | None:
        """Commit the changes, if there are any. Returns the number of the first history entry; None without one."""
        changes = unit.changes(forget_before=self.state.idempotency.expired_before(unit.now))
        if unit.changes_usage:
            changes = self.scheduler.share_usage.added_to(changes, unit)
        if changes == Changes(audit_records=changes.audit_records):  # audit records alone are not committed
            return None
        began = perf_counter()
        try:
            first_number = await self._store.commit(changes)
        finally:  # a commit that was reported as failed may have been saved
            if self.candidate_reader.reads:
                self.candidate_reader.record_changes(changes)
            self._observer.commit(perf_counter() - began)
        self._store_failed = None
        return first_number

    def _handle_messages(self, unit: UnitOfWork, messages: Sequence[Message]) -> None:
        for message in messages:
            unit.audit.set_caller(message.caller)
            try:
                self._handler.handle(unit, message)
            except BatchqError as refusal:
                unit.messages.refuse(message, refusal)
                if getattr(message, "answer", None) is None:
                    log.warning("message rejected: %s", _with_history(refusal, unit, message))
            except Exception as bug:  # the one blind except: a message that fails must not stop the others
                log.exception("message failed: %s", _with_history(message, unit, message))
                failure = Unavailable(f"{type(bug).__name__} in the scheduler; see the server's log")
                unit.messages.refuse(message, failure)
        unit.audit.set_caller(None)  # the server itself makes all further changes

    def _machines_for_placement(self, unit: UnitOfWork) -> Sequence[Machine] | None:
        """The machines if a placement pass is due and allowed, else None: during shutdown and in safe mode none is.

        A pass that is due while the container engine does not answer stays due.
        """
        self._placement_due = self._placement_due or self.state.catalog_changed or self.scheduler.needs_pass(unit)
        self._search_due = self._search_due or unit.placement.search_due
        if not (self._placement_due or self._search_due) or self.closing or self.state.safe_mode.active:
            return None
        return self.state.machines

    async def _place(self, unit: UnitOfWork, machines: Sequence[Machine]) -> None:
        all_rechecked = await self.scheduler.recheck_unschedulable(
            unit, machines, catalog_changed=self.state.catalog_changed
        )
        if self._search_due:
            unit.placement.request_search()
        all_placed = await self.scheduler.place(
            unit,
            machines,
            skip=self._skip(unit),
            capacity_freed=self._placement_missed or self.state.catalog_changed or unit.placement.is_due,
        )
        if not all_rechecked or not all_placed:
            unit.placement.record_limit_reached()
        if self.scheduler.searching and not self._search_scheduled:
            self._search_scheduled = True
            self._tasks.spawn("search queues", self._search_later())

    async def revisit_shares(self) -> None:
        """Post a placement pass at intervals: the order of shares changes as their recorded usage decays."""
        while True:
            await self._clock.sleep(SHARES_INTERVAL)
            if self.scheduler.has_blocked_shares:
                self._mailbox.post(ContinueWork())

    async def _search_later(self) -> None:
        try:
            await self._clock.sleep(SEARCH_PAUSE)
        finally:
            self._search_scheduled = False
        self._mailbox.post(SearchQueues())

    def _skip(self, unit: UnitOfWork) -> Exclusions:
        """The jobs that must not be placed: a stop order is about to reach them, or their budget is used up."""
        return Exclusions(
            children=self.arrays.children_under_order(unit),
            bulk_stop_targets=self._bulk_stops.targets,
            exhausted=self.budgets.exhausted(unit.now, unit.budgets.budgets),
        )

    def _begin_bulk_stop(self, unit: UnitOfWork, message: BulkStopRequest) -> None:
        """Begin a bulk stop.

        If it selects children, it is deferred until every array submitted before the request has spawned its children.
        Raises StaleRead if the candidates must be read again.
        """
        if message.selection.separates_children and self.arrays.has_spawning_array(message.as_of):
            unit.messages.defer(message)
        elif must_read_again(message):
            raise StaleRead("too many jobs have changed since the candidates were read")
        else:
            self._bulk_stops.begin(unit, message)

    def _on_committed(self, unit: UnitOfWork, first_number: int | None) -> None:
        """Update the state in memory after the commit, log the transitions, then carry out the effects."""
        if self.state.machines is not None and not self.closing and not self.state.safe_mode.active:
            self._placement_due = self._search_due = self._placement_missed = self.state.catalog_changed = False
        elif self._placement_due:
            self._placement_missed = True
        committed = unit.committed(first_number)
        self._apply(unit, committed)
        for job in committed.jobs:
            self._on_saved(job)
        self._pending_dependents = tuple(unit.dependents.entries)
        for message in unit.messages.deferred:
            self._mailbox.post(message)
        has_left_safe_mode = unit.container_engine.restoration is not None
        if self._has_unfinished_work or unit.placement.is_incomplete or has_left_safe_mode:
            self._mailbox.post(ContinueWork())
        self._observer.jobs_changed(committed.changes, committed.transitions, unit.now)
        log_transitions(committed.transitions)
        for effect, subject in unit.ordered_effects:
            self._execute(effect, subject)

    def _apply(self, unit: UnitOfWork, committed: Committed) -> None:
        """Apply the saved changes to the state in memory, of which most units of work change little."""
        self.state.on_committed(committed)
        self.scheduler.on_committed(committed)
        self.arrays.on_committed(committed)
        if unit.bulk_stops != NO_BULK_STOPS:
            self._bulk_stops.on_committed(committed)
        if unit.budgets != NO_BUDGETS:
            self.budgets.on_committed(committed)
        if unit.groups != NO_GROUPS or self._groups.due:
            self._groups.on_committed(committed)
        if committed.history:
            self.history_feed.on_committed(committed)

    def _resolve_answers(self, unit: UnitOfWork, messages: Sequence[Message]) -> None:
        """Answer the requests. A refusal waits for the commit too: it may name a state that this unit saved."""
        deferred = set(map(id, unit.messages.deferred))
        for message in messages:
            if id(message) in deferred:
                continue
            refusal, answer = unit.messages.refusals.get(id(message)), getattr(message, "answer", None)
            if refusal is not None:
                resolve_with_error(message, refusal)
            elif isinstance(message, FindSubmission) and not message.answer.done():
                message.answer.set_result(self._handler.submission(unit, message.key))
            elif isinstance(message, Submit) and not message.answer.done():
                submitted = unit.get(self._handler.submitted_as(unit, message))
                assert submitted is not None, f"{message.job_id} was saved and is not known"
                message.answer.set_result(submitted)
            elif answer is not None and not answer.done():
                answer.set_result(None)

    def _fail_messages(self, messages: Sequence[Message], failure: BatchqError) -> None:
        """Refuse the requests of a failed unit of work and post its other messages again later.

        Surveys are dropped: the next survey replaces them.
        """
        if self.store_failure is None:
            log.warning("unit of work not saved: %s", failure)
        self._store_failed = str(failure), self._clock.now()
        again = [
            message
            for message in messages
            if not resolve_with_error(message, failure) and not isinstance(message, SurveyCompleted)
        ]
        if again:
            self._tasks.spawn("post messages again", self._post_later(again))

    async def _post_later(self, messages: Sequence[Message]) -> None:
        await self._clock.sleep(RETRY_DELAY)
        for message in messages:
            self._mailbox.post(message)


def _with_history(what: object, unit: UnitOfWork, message: Message) -> str:
    """`what` as text, with the recent history of the message's job unless the error contains it already."""
    job = unit.get(message.job_id) if isinstance(message, JobEvent | UpdateTags | TimerFired) else None
    return str(what) if job is None or isinstance(what, IllegalTransition) else f"{what}; job {with_history(job)}"
