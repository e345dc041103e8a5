"""The event loop of the engine: handles waiting messages in units of work, one after another.

A unit of work takes all waiting messages, applies each, saves every change in one transaction, and then carries out the
effects. Units never overlap, so two decisions about a job cannot conflict. A request is answered after the commit that
saved it.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from time import perf_counter

from batchq.domain import effects as do
from batchq.domain.container import Resources
from batchq.domain.ids import QueueName, Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.array_view import Sealed
from batchq.domain.lifecycle.containers import tags_running
from batchq.domain.lifecycle.status import with_history
from batchq.engine import idempotency
from batchq.engine.account_limits import Accounts
from batchq.engine.arrays import ArrayCoordinator
from batchq.engine.bulk_stop_selection import Choosing, outdated
from batchq.engine.bulk_stops import BulkStops
from batchq.engine.dependents import settle
from batchq.engine.engine_identity import EngineCheck
from batchq.engine.handlers import MessageHandler
from batchq.engine.mailbox import Mailbox
from batchq.engine.messages import (
    BulkStopRequest,
    ContinueWork,
    JobEvent,
    Message,
    Resume,
    SearchQueues,
    Submit,
    SurveyCompleted,
    TimerFired,
    UpdateTags,
    caller_of,
)
from batchq.engine.scheduling.catalog_view import CatalogView
from batchq.engine.scheduling.queue_reader import Skip
from batchq.engine.scheduling.scheduler import Scheduler
from batchq.engine.state import EngineState
from batchq.engine.supervisor import Supervisor
from batchq.engine.transition_log import log_transitions
from batchq.engine.unit_of_work import PendingDependents, UnitOfWork, pending_dependents
from batchq.errors import (
    BatchqError,
    Conflict,
    IllegalTransition,
    StaleRead,
    StoreFailed,
    Unavailable,
)
from batchq.ports.catalog import Snapshot
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.ports.observer import Observer

log = logging.getLogger(__name__)

MAX_MESSAGES = 1000  # in one unit of work
AFTER_FAILURE = 1.0  # seconds before the messages of a failed unit of work are posted again
SHARES_INTERVAL = 60.0  # seconds between placement passes while a fair-share queue has a blocked head
SEARCH_PAUSE = 0.1  # seconds between searches behind blocked heads
OF_LATE = timedelta(minutes=1)  # how long `store_fails` reports a failed commit


class Loop:
    """Owns the state in memory and runs the units of work."""

    def __init__(
        self,
        *,
        inbox: Mailbox,
        store: JobStore,
        ground: CatalogView,
        accounts: Accounts,
        clock: Clock,
        act: Callable[[do.Effect, Job | None], None],
        wake: Callable[[Job], None],
        tasks: Supervisor,
        engine_check: EngineCheck,
        observer: Observer,
    ) -> None:
        self._store = store
        self._ground = ground
        self._clock = clock
        #: Called for each effect of a saved unit of work, with the job as saved, or None for an unknown job.
        self._act = act
        #: Called for each changed job, whose next timer may have changed.
        self._wake = wake
        self._tasks, self._inbox, self._observer = tasks, inbox, observer
        self._families = ArrayCoordinator()
        self.scheduler = Scheduler(
            store=store, ground=ground, accounts=accounts, clock=clock, ring=lambda: inbox.post(ContinueWork())
        )
        self._sweeps = BulkStops(store)
        self.choosing = Choosing(store)
        self.state = EngineState(ground, engine_check)
        self._reader = MessageHandler(self.state, ground, admit=self.scheduler.admit, sweep=self._sweep)
        #: Held while a unit of work runs.
        self.between = asyncio.Lock()
        self._place_due = self._missed = True
        self._search_due = self._search_waits = False
        #: Whether the state in memory may differ from the stored state and must be loaded again.
        self._behind = True
        self._pending_dependents: tuple[PendingDependents, ...] = ()
        #: Whether the server is shutting down: no job is placed.
        self.closing = False
        self._store_failed: tuple[str, datetime] | None = None

    async def load(self) -> None:
        """Load the state from the store.

        Called before the first unit of work, and whenever memory may differ from the store.
        """
        await self.state.load(self._store, self._clock.now())
        await self._families.load(self._store)
        await self._sweeps.load()
        self._pending_dependents = tuple(pending_dependents(await self._store.ended_dependencies()))
        await self.scheduler.load(self.state.active.values())
        if self._more_to_do:
            self._inbox.post(ContinueWork())
        for job in self.state.active.values():
            self._wake(job)
        self._behind = False

    async def snapshot(self, queue: QueueName) -> Snapshot:
        """The next jobs of a queue in their order, and the resources that its running jobs hold."""
        skip = self._skip(UnitOfWork(now=self._clock.now(), active=self.state.active))
        return await self.scheduler.snapshot(queue, self.state.active.values(), skip)

    async def run(self) -> None:
        while True:
            if self._behind:
                await self.load()
            messages = await self._inbox.take(MAX_MESSAGES)
            async with self.between:
                await self.process(messages)

    @property
    def sealed(self) -> Sealed:
        """The array orders, as last saved, that may not have been applied to all children."""
        return self._families.sealed

    @property
    def _more_to_do(self) -> bool:
        """Whether the next unit of work has work to do even without a message."""
        return self._families.busy or self._sweeps.busy or bool(self._pending_dependents)

    @property
    def _is_still(self) -> bool:
        """Whether no job may be placed: during shutdown and in safe mode."""
        return self.closing or self.state.safety.holds

    @property
    def store_fails(self) -> str | None:
        """The error of the last commit if it failed within the last minute, else None.

        Failed messages are retried, so a persistent failure renews this error before the minute is over.
        """
        if self._store_failed is None or self._clock.now() - self._store_failed[1] > OF_LATE:
            return None
        return self._store_failed[0]

    def running(self) -> frozenset[Tag]:
        """The containers that are known to run, as last saved."""
        return frozenset(tag for job in self.state.active.values() for tag in tags_running(job))

    async def process(self, messages: Sequence[Message]) -> None:
        """Run one unit of work.

        If the store fails, nothing has changed: requests are refused with the error, other messages are posted again
        later.
        """
        unit, began = UnitOfWork(now=self._clock.now(), active=self.state.active), perf_counter()
        try:
            await self._work(unit, messages)
        except StoreFailed as failure:
            self._behind = isinstance(failure, Conflict)
            self._put_off(messages, failure)
        except Exception:
            self._behind = True  # the commit may or may not have been saved
            self._put_off(messages, Unavailable("the scheduler failed; its log tells more"))
            raise
        else:
            self._behind = True  # stays set if one of the next two calls fails
            self._answer(unit, messages)
            self._on_committed(unit)
            self._behind = False
        finally:
            self._observer.unit_of_work(messages=len(messages), seconds=perf_counter() - began)

    async def _work(self, unit: UnitOfWork, messages: Sequence[Message]) -> None:
        self._families.join(unit)
        unit.unresolved.extend(self._pending_dependents)
        await self._sweeps.prepare()
        await self._reader.prepare(unit, messages, self._store, self.scheduler.ahead)
        self._read(unit, messages)
        held = self.state.safety.holds
        await self.scheduler.cancel_overdue(unit, ground_changed=self.state.ground_changed, held=held)
        await self._settle(unit)
        if self._more_to_do:
            await self._families.work(unit, self._store)
            await self._sweeps.work(unit)
            await self._settle(unit)
        host = self._may_fill(unit)
        if host is not None:
            await self._place(unit, host)
            await self._settle(unit)
        self.state.safety.start_nothing(unit)
        changes = self.scheduler.written_to(unit, unit.changes(forget_before=unit.now - idempotency.KEPT))
        if not changes.empty:
            began = perf_counter()
            try:
                await self._store.commit(changes)
            finally:  # a commit that was reported as failed may have been saved
                self.choosing.changed(changes)
                self._observer.commit(perf_counter() - began)
            self._store_failed = None

    async def _settle(self, unit: UnitOfWork) -> None:
        if unit.unsettled:
            await settle(unit, self._store, waited_for=self.scheduler.tally.for_others > 0)

    def _read(self, unit: UnitOfWork, messages: Sequence[Message]) -> None:
        for message in messages:
            unit.caller = caller_of(message)
            try:
                self._reader.read(unit, message)
            except BatchqError as refusal:
                if not _refuse(message, refusal):
                    log.warning("message rejected: %s", _with_history(refusal, unit, message))
            except Exception as bug:  # the one blind except: a message that fails must not stop the others
                log.exception("message failed: %s", _with_history(message, unit, message))
                _refuse(message, Unavailable(f"{type(bug).__name__} in the scheduler; the log tells more"))
        unit.caller = None

    def _may_fill(self, unit: UnitOfWork) -> Resources | None:
        """The resources of the host if a placement pass is due and allowed, else None.

        A pass that is due while the container engine does not answer stays due.
        """
        self._place_due = self._place_due or self.state.ground_changed or self.scheduler.concerns(unit)
        self._search_due = self._search_due or unit.search
        return self.state.host if (self._place_due or self._search_due) and not self._is_still else None

    async def _place(self, unit: UnitOfWork, host: Resources) -> None:
        looked = await self.scheduler.free_misfits(unit, host, ground_changed=self.state.ground_changed)
        unit.search = self._search_due
        filled = await self.scheduler.fill(unit, host, skip=self._skip(unit), grown=self._has_grown(unit))
        unit.more = not looked or not filled
        if self.scheduler.searching and not self._search_waits:
            self._search_waits = True
            self._tasks.spawn("search queues", self._search_later())

    async def follow_shares(self) -> None:
        """Post a placement pass at intervals: the order of shares changes as their recorded usage decays."""
        while True:
            await self._clock.sleep(SHARES_INTERVAL)
            if self.scheduler.shares_wait:
                self._inbox.post(ContinueWork())

    def _has_grown(self, unit: UnitOfWork) -> bool:
        """Whether more resources may be free than at the last placement pass."""
        return self._missed or self.state.ground_changed or unit.place

    async def _search_later(self) -> None:
        try:
            await self._clock.sleep(SEARCH_PAUSE)
        finally:
            self._search_waits = False
        self._inbox.post(SearchQueues())

    def _skip(self, unit: UnitOfWork) -> Skip:
        """The jobs that must not be placed because a stop order is about to reach them."""
        return Skip(children=self._families.under_order(unit), meant=self._sweeps.meant)

    def _sweep(self, unit: UnitOfWork, message: BulkStopRequest) -> None:
        """Begin a bulk stop.

        If it selects children, it is deferred until every array submitted before the request has spawned its children.
        Raises StaleRead if the candidates must be read again.
        """
        if message.selection.looks_at_children and self._families.spawning(message.as_of):
            unit.deferred.append(message)
        elif outdated(message):
            raise StaleRead("too many jobs have changed since they were read")
        else:
            self._sweeps.begin(unit, message)

    def _on_committed(self, unit: UnitOfWork) -> None:
        """Update the state in memory after the commit, log the transitions, then carry out the effects."""
        if self.state.host is not None and not self._is_still:
            self._place_due = self._search_due = self._missed = self.state.ground_changed = False
        elif self._place_due:
            self._missed = True
        committed = unit.committed()
        for staged in (self.state, *self.scheduler.staged, self._families, self._sweeps):
            staged.on_committed(committed)
        for job in committed.jobs:
            self._wake(job)
        if unit.restoration is not None:
            self._inbox.post(ContinueWork())
        self._pending_dependents = tuple(unit.unresolved)
        for message in (*unit.deferred, *([ContinueWork()] if self._more_to_do or unit.more else [])):
            self._inbox.post(message)
        self._observer.jobs_changed(committed.changes, committed.transitions, unit.now)
        log_transitions(committed.transitions)
        for effect, subject in unit.effects:
            self._act(effect, subject)

    def _answer(self, unit: UnitOfWork, messages: Sequence[Message]) -> None:
        later = {id(message) for message in unit.deferred}
        for message in [it for it in messages if id(it) not in later] if later else messages:
            match message:
                case Submit(answer=answer) if not answer.done():
                    submitted = unit.get(self._reader.submitted_as(unit, message))
                    assert submitted is not None, f"{message.job_id} was saved and is not known"
                    answer.set_result(submitted)
                case (
                    JobEvent(answer=answer)
                    | UpdateTags(answer=answer)
                    | Resume(answer=answer)
                    | BulkStopRequest(answer=answer)
                ) if answer is not None and not answer.done():
                    answer.set_result(None)
                case _:
                    pass

    def _put_off(self, messages: Sequence[Message], failure: BatchqError) -> None:
        """Refuse the requests of a failed unit of work and post its other messages again later.

        Surveys are dropped: the next survey replaces them.
        """
        if self.store_fails is None:
            log.warning("a unit of work was not saved: %s", failure)
        self._store_failed = str(failure), self._clock.now()
        again = [it for it in messages if not _refuse(it, failure) and not isinstance(it, SurveyCompleted)]
        if again:
            self._tasks.spawn("read later", self._read_later(again))

    async def _read_later(self, messages: Sequence[Message]) -> None:
        await self._clock.sleep(AFTER_FAILURE)
        for message in messages:
            self._inbox.post(message)


def _with_history(what: object, unit: UnitOfWork, message: Message) -> str:
    """`what` as text, with the recent history of the message's job unless the error contains it already."""
    job = unit.get(message.job_id) if isinstance(message, JobEvent | UpdateTags | TimerFired) else None
    return str(what) if job is None or isinstance(what, IllegalTransition) else f"{what}; job {with_history(job)}"


def _refuse(message: Message, error: BatchqError) -> bool:
    """Resolve the message's answer with `error`; False if the message expects no answer."""
    answer = getattr(message, "answer", None)
    if answer is None:
        return False
    if not answer.done():
        answer.set_exception(error)
    return True
