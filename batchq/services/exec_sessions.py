"""Commands in the containers of running jobs. A command changes neither the state of its job nor its log.

A caller may run commands in a job that the caller may terminate. The caller's account must permit them, and permit the
containers of the job: otherwise a user would get the rights of another user's container. Decision 0110.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from batchq.audit import Journal
from batchq.domain.access.accounts import Caller
from batchq.domain.access.audit import DONE, record_of
from batchq.domain.access.container_policy import exec_refusal
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.ids import JobId, Tag, node_of
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent
from batchq.engine.engine import Engine
from batchq.errors import (
    ContainerGone,
    ExecRefused,
    Forbidden,
    Invalid,
    NotSupported,
    RuntimeUnknown,
    Throttled,
    Unavailable,
)
from batchq.ports.clock import Clock
from batchq.ports.exec_session import ExecCommand, ExecSession
from batchq.ports.history import FeedFilter
from batchq.services.job_log import container_tag
from batchq.services.jobs import JobService

MAX_SECONDS = 12 * 3600.0  # of one session
CHECK_INTERVAL = 20.0  # seconds between two checks of a session whose job reports no change

log = logging.getLogger(__name__)


class ExecLimits(Struct, frozen=True, kw_only=True):
    """The limits of sessions that the server's settings define."""

    #: Sessions at the same time; 0: commands are refused.
    sessions: int
    #: Seconds without input and output after which a session ends.
    idle: float


class ExecTarget(Struct, frozen=True, kw_only=True):
    """The container in which a command is to run."""

    job_id: JobId
    job: Job
    tag: Tag


class ExecService:
    """Opens sessions of commands. Jobs that are not visible to the caller are treated as missing."""

    def __init__(
        self,
        *,
        engine: Engine,
        jobs: JobService,
        journal: Journal,
        clock: Clock,
        limits: ExecLimits,
        present_caller: Callable[[Caller], Caller | None],
    ) -> None:
        """`present_caller`: the caller with the present rights.

        It returns None if the user or the access key is no longer valid, and may raise Unavailable.
        """
        self._engine = engine
        self._jobs = jobs
        self._journal = journal
        self._clock = clock
        self._present_caller = present_caller
        self.limits = limits
        #: The number of open sessions.
        self._open = 0

    async def target(self, job_id: JobId, *, container: str | None, caller: Caller) -> ExecTarget:
        """The container of a running job. `container`: the name of one of several; None: the only one.

        Raises NotFound; Invalid for a job that is not RUNNING, and for a container that does not run; Forbidden if a
        container policy does not allow the session; NotSupported if the server allows none; Unavailable.
        """
        job = await self._jobs.find(job_id, caller=caller)
        if job is None:
            raise await self._jobs.missing(job_id, caller=caller)
        if not self.limits.sessions:
            raise NotSupported("This server runs no commands in containers: its setting --exec-sessions is 0.")
        self._check_policies(job, caller)
        if is_parent(job):
            raise Invalid(f"Job {job_id} is an array: name one of its children, as {job_id}:0.")
        attempt = job.attempt
        if job.status is not Status.RUNNING or attempt is None:
            raise Invalid(f"Job {job_id} is {job.status}: a command can only be run in a job that is RUNNING.")
        tag = container_tag(job_id, job, attempt=attempt.number, container=container)
        runs = {part.key for part in attempt.containers if part.state is AttemptContainerState.RUNNING}
        if tag.container_key not in runs:
            raise Invalid(f"The container {tag.container_key} of job {job_id} does not run.")
        return ExecTarget(job_id=job_id, job=job, tag=tag)

    @asynccontextmanager
    async def session(self, target: ExecTarget, command: ExecCommand, *, caller: Caller) -> AsyncIterator[ExecSession]:
        """Run a command with an audit record, and end it with the context.

        Raises Throttled; Invalid if the command cannot be run; Unavailable.
        """
        if self._open >= self.limits.sessions:
            raise Throttled(f"{self._open} commands run in containers at present, the most that this server allows")
        self._open += 1
        began = self._clock.now()
        try:
            await self._record(target, caller)
            session = await self._start(target, command)
            log.info("job %s: command in container %s by user %s", target.job_id, target.tag, caller.user)
            try:
                yield session
            finally:
                await asyncio.shield(session.close())
                seconds = (self._clock.now() - began).total_seconds()
                log.info("job %s: command of user %s ended after %.0f s", target.job_id, caller.user, seconds)
        finally:
            self._open -= 1

    async def wait_for_end(self, target: ExecTarget, *, caller: Caller) -> str:
        """Wait until the session must end, for another reason than its command. Returns the reason.

        The rights of the caller are checked again each CHECK_INTERVAL. Raises Unavailable if they cannot be read.
        """
        feed, loop = self._engine.history_feed, asyncio.get_running_loop()
        after, end = feed.last, loop.time() + MAX_SECONDS
        changes = FeedFilter(jobs=frozenset({node_of(target.job_id)[0]}))
        while loop.time() < end:
            deadline = min(end, loop.time() + CHECK_INTERVAL)
            after = await feed.next_change(after, changes, deadline=deadline, reader=caller.user) or after
            if feed.closed:
                return "the server shuts down"
            present = self._present_caller(caller)
            if present is None:
                return "the user or the access key of the caller is no longer valid"
            job = await self._jobs.find(target.job_id, caller=present)
            if job is None:
                return "the caller may not see the job any more"
            if job.attempt is None or job.attempt.number != target.tag.attempt:
                return "the container of the job has ended"
            if any(part.key == target.tag.container_key and part.killed_at for part in job.attempt.containers):
                return "the container of the job was killed"  # Docker reports its end once the session is closed
            try:
                self._check_policies(job, present)
            except Forbidden as why:
                return str(why)
        return f"a session lasts {MAX_SECONDS / 3600:g} hours at most"

    def _check_policies(self, job: Job, caller: Caller) -> None:
        """Raises Forbidden; Unavailable if the accounts cannot be read."""
        if caller.container_policy is None:
            return
        owner = job.spec.owner
        policy = self._engine.accounts.container_policy(owner)
        if policy is not None and not policy.exec_allowed:
            raise Forbidden(f"Commands in running containers are not allowed to account {owner.account}.")
        is_own = owner.user == caller.user
        why = exec_refusal(job.spec.nodes, caller.container_policy, caller.account, is_own=is_own)
        if why is not None:
            raise Forbidden(why)

    async def _start(self, target: ExecTarget, command: ExecCommand) -> ExecSession:
        try:
            return await self._engine.exec(target.tag, command)
        except ContainerGone:
            raise Invalid(f"The container of job {target.job_id} does not run any more.") from None
        except ExecRefused as why:
            raise Invalid(f"The command was not run: {why}") from None
        except RuntimeUnknown as why:
            log.warning("job %s: the command was not run: %s", target.job_id, why)
            raise Unavailable("The container engine does not answer: the command was not run.") from None

    async def _record(self, target: ExecTarget, caller: Caller) -> None:
        """Add an audit record, before the command runs. It does not contain the command, which may hold secrets."""
        record = record_of(caller, at=self._clock.now(), resource=f"job/{target.job_id}")
        about = record.about_job(target.job_id, target.job.spec.owner, target.job.status)
        await asyncio.to_thread(self._journal.append, replace(about, outcome=DONE))
