"""Carries out effects as calls of the container runtime, and posts the results as messages.

The calls that change a container run one at a time, so a stop cannot come between its create and start. No call waits
for a container to end, and only an inspection reports an end. A call without an answer may have been carried out: it is
repeated after an inspection of the container.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct, field

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.catalog import EnvironmentName, network_of, oci_runtime_of
from batchq.domain.explanation.facts import StartProgress
from batchq.domain.ids import JobId, MachineName, Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.container_rules import is_captured
from batchq.domain.lifecycle.escalation import awaits_checkpoint
from batchq.domain.lifecycle.reconcile import stopped_container, tags_running
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.lifecycle.stopping import awaits_final_checkpoint
from batchq.engine.account_limits import AccountPolicies
from batchq.engine.checkpoints import Checkpoints, FinalMetrics
from batchq.engine.containers.start import Start
from batchq.engine.containers.start_breaker import StartBreaker
from batchq.engine.containers.translation import events_of_inspection, is_first, is_known_to_run, is_urgent, launch_spec
from batchq.engine.mailbox import JobEvent, TimerFired
from batchq.engine.supervisor import Supervisor
from batchq.errors import ContainerGone, LogRefused, RuntimeUnknown, RuntimeUnreachable, Unavailable
from batchq.ports.catalog import CatalogView
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerCalls, ContainerState, DeathReport, Inspection

log = logging.getLogger(__name__)

MAX_LOG_REFUSALS = 3  # failed reads of an ended container's log before it is removed without
SIGNAL_RETRY_INTERVAL = 1.0  # seconds before a stop signal without an answer is repeated


class ContainerOps(Struct, kw_only=True):
    """The operations on one container: from the first effect until the container is removed."""

    #: The effects that are being carried out.
    in_progress: set[do.Effect] = field(default_factory=set)
    #: Held by the operation that may change the container.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: The start in progress; None before and after it.
    start: Start | None = None
    #: Whether the outcome of the start was posted.
    start_reported: bool = False
    #: The stop step that was requested last; None: none, or the container is cleaned up.
    last_step: int | None = None
    #: The stop steps whose signals were delivered.
    delivered_steps: set[int] = field(default_factory=set)
    #: Whether SIGKILL was requested: no other signal is sent any more.
    is_killed: bool = False
    #: Whether an event of the container arrived after the current inspection began.
    must_inspect_again: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether the entry can be dropped: nothing is in progress and no result must be remembered."""
        return not (self.in_progress or self.start_reported or self.delivered_steps or self.is_killed)

    def must_send(self, step: int) -> bool:
        """Whether the signal of the step is still to be sent: not after that of a later step, or SIGKILL."""
        return step == self.last_step and not self.is_killed and step not in self.delivered_steps


