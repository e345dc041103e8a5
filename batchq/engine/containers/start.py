"""Starts one container, which may exist already, and returns the result as events of the attempt.

A start can be abandoned until the container engine is requested to start the container.

A created container is started only after its creation is saved. From then on its absence means that it may have run, so
it is not created again. A container is also not started again if the container engine has ended since a start of it may
have been requested: Docker reports CREATED for a container whose program ran if the container engine ended before it
saved that. Decision 0013.

A start call without an answer may be executed later. Then a start that has failed, or is lost, is reported after its
container is removed: the program does not run in resources that another job has.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.access.container_policy import author_refusal, container_refusal
from batchq.domain.explanation.facts import StartPhase, StartProgress
from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.stopping import last_pause
from batchq.engine.account_limits import AccountPolicies
from batchq.engine.containers.start_breaker import StartBreaker
from batchq.engine.containers.translation import events_of_inspection, with_checkpoints
from batchq.engine.supervisor import Supervisor
from batchq.errors import (
    ContainerGone,
    ContainerUnusable,
    ImageMissing,
    ImageUnavailable,
    NameTaken,
    RuntimeUnknown,
    RuntimeUnreachable,
    StartHadNoEffect,
    StartInterrupted,
    StartRefused,
    StartUnderWay,
    Unavailable,
)
from batchq.ports.checkpoints import CheckpointStore, Mark, Moment
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerCalls, ContainerState, Created, Inspection, LaunchSpec

log = logging.getLogger(__name__)

REFUSAL_RETRY_DELAYS = (1.0, 4.0, 10.0)  # seconds before each retry of a refused start

UNDER_WAY_PAUSE = 5.0  # seconds before a start that the container engine carries out is repeated

FIRST_PAUSE, MAX_PAUSE = 0.5, 10.0  # seconds between tries while the container engine does not answer


class Start:
    """One start of one container."""

    #: Whether the image was pulled and its use was not tried since.
    _pulled = False
    #: How many refusals have been followed by a retry.
    _refusals = 0
    #: How many tries ended with StartHadNoEffect.
    _no_effects = 0
    #: Seconds before the next try after an unanswered call or a failure of the host.
    _pause = FIRST_PAUSE
    #: The result once the start has failed or is lost; None: it is tried again.
    _failure: on.StartFailed | on.ContainerLost | None = None

    def __init__(
        self,
        *,
        job: Job,
        tag: Tag,
        launch: LaunchSpec,
        runtime: ContainerCalls,
        accounts: AccountPolicies,
        checkpoints: CheckpointStore,
        breaker: StartBreaker,
        clock: Clock,
        tasks: Supervisor,
        is_first: Callable[[], bool],
        save: Callable[[on.ContainerCreated | on.ContainerDiscarded], Awaitable[None]],
        discard: Callable[[], Awaitable[None]],
    ) -> None:
        self._spec = job.spec
        self._launch = replace(launch, account=accounts.network_account(job.spec))
        self._tag = tag
        self._runtime = runtime
        #: Gives the container policy and the networks of the job's account.
        self._accounts = accounts
        self._checkpoints, self._is_first = checkpoints, is_first
        self._final = _final_checkpoint(job) if job.attempts else None
        self._breaker = breaker
        #: The breaker's count of successful starts when the last failure of the host was counted.
        self._successes_seen = breaker.successes
        self._clock, self._tasks = clock, tasks
        #: Returns when the event is saved; raises Unavailable.
        self._save = save
        #: Stores the container's output and removes the container; raises RuntimeUnknown and Unavailable.
        self._discard = discard
        #: Whether a start of the container may have been requested, by this start or an earlier one.
        self._start_requested = self._launch.container_id is not None
        #: Whether a start of the container was requested and has no answer: the container engine may execute it later.
        self._start_unanswered = self._start_requested
        #: What the start does at present, for explanations.
        self.progress = StartProgress(phase=StartPhase.CREATING, since=clock.now(), image=self._launch.spec.image)
        #: Set from outside to abandon the start.
        self.abandoned = asyncio.Event()

    async def wait_for(self, others: Collection[asyncio.Task[None]]) -> None:
        """Wait until the other tasks have ended, successfully or not, or the start is abandoned."""
        if others:
            self._enter(StartPhase.CLEANING_UP)
            await self._unless_abandoned(self._tasks.task(f"clean up before {self._tag}", _wait_for_all(others)))
            self._enter(StartPhase.CREATING)

    async def run(self) -> tuple[on.AttemptEvent, ...]:
        """Try until there is a result, and return it as events of the attempt.

        An engine that does not answer costs no attempt: the calls are repeated until it answers.
        """
        while True:
            try:
                if self._failure is not None:
                    return await self._report(self._failure)
                await self._wait_for_permission()
                return await self._try()
            except StartUnderWay as under_way:
                self._enter(StartPhase.PULLING, str(under_way))
                await self._sleep(UNDER_WAY_PAUSE)
            except (RuntimeUnknown, Unavailable) as unknown:
                level = logging.WARNING if self._pause < MAX_PAUSE else logging.DEBUG  # a quota may be in use for hours
                log.log(level, "container %s: not started yet, the start is retried: %s", self._tag, unknown)
                phase = StartPhase.REFUSED if isinstance(unknown, StartHadNoEffect) else StartPhase.UNANSWERED
                self._enter(phase, str(unknown))
                self._no_effects += phase is StartPhase.REFUSED
                await self._sleep(self._pause)
                self._pause = min(self._pause * 2, MAX_PAUSE)
            except (ImageUnavailable, NameTaken) as unusable:
                self._failure = self._failed(str(unusable))
            except StartRefused as refused:
                if not await self._may_retry(refused):
                    failed = self._failed(refused.reason, refused.exit_code)
                    self._failure = replace(failed, forbidden=refused.forbidden)
            except StartInterrupted as interrupted:
                self._failure = self._interrupted(interrupted)

    async def _may_retry(self, refused: StartRefused) -> bool:
        """Whether to try again after a refusal; returns after the pause before the retry.

        A failure of the host costs no attempt. It counts as a refusal only if another start has succeeded since the
        last one.
        """
        if refused.host_failed:
            self._enter(StartPhase.HOST_FAILED, refused.reason)
            self._breaker.host_failed(self._tag.job_id, self._launch.spec.image, refused.reason)
            if self._breaker.successes == self._successes_seen:
                await self._after_host_failure(refused)
                return True
            self._successes_seen = self._breaker.successes
        else:
            self._breaker.job_failed()
        if refused.certain or self._refusals == len(REFUSAL_RETRY_DELAYS):
            return False
        if not self.abandoned.is_set():
            self._enter(StartPhase.REFUSED, refused.reason)
            await self._sleep(REFUSAL_RETRY_DELAYS[self._refusals])
        self._refusals += 1
        return True

    async def _after_host_failure(self, refused: StartRefused) -> None:
        """Pause before the next try. While the breaker is open, it paces the tries instead."""
        if self._breaker.is_open and not self.abandoned.is_set():
            return
        log.warning("container %s: the host cannot start it, the start is retried: %s", self._tag, refused)
        await self._sleep(self._pause)
        self._pause = min(self._pause * 2, MAX_PAUSE)

    async def _wait_for_permission(self) -> None:
        """While the breaker is open, wait for permission to probe, or until the start is abandoned."""
        permission = None if self.abandoned.is_set() else self._breaker.permit()
        if permission is not None:
            self._enter(StartPhase.HOST_FAILED, self.progress.error or self._breaker.error or "")
            self.progress = replace(self.progress, since=self._breaker.opened_at or self.progress.since)
            try:
                await self._unless_abandoned(permission)
            finally:
                permission.cancel()

    async def _try(self) -> tuple[on.AttemptEvent, ...]:
        """Create and start the container once.

        Raises StartRefused, StartInterrupted, RuntimeUnknown, ImageUnavailable, NameTaken, Unavailable.
        """
        if self.abandoned.is_set():
            return await self._abandon()
        forbidden = self._policy_refusal()
        if forbidden is not None and self._launch.container_id is None:
            raise forbidden
        await self._prepare_checkpoints()
        try:
            created = await self._runtime.create(self._launch)
        except ImageMissing as missing:
            await self._pull(missing)
            return await self._try()
        except ContainerGone:
            return events_of_inspection(self._tag, None)
        except ContainerUnusable as unusable:
            await self._save_discarded(unusable)
            return await self._try()
        if created.state is not ContainerState.CREATED:
            return await self._inspect()
        if created.host_lost and self._start_requested:
            raise StartInterrupted("the container engine restarted after a start may have been requested")
        if forbidden is not None:
            raise forbidden
        await self._save_created(created)
        if self.abandoned.is_set():
            return await self._abandon()
        return await self._start()

    async def _prepare_checkpoints(self) -> None:
        """Create the job's checkpoint directory and add it to the launch. Raises Unavailable.

        The directory is read again if another container of the attempt may have begun to write meanwhile.
        """
        if self._spec.checkpoints is None or self._launch.checkpoint_directory is not None:
            return
        ended = self._is_first()
        prepared = await self._checkpoints.prepare(self._tag.job_id, ended=ended, final=self._final)
        if ended and not self._is_first():
            prepared = await self._checkpoints.prepare(self._tag.job_id, ended=False, final=self._final)
        self._launch = with_checkpoints(self._launch, prepared)

    def _policy_refusal(self) -> StartRefused | None:
        """The refusal by a present container policy, of the job's owner or of an author; None if each allows the job.

        The policies may have changed since the job was submitted. A container that already runs is not stopped by them.
        Raises Unavailable.
        """
        policy = self._accounts.container_policy(self._spec.owner)
        authors = self._accounts.author_policies(self._spec.authors) if self._spec.authors else ()
        allowances = (
            [policy for _, policy in authors] if policy is None else [policy, *(policy for _, policy in authors)]
        )
        self._launch = replace(self._launch, allowances=tuple(allowances))
        nodes = self._spec.nodes
        why = container_refusal(nodes, policy, self._spec.owner.account)
        if why is None and authors:
            why = author_refusal(nodes, authors)
        return None if why is None else StartRefused(f"CannotCreateContainerError: {why}", forbidden=True)

    async def _save_created(self, container: Created) -> None:
        """Save that the container was created, unless that is saved already."""
        if container.container_id == self._launch.container_id:
            return
        event = on.ContainerCreated(
            attempt=self._tag.attempt,
            container_key=self._tag.container_key,
            container_id=container.container_id,
            created_host_paths=container.created_host_paths,
            pod=container.pod,
        )
        await self._save(event)
        self._launch = replace(self._launch, container_id=container.container_id)

    async def _save_discarded(self, unusable: ContainerUnusable) -> None:
        """Save that the container is discarded; the next `create`, without its id, removes it."""
        log.info("container %s: created again: %s", self._tag, unusable)
        await self._save(on.ContainerDiscarded(attempt=self._tag.attempt, container_key=self._tag.container_key))
        self._launch = replace(self._launch, container_id=None)
        self._start_requested = self._start_unanswered = False

    async def _start(self) -> tuple[on.AttemptEvent, ...]:
        """Start the created container.

        A started container counts as running from now until an inspection corrects the time. A container of a
        multi-container job is inspected at once because its address is needed.
        """
        requested_before, self._start_requested = self._start_requested, True
        try:
            await self._runtime.start(self._tag)
        except ContainerGone:
            return await self._inspect()
        except (RuntimeUnreachable, StartHadNoEffect):
            self._start_requested = requested_before
            raise
        except RuntimeUnknown:
            self._start_unanswered = True
            raise
        self._breaker.succeeded(self._launch.spec.image)
        if self._tag.container_key:
            return await self._inspect()
        return (on.ContainerStarted(attempt=self._tag.attempt, started_at=self._clock.now()),)

    async def _report(self, failure: on.StartFailed | on.ContainerLost) -> tuple[on.AttemptEvent, ...]:
        """Report a start that has failed or is lost, or the state of the container if it was started after all.

        While a start call has no answer, the container is removed first: a late call then finds no container. Raises
        RuntimeUnknown, Unavailable.
        """
        if self._start_unanswered:
            found = await self._runtime.inspect(self._tag)
            if _has_started(found):
                return events_of_inspection(self._tag, found)
            await self._discard()
        return (failure,)

    def _interrupted(self, why: StartInterrupted) -> on.ContainerLost:
        """The attempt is lost with the host: its program may have run and is not run again."""
        log.warning("container %s: not started again because its program may have run: %s", self._tag, why)
        return on.ContainerLost(
            attempt=self._tag.attempt, container_key=self._tag.container_key, reason=status_reasons.HOST_TERMINATED
        )

    async def _inspect(self) -> tuple[on.AttemptEvent, ...]:
        return events_of_inspection(self._tag, await self._runtime.inspect(self._tag))

    async def _abandon(self) -> tuple[on.AttemptEvent, ...]:
        """Remove the container, or report its state if it was started after all.

        An unanswered call, or batchq before a restart, may have started it. Removing it at once ensures
        that a start call still in progress finds no container.
        """
        found = await self._runtime.inspect(self._tag)
        if _has_started(found):
            return events_of_inspection(self._tag, found)
        await self._runtime.remove(self._tag)
        return (on.StartAbandoned(attempt=self._tag.attempt, container_key=self._tag.container_key),)

    async def _pull(self, missing: ImageMissing) -> None:
        """Pull the image. Abandoning the start ends the wait for the pull.

        Raises StartRefused if the image is missing again right after a pull; the retry pulls once more.
        """
        if self._pulled:
            self._pulled = False
            raise StartRefused(f"CannotPullContainerError: the image is missing after a pull: {missing}", certain=False)
        spec = self._launch.spec
        call = self._runtime.pull(spec.image, spec.platform, account=self._launch.account)
        pull = self._tasks.task(f"pull {spec.image}", call)
        self._enter(StartPhase.PULLING)
        try:
            await self._unless_abandoned(pull)
        finally:
            pull.cancel()  # without effect on a finished pull
        self._pulled = True
        self._enter(StartPhase.CREATING)

    def _enter(self, phase: StartPhase, error: str = "") -> None:
        """Record what the start does from now on; a phase that continues keeps its time."""
        known, refusals = self.progress, self._refusals + self._no_effects
        since = known.since if known.phase is phase else self._clock.now()
        self.progress = replace(known, phase=phase, since=since, refusals=refusals, error=error)

    async def _sleep(self, seconds: float) -> None:
        """Sleep. Abandoning the start ends the sleep, but later sleeps of an abandoned start have their full length."""
        if self.abandoned.is_set():
            await self._clock.sleep(seconds)
            return
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await self._unless_abandoned(sleep)
        finally:
            sleep.cancel()

    async def _unless_abandoned(self, work: asyncio.Future[None]) -> None:
        """Wait until the work is done or the start is abandoned. Raises the error of the work."""
        abandoned = asyncio.ensure_future(self.abandoned.wait())
        try:
            await asyncio.wait((work, abandoned), return_when=asyncio.FIRST_COMPLETED)
        finally:
            abandoned.cancel()
        if work.done():
            work.result()

    def _failed(self, reason: str, exit_code: int | None = None) -> on.StartFailed:
        return on.StartFailed(
            attempt=self._tag.attempt, container_key=self._tag.container_key, reason=reason, exit_code=exit_code
        )


def _final_checkpoint(job: Job) -> tuple[Moment, str] | None:
    """The final checkpoint of the pause that ended the last attempt, and when it was found; None: there is none."""
    pause = last_pause(job)
    if pause is None or pause.attempt is None or pause.final_checkpoint is None:
        return None
    return Moment(attempt=pause.attempt, mark=Mark.FINAL), pause.final_checkpoint


def _has_started(found: Inspection | None) -> bool:
    """Whether the container runs or has run, as the container engine reports it."""
    return found is not None and found.state not in (ContainerState.CREATED, ContainerState.GOING)


async def _wait_for_all(tasks: Collection[asyncio.Task[None]]) -> None:
    await asyncio.wait(tasks)
