"""Message handlers: how each kind of message changes a unit of work."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import assert_never

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.access.accounts import Caller
from batchq.domain.enums import State
from batchq.domain.ids import GroupId, JobId, QueueName, SubmissionKey, Tag, parent_of
from batchq.domain.job import Job, JobSpec
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.container_rules import container_with_key
from batchq.domain.lifecycle.deadlines import Alarm, bounded_deadlines, deadline_of, due_timers, tag_to_inspect
from batchq.domain.lifecycle.reconcile import Reconciled, reconcile
from batchq.domain.lifecycle.stopping import stop_state
from batchq.domain.scheduling.dependencies import dependencies_refusal, named
from batchq.engine.budgets import Budgets
from batchq.engine.groups import Groups
from batchq.engine.mailbox import (
    BudgetReached,
    BulkStopRequest,
    CatalogChanged,
    ContinueWork,
    FindSubmission,
    JobEvent,
    LeaveSafeMode,
    Message,
    MetricsRead,
    RuntimeLost,
    SearchQueues,
    SetBudget,
    Submit,
    SurveyCompleted,
    TimerFired,
    UpdateTags,
)
from batchq.engine.propagation import array_of_unspawned_child, awaits_hold, will_be_spawned
from batchq.engine.scheduling.queue_cache import QueueCache
from batchq.engine.state import EngineState
from batchq.engine.unit_of_work import UnitOfWork
from batchq.errors import Invalid, StateChanged
from batchq.ports.catalog import CatalogView
from batchq.ports.jobs import JobStore

JobMessage = JobEvent | UpdateTags | MetricsRead | TimerFired

log = logging.getLogger(__name__)


class MessageHandler:
    """Handles messages: changes the unit of work, and the parts of EngineState that surveys and requests change."""

    def __init__(
        self,
        state: EngineState,
        catalog: CatalogView,
        budgets: Budgets,
        groups: Groups,
        *,
        admit: Callable[[UnitOfWork, JobSpec], None],
        begin_bulk_stop: Callable[[UnitOfWork, BulkStopRequest], None],
    ) -> None:
        self._state = state
        self._catalog = catalog
        #: Counts a submitted job against queue and account limits; raises Invalid if it exceeds one.
        self._admit = admit
        self._begin_bulk_stop = begin_bulk_stop
        self._budgets, self._groups = budgets, groups
        #: The last logged reason for not accepting the container engine; None: not logged yet.
        self._logged_engine_error: str | None = None
        #: The stored submissions with the keys of the present messages.
        self._earlier_submissions: Mapping[SubmissionKey, JobId] = {}

    async def prepare(
        self, unit: UnitOfWork, messages: Sequence[Message], store: JobStore, queue_cache: QueueCache
    ) -> None:
        """Load the jobs, groups and earlier submissions that the messages refer to, with one read each."""
        needed, groups, possibly_repeated = set[JobId](), set[GroupId](), list[SubmissionKey]()
        self._state.idempotency.step(unit.now)
        for message in messages:
            needed.update(_jobs_needed(message))
            if isinstance(message, Submit | FindSubmission):
                if message.key is not None and self._state.idempotency.may_be_repeated(message.key, unit.now):
                    possibly_repeated.append(message.key)
                if isinstance(message, Submit) and message.spec.group is not None:
                    groups.add(message.spec.group.id)
            elif isinstance(message, TimerFired):
                queue_cache.invalidate(message.job_id)
        self._earlier_submissions = await store.submissions(possibly_repeated) if possibly_repeated else {}
        needed.update(self._earlier_submissions.values())
        if needed:
            await queue_cache.load_into(unit, needed)
        if groups:
            await self._groups.prepare(groups)

    def handle(self, unit: UnitOfWork, message: Message) -> None:
        """Apply one message to the unit of work.

        Raises Invalid, IllegalTransition or StaleRead for a request that is refused.
        """
        match message:
            case Submit() | FindSubmission():
                self._submit(unit, message)
            case JobEvent() | UpdateTags() | MetricsRead() | TimerFired():
                self._handle_job_message(unit, message)
            case SurveyCompleted():
                self._reconcile(unit, message)
            case LeaveSafeMode():
                self._leave_safe_mode(unit, message)
                unit.audit.record("data")
            case BulkStopRequest() | SetBudget() | BudgetReached():
                self._handle_limit(unit, message)
            case RuntimeLost():
                self._engine_is_away()
            case CatalogChanged():
                self._state.catalog_changed = True
            case ContinueWork():
                unit.placement.request_pass()
            case SearchQueues():
                unit.placement.request_search()
            case _:
                assert_never(message)

    def _handle_limit(self, unit: UnitOfWork, message: BulkStopRequest | SetBudget | BudgetReached) -> None:
        """Begin a bulk stop, set a budget, or begin the bulk stop of a budget whose limit is reached."""
        match message:
            case BulkStopRequest():
                self._begin_bulk_stop(unit, message)
            case SetBudget():
                self._budgets.set(unit, message)
                self._state.catalog_changed = True
            case BudgetReached():
                order = self._budgets.cross(unit, message, self._state.active)
                if order is not None:
                    self._begin_bulk_stop(unit, order)

    def submitted_as(self, unit: UnitOfWork, message: Submit) -> JobId:
        """The id of the job that this submission created, now or when the same call came before."""
        first = None if message.key is None else self.submission(unit, message.key)
        return message.job_id if first is None else first.id

    def submission(self, unit: UnitOfWork, key: SubmissionKey) -> Job | None:
        """The job that a submission with this key created; None: none did, or the job was deleted."""
        for submissions in (unit.submitted, self._earlier_submissions):
            job = unit.get(submissions[key]) if key in submissions else None
            if job is not None:
                return job
        return None

    def _submit(self, unit: UnitOfWork, message: Submit | FindSubmission) -> None:
        """Insert the new job. `prepare` has loaded the job of an earlier call, and no other is inserted then."""
        if isinstance(message, FindSubmission) or unit.has_loaded(self.submitted_as(unit, message)):
            return
        self._check_queue(message.spec.queue, message.caller)
        if message.spec.depends_on:
            _check_dependencies(unit, message.spec, message.caller)
        spec = message.spec
        self._budgets.admit(unit, spec)
        self._admit(unit, spec)
        if spec.group is not None:
            terms = self._groups.admit(unit, spec.group, is_rerun=spec.rerun_of is not None)
            spec = spec if spec.group == terms else replace(spec, group=terms)
        job = Job(
            id=message.job_id, sequence=self._state.next_sequence, spec=spec, created_at=unit.now, tags=message.tags
        )
        self._state.next_sequence += 1 + (message.spec.array_size or 0)
        unit.insert(job, message.key)

    def _check_queue(self, name: QueueName, caller: Caller) -> None:
        """Raise Invalid unless the caller can see the queue and it is ENABLED.

        The API has checked this already, but the queue may have been disabled or deleted while the message waited.
        """
        queue = self._catalog.queues.get(name)
        if queue is None or not caller.sees_queue(name):
            raise Invalid(f"JobQueue {name} not found.")
        if queue.state is not State.ENABLED:
            raise Invalid(f"JobQueue {name} is disabled and accepts no jobs.")

    def _reconcile(self, unit: UnitOfWork, message: SurveyCompleted) -> None:
        """Compare a survey with the active jobs and request what is missing."""
        tags = [container.tag for container in message.containers]
        self._state.engine_check.check_survey(message.engine.id, seen=tags, active=unit.active().values())
        if not self._state.engine_check.accepted:
            self._refuse_engine()
            return
        for job in unit.active().values():
            unit.update(job, bounded_deadlines(job, unit.now))
        self._state.sightings.record(unit, message.began_at, message.observed_containers)
        self._state.use.store(unit)
        self._state.engine_clock_offset = None if message.engine.time is None else message.engine.time - unit.now
        self._state.record_machines(message.machines)
        self._state.jobs_in_survey = frozenset(
            job_id for container in message.containers for job_id in _with_array(container.tag.job_id)
        )
        if self._state.survey_is_complete:
            self._state.orphans.record_survey(tags)
        if not self._state.safe_mode.active:
            self._reconcile_jobs(unit, message, tags)
        elif self._state.survey_is_complete:
            self._state.safe_mode.reconcile_survey(unit, message.containers, message.machines)

    def _reconcile_jobs(self, unit: UnitOfWork, message: SurveyCompleted, tags: Collection[Tag]) -> None:
        found = _reconciled(unit, message)
        for job_id, lost in found.events:
            self._state.use.step(unit, job_id, lost)
        if found.events:  # the loss of one container may change what its other containers need
            found = _reconciled(unit, message)
        spared = self._state.safe_mode.spared(unit, tags)
        for effect in found.effects:
            if not isinstance(effect, do.CleanUpContainer) or effect.tag not in spared:
                unit.add_effect(effect, unit.get(effect.tag.job_id))
        for job in unit.active().values():  # an inspection requested by a timeout may have failed
            for alarm in due_timers(job, unit.now):
                if (tag := tag_to_inspect(job, alarm)) is not None:
                    unit.add_effect(do.InspectContainer(tag=tag), job)
        if self._state.orphans.first_survey is not None:
            self._remove_orphans(unit, found.orphans, spared)

    def _remove_orphans(self, unit: UnitOfWork, found: Sequence[Tag], spared: Collection[Tag]) -> None:
        """Remove the containers without a job that an operator purged, and those whose quarantine is over."""
        purged = self._state.safe_mode.restoration.purged.intersection(found)
        orphans = [tag for tag in found if tag not in spared and tag not in purged]
        removable = (*sorted(purged, key=str), *self._state.orphans.expired(orphans, unit.now))
        for tag in removable:
            log.warning("container %s has no known job; it is removed", tag)
            unit.add_effect(do.CleanUpContainer(tag=tag))

    def _refuse_engine(self) -> None:
        if self._state.machines is not None or self._logged_engine_error != self._state.engine_check.error:
            log.warning("%s", self._state.engine_check.error)
        self._logged_engine_error = self._state.engine_check.error
        self._engine_is_away()

    def _engine_is_away(self) -> None:
        self._state.machines, self._state.sightings.engine_answers = None, False

    def _leave_safe_mode(self, unit: UnitOfWork, message: LeaveSafeMode) -> None:
        """Accept the container engine that answers, or else leave safe mode. Raises Invalid.

        A foreign engine must be accepted before safe mode ends: safe mode first lists the containers on that engine.
        """
        foreign = self._state.engine_check.foreign_id
        if foreign is None:
            if message.new_engine:
                raise Invalid("There is no new container engine to accept: run it without --new-engine.")
            self._state.safe_mode.leave(unit, purge=message.purge)
        elif not message.new_engine:
            raise Invalid(f"{self._state.engine_check.error}.")
        elif message.purge:
            raise Invalid("--purge and --new-engine cannot be combined: accept the container engine first.")
        else:
            unit.container_engine.accept_engine(foreign)

    def _handle_job_message(self, unit: UnitOfWork, message: JobMessage) -> None:
        """Apply a message about one job."""
        job = unit.get(message.job_id)
        if job is None:
            _handle_unspawned(unit, message)
            return
        is_hold = isinstance(message, JobEvent) and isinstance(message.event, on.HoldEvent)
        if is_hold and awaits_hold(unit, job):  # the request came after that for its array
            unit.messages.defer(message)
            return
        match message:
            case JobEvent(event=event):
                if message.expected is not None:  # the order of an array comes before the request for its child
                    _require_state(message, unit.apply_parent_order(message.job_id))
                if not (self._state.safe_mode.active and self._state.safe_mode.ignores(job, event)):
                    self._state.use.step(unit, job.id, event)
            case UpdateTags(change=change):
                unit.update(job, change(job))
            case MetricsRead():
                unit.update(job, _with_metrics(job, message))
            case TimerFired():
                self._apply_due_timers(unit, job, message)

    def _apply_due_timers(self, unit: UnitOfWork, job: Job, message: TimerFired) -> None:
        """Apply the timers that are due.

        A timeout that depends on a container is applied only after an inspection shows that the container runs: it may
        have ended in time without a report. A timer that waits for an inspection does not delay the other timers. While
        one waits for the container engine's clock, only surveys request further inspections.
        """
        waits_for_clock = False
        for alarm in due_timers(job, unit.now):
            tag = tag_to_inspect(job, alarm)
            is_inspected = tag is not None and tag == message.running_container
            if tag is None or (is_inspected and self._due_by_engine_clock(unit, job, message, alarm)):
                unit.step(job.id, alarm)
                return
            waits_for_clock = waits_for_clock or is_inspected
            if not waits_for_clock:
                unit.add_effect(do.InspectContainer(tag=tag), job)

    def _due_by_engine_clock(self, unit: UnitOfWork, job: Job, message: TimerFired, alarm: Alarm) -> bool:
        """Whether the deadline has also passed by the container engine's clock, for a container of an earlier boot.

        Decision 0035.
        """
        assert message.running_container is not None, f"{message} names no container"
        ours = container_with_key(job, message.running_container.container_key).started_at
        if message.container_started_at is None or ours is None or self._state.engine_clock_offset is None:
            return True
        if self._state.clock_since is None or ours >= self._state.clock_since:
            return True
        excess = (unit.now - ours) - (unit.now + self._state.engine_clock_offset - message.container_started_at)
        return unit.now - max(excess, timedelta()) >= deadline_of(job, alarm)


def _require_state(message: JobEvent, job: Job | None) -> None:
    """Raise StateChanged if the request expects another state than that of `job`; None: the job does not exist."""
    if message.expected is not None and (job is None or stop_state(job) != message.expected):
        raise StateChanged(f"The state of job {message.job_id} has changed: nothing is ordered.")


def _handle_unspawned(unit: UnitOfWork, message: JobMessage) -> None:
    """A message about an unknown job has no effect, unless the job is a child that its array has not spawned yet.

    While the array spawns its children, the message is deferred. Before, a stop order is stored with the array.
    """
    if will_be_spawned(unit, message.job_id):
        unit.messages.defer(message)
    elif isinstance(message, JobEvent):
        _store_child_order(unit, message)


def _store_child_order(unit: UnitOfWork, message: JobEvent) -> None:
    """Store a stop order for a child with its array, which has not spawned the child yet.

    The audit record names the child although it has no row.
    """
    array, child = array_of_unspawned_child(unit, message.job_id), parent_of(message.job_id)
    if array is None or array.array_state is not None or child is None:
        return
    if not isinstance(message.event, on.StopEvent):
        return
    _require_state(message, arrays.unspawned_child(array, message.job_id))
    after = arrays.store_child_order(array, child[1], message.event, unit.now)
    if after is not array:
        with unit.audit.as_server():
            unit.update(array, after)
        unit.audit.record_job(message.job_id, array.spec.owner, array.status)


def _check_dependencies(unit: UnitOfWork, spec: JobSpec, caller: Caller) -> None:
    """Raise Invalid if a dependency does not exist or is not visible to the caller.

    Checked in the unit of work that takes the job: a dependency may have been pruned since the request was validated.
    """
    found = {job_id: job for job_id in named(spec) if (job := unit.get(job_id)) is not None}
    known = {job_id: job for job_id, job in found.items() if caller.reaches(job.spec.owner)}
    if why := dependencies_refusal(spec, known):
        raise Invalid(why)


def _with_metrics(job: Job, message: MetricsRead) -> Job:
    attempts = (
        replace(attempt, metrics=message.metrics) if attempt.number == message.attempt else attempt
        for attempt in job.attempts
    )
    return replace(job, attempts=tuple(attempts))


def _reconciled(unit: UnitOfWork, message: SurveyCompleted) -> Reconciled:
    return reconcile(
        active=unit.active(),
        known={container.tag.job_id for container in message.containers if unit.has_loaded(container.tag.job_id)},
        surveyed=message.containers,
        expected=message.expected,
        lost_before=message.lost_before,
        machines={machine.name: machine for machine in message.machines},
    )


def _jobs_needed(message: Message) -> Sequence[JobId]:
    """The jobs that must be loaded before the message is handled; with each child, its array."""
    match message:
        case (
            JobEvent(job_id=job_id) | UpdateTags(job_id=job_id) | MetricsRead(job_id=job_id) | TimerFired(job_id=job_id)
        ):
            return _with_array(job_id)
        case Submit(spec=spec):
            return named(spec) if spec.depends_on else ()
        case SurveyCompleted(containers=seen):
            return [job_id for container in seen for job_id in _with_array(container.tag.job_id)]
        case _:
            return ()


def _with_array(job_id: JobId) -> tuple[JobId, ...]:
    """The job, and its array if it is a child."""
    child = parent_of(job_id)
    return (job_id,) if child is None else (job_id, child[0])