class Executor:
    """Carries out effects. An effect that is already in progress for the container is ignored."""

    def __init__(
        self,
        *,
        runtime: ContainerCalls,
        catalog: CatalogView,
        accounts: AccountPolicies,
        checkpoints: Checkpoints,
        breaker_of: Callable[[MachineName | None], StartBreaker],
        capture_log: Callable[[Tag], Awaitable[bool]],
        final_metrics: FinalMetrics,
        clock: Clock,
        tasks: Supervisor,
        saved_job: Callable[[JobId], Job | None],
        post: Callable[[JobEvent | TimerFired], None],
    ) -> None:
        self._runtime = runtime
        self._catalog = catalog
        self._accounts = accounts
        self._checkpoints = checkpoints
        #: The breaker of the container engine of a machine.
        self._breaker_of = breaker_of
        #: Copies a container's output to the log archive; returns whether that also removed the container.
        self._capture_log = capture_log
        self._final_metrics = final_metrics
        self._clock = clock
        self._tasks = tasks
        #: An active job as last saved, by id; None if it is not active.
        self._saved_job = saved_job
        self._post = post
        #: The containers with operations in progress or results to be remembered.
        self._ops: dict[Tag, ContainerOps] = {}
        #: By container, how often the container engine has refused to return its log.
        self._refused_logs: Counter[Tag] = Counter()
        #: By job, the clean-ups in progress.
        self._clean_ups: defaultdict[JobId, dict[Tag, asyncio.Task[None]]] = defaultdict(dict)

    def execute(self, effect: do.Effect, job: Job | None) -> None:
        """Begin to carry out an effect. `job`: the job as saved, None for a container of an unknown job."""
        tag = effect.tag
        ops = self._ops.get(tag)
        if isinstance(effect, do.AbandonStart):
            _abandon(ops)
            return
        if ops is None:
            ops = self._ops[tag] = ContainerOps()
        if effect in ops.in_progress:
            return
        ops.in_progress.add(effect)
        if isinstance(effect, do.StartContainer):
            ops.start = self._prepare_start(tag, job)
        elif isinstance(effect, do.StopContainer):
            ops.last_step = max(effect.step, ops.last_step or 0)
        elif isinstance(effect, do.KillContainer):
            ops.is_killed = True
        task = self._tasks.task(f"{type(effect).__name__} {tag}", self._carry_out(effect, job, ops))
        if isinstance(effect, do.CleanUpContainer):
            _abandon(ops)  # the attempt ended before its start was answered: stop retrying the start
            self._clean_ups[tag.job_id][tag] = task

    async def signal(self, job: Job, signal: str) -> None:
        """Send a signal that is not a stop signal to the containers of the main node that run.

        Raises Unavailable if the container engine does not answer.
        """
        for tag in tags_running(job):
            if tag.node != job.spec.nodes.main:
                continue
            try:
                await self._runtime.signal_stop(tag, signal)
            except ContainerGone:
                continue
            except RuntimeUnknown as unknown:
                raise Unavailable(f"the container engine did not answer: {unknown}") from unknown

    def starts(self) -> dict[Tag, StartProgress]:
        """What each start in progress does at present."""
        return {tag: ops.start.progress for tag, ops in self._ops.items() if ops.start is not None}

    def on_death(self, report: Tag | DeathReport) -> None:
        """Handle a report that a container may have ended, using the report's inspection if it contains one.

        An absent container is inspected again through the verified runtime: the container engine may have been
        replaced.
        """
        if isinstance(report, DeathReport) and report.found is not None:
            self._post_inspection(report.tag, report.found, self._ops.get(report.tag))
        else:
            self.inspect_again(report.tag if isinstance(report, DeathReport) else report)

    def inspect_again(self, tag: Tag) -> None:
        """Inspect the container after an event of it.

        An inspection in progress is repeated: it may have been too early.
        """
        self.execute(do.InspectContainer(tag=tag), None)
        self._ops[tag].must_inspect_again = True

    async def _carry_out(self, effect: do.Effect, job: Job | None, ops: ContainerOps) -> None:
        """Carry out one effect. Effects on a container take turns, except inspections, which change nothing."""
        tag = effect.tag
        try:
            if isinstance(effect, do.InspectContainer):
                await self._inspect(tag, ops)
            else:
                async with ops.lock:
                    await self._change(effect, job, ops)
        finally:
            ops.in_progress.discard(effect)
            if isinstance(effect, do.CleanUpContainer):
                self._clean_ups[tag.job_id].pop(tag, None)
                if not self._clean_ups[tag.job_id]:
                    del self._clean_ups[tag.job_id]
            if ops.is_idle:
                del self._ops[tag]

    async def _change(self, effect: do.Effect, job: Job | None, ops: ContainerOps) -> None:
        match effect:
            case do.StartContainer(tag=tag):
                await self._start(tag, ops)
            case do.StopContainer():
                await self._stop(effect, ops)
            case do.KillContainer(tag=tag):
                await self._kill(tag)
            case do.CleanUpContainer(tag=tag):
                await self._clean_up(tag, job, ops)
            case do.AbandonStart() | do.InspectContainer():
                raise TypeError(effect)

    def _prepare_start(self, tag: Tag, job: Job | None) -> Start:
        """Create the Start before its turn comes, so that it can be abandoned while it waits."""
        assert job is not None, f"the start of {tag} has no job"
        environment = self._catalog.environments.get(EnvironmentName(attempt_of(job).environment))
        tags = () if environment is None else environment.tags  # it may have been deleted meanwhile
        launch = launch_spec(job, tag, network_of(tags), oci_runtime=oci_runtime_of(tags))
        return Start(
            job=job,
            tag=tag,
            launch=launch,
            runtime=self._runtime,
            accounts=self._accounts,
            checkpoints=self._checkpoints.files,
            breaker=self._breaker_of(launch.machine),
            clock=self._clock,
            tasks=self._tasks,
            is_first=lambda: is_first(self._saved_job(tag.job_id) or job, tag),
            save=partial(self._save, tag),
            discard=partial(self._discard, tag, job),
        )

    async def _start(self, tag: Tag, ops: ContainerOps) -> None:
        """Run the start to a result, after the clean-ups of earlier attempts.

        A clean-up ends after one try: a container that remains after it has ended. The start is not run again after its
        result: until the result is saved, the job still looks as if it had to be started.
        """
        assert ops.start is not None, f"the start of {tag} was not prepared"
        try:
            if clean_ups := self._clean_ups.get(tag.job_id):
                await ops.start.wait_for([task for other, task in clean_ups.items() if other.attempt < tag.attempt])
            events = () if ops.start_reported else await ops.start.run()
        finally:
            ops.start = None
        ops.start_reported = ops.start_reported or events != ()
        self._post_events(tag, events)

    async def _stop(self, stop: do.StopContainer, ops: ContainerOps) -> None:
        """Send the signal of a step until it is delivered once: many programs treat a second signal as a forced exit.

        Ends early when a later step or SIGKILL is requested, or the container is to be cleaned up.
        """
        tag, is_unsent, unanswered_at = stop.tag, False, None
        while ops.must_send(stop.step) and do.CleanUpContainer(tag=tag) not in ops.in_progress:
            try:
                if not is_unsent and not await self._may_send(stop, ops, unanswered_at):
                    await self._clock.sleep(SIGNAL_RETRY_INTERVAL)
                    continue
                await self._runtime.signal_stop(tag, stop.signal, grace=self._grace(stop))
            except (RuntimeUnknown, Unavailable) as unknown:
                is_unsent = isinstance(unknown, RuntimeUnreachable)
                unanswered_at = None if isinstance(unknown, RuntimeUnreachable | Unavailable) else self._clock.now()
                log.warning("container %s: the stop signal was not answered, it is repeated: %s", tag, unknown)
                await self._clock.sleep(SIGNAL_RETRY_INTERVAL)
            except ContainerGone:
                self.inspect_again(tag)
                return
            else:
                ops.delivered_steps.add(stop.step)
        if stop.step in ops.delivered_steps:
            delivered = on.StopSignalDelivered(attempt=tag.attempt, container_key=tag.container_key, step=stop.step)
            self._post_events(tag, (delivered,))

    async def _may_send(self, stop: do.StopContainer, ops: ContainerOps, unanswered_at: datetime | None) -> bool:
        """Save that a checkpoint signal is sent, before it is; other signals are sent at once. Raises Unavailable.

        Before any signal the checkpoints are recorded that exist before the request for a final one. False: the
        signal is not sent now, because it may be delivered already, or because the stop steps have changed.
        `unanswered_at`: when the last call ended without an answer; None: no call did.
        """
        tag, job = stop.tag, self._saved_job(stop.tag.job_id)
        if job is None or job.attempt is None or job.attempt.number != tag.attempt:
            return True
        await self._checkpoints.mark_stop(job)
        stopped = stopped_container(job, tag)
        if stopped is None or not awaits_checkpoint(stopped) or stopped.step != stop.step:
            return True
        if not await self._checkpoints.may_signal(job, tag, unanswered_at):
            return False
        await self._save(
            tag, on.CheckpointRequested(attempt=tag.attempt, container_key=tag.container_key, step=stop.step)
        )
        return ops.must_send(stop.step)

    def _grace(self, stop: do.StopContainer) -> timedelta | None:
        """The time from the signal of the step to SIGKILL; None: the container may go on after it, or not known."""
        job = self._saved_job(stop.tag.job_id)
        if job is None or job.attempt is None or job.attempt.number != stop.tag.attempt:
            return None
        stopped = stopped_container(job, stop.tag)
        if stopped is None or stop.step >= len(stopped.steps):
            return None
        step = stopped.steps[stop.step]
        return None if step.until_checkpoint else step.wait

    async def _kill(self, tag: Tag) -> None:
        """Send SIGKILL once. The job's timer repeats it while the container runs."""
        try:
            await self._runtime.kill(tag)
        except RuntimeUnknown as unknown:
            log.warning("container %s: the kill was not answered: %s", tag, unknown)
        except ContainerGone:
            self.inspect_again(tag)

    async def _clean_up(self, tag: Tag, job: Job | None, ops: ContainerOps) -> None:
        """Store the container's log, then remove the container. After a failure the next survey requests it again."""
        ops.start_reported = ops.is_killed = False
        ops.delivered_steps.clear()
        try:
            removed = await self._captured_and_removed(tag, job)
            await self._final_metrics.save(tag, job)
            if not removed:
                await self._runtime.remove(tag)
        except (RuntimeUnknown, Unavailable) as failure:
            log.warning("container %s: not removed yet: %s", tag, failure)
        else:
            self._refused_logs.pop(tag, None)

    async def _discard(self, tag: Tag, job: Job | None) -> None:
        """Store the output of a container whose start has failed, and remove it. Raises RuntimeUnknown, StoreFailed."""
        if not await self._captured_and_removed(tag, job):
            await self._runtime.remove(tag)

    async def _captured_and_removed(self, tag: Tag, job: Job | None) -> bool:
        """Store the container's output; returns whether that also removed the container.

        The output is not stored if its log driver is not captured, or after MAX_LOG_REFUSALS refusals of the container
        engine. Raises RuntimeUnknown, LogRefused and StoreFailed.
        """
        if job is not None and not is_captured(job, tag):
            return False
        try:
            return await self._capture_log(tag)
        except LogRefused as refused:
            self._refused_logs[tag] += 1
            if self._refused_logs[tag] < MAX_LOG_REFUSALS:
                raise
            log.warning("container %s: removed without its log, which cannot be read: %s", tag, refused)
            return False

    async def _inspect(self, tag: Tag, ops: ContainerOps) -> None:
        """Inspect the container until no event of it arrived while the inspection ran."""
        ops.must_inspect_again = True
        while ops.must_inspect_again:
            ops.must_inspect_again = False
            try:
                found = await self._runtime.inspect(tag)
            except RuntimeUnknown as unknown:
                log.warning("container %s: not inspected: %s", tag, unknown)
            else:
                self._post_inspection(tag, found, ops)

    def _post_inspection(self, tag: Tag, found: Inspection | None, ops: ContainerOps | None) -> None:
        """Post the events that follow from an inspection.

        While a start is in progress, a container that is absent or CREATED is ignored: the start handles it.
        """
        is_starting, job = ops is not None and ops.start is not None, self._saved_job(tag.job_id)
        has_ended = found is None or found.state is ContainerState.EXITED
        if not is_starting or (found is not None and found.stopped_at is not None):
            events = events_of_inspection(tag, found)
            events = events[-1:] if is_known_to_run(tag, job) else events
            if has_ended and job is not None and awaits_final_checkpoint(job):
                self._tasks.spawn(f"final checkpoint of {tag}", self._post_after_checkpoint(job, tag, events))
            else:
                self._post_events(tag, events)
        if found is not None and found.state is ContainerState.RUNNING:
            self._post(TimerFired(job_id=tag.job_id, running_container=tag, container_started_at=found.started_at))

    async def _post_after_checkpoint(self, job: Job, tag: Tag, events: tuple[on.AttemptEvent, ...]) -> None:
        """Report the final checkpoint before the end of the container, so that the job ends with it."""
        await self._checkpoints.report_final(job, ended=not tag.container_key)
        self._post_events(tag, events)

    async def _save(self, tag: Tag, event: on.AttemptEvent) -> None:
        """Post the event and wait until it is saved. Raises Unavailable."""
        saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._post(JobEvent(job_id=tag.job_id, event=event, answer=saved))
        await saved

    def _post_events(self, tag: Tag, events: tuple[on.AttemptEvent, ...]) -> None:
        job = self._saved_job(tag.job_id)
        for event in events:
            self._post(JobEvent(job_id=tag.job_id, event=event, low_priority=not is_urgent(event, job)))


def _abandon(ops: ContainerOps | None) -> None:
    """Abandon the start in progress. Without one there is nothing to do: its result has been posted."""
    if ops is not None and ops.start is not None:
        ops.start.abandoned.set()
