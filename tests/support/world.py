"""A World runs batchq without its API for a scenario: on simulated containers and a virtual clock, or on Docker.

`wait_for` waits for a status and compares members of the job. When a world ends, nothing may be left over: no
container, no unhandled message, no call in progress, no job that is not finished.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec.structs import replace

from batchq.compute.docker.create_request import SharedNetwork, shared_network_name
from batchq.compute.docker.operation_pools import LIMITS, Limits
from batchq.compute.docker.runtime import DockerRuntime
from batchq.compute.simulated.container import nanoseconds
from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain import events as on
from batchq.domain.access.accounts import Caller
from batchq.domain.bulk_stop import JobOutcome
from batchq.domain.catalog import NETWORK_TAG, Network, PolicyName, Tags
from batchq.domain.container import Resources
from batchq.domain.enums import FINISHED, Status, StopKind
from batchq.domain.explanation.explanation import Explanation
from batchq.domain.ids import ConsumableName, JobId, QueueName, Tag
from batchq.domain.job import ConsumableRequirement, Dependency, Job, RetryStrategy
from batchq.domain.job_request import JobRequest
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.stopping import next_step_at
from batchq.domain.machines import Machine, one_machine
from batchq.domain.prices import Prices
from batchq.domain.stop_request import StopRequest
from batchq.domain.task import Nodes, Task
from batchq.errors import ContainerGone, NotFound, RuntimeUnknown
from batchq.ports.checkpoints import CheckpointStore
from batchq.ports.clock import BootClock
from batchq.ports.jobs import Changes, Restoration
from batchq.ports.logs import LogArchive, LogLine
from batchq.ports.runtime import ContainerRuntime, ContainerState
from batchq.services.submissions import build_spec
from batchq.store.checkpoint_files import CheckpointFiles
from batchq.store.log_files import LogFiles
from batchq.store.sqlite_store import SqliteStore
from tests.support import builders, scripts
from tests.support.clock import DiskClock, ShiftedClock, VirtualClock
from tests.support.containers import leaves_nothing, left_over, until, until_answered
from tests.support.in_process_server import InProcessServer, Store
from tests.support.inline import InlineLogFiles, InlineStore, temporary_checkpoints
from tests.support.proxies import RecordingRuntime, StoreProxy
from tests.support.scripts import AMPLE, LASTING, Script

HOST = Resources(millicpus=4000, memory_mib=4096)
GRACE = timedelta(seconds=2)  # between stop signal and kill, of jobs that ignore the signal
TIMEOUT = 60.0  # seconds on the world's clock
REMOVAL_TIMEOUT = 150.0  # the same for a removal: a kubelet of 1.20 takes a minute for a pod that never ran
POLL_INTERVAL = 0.01  # seconds


class World:
    def __init__(
        self,
        *,
        store: Store,
        runtime: ContainerRuntime,
        archive: LogArchive,
        clock: BootClock,
        survey_interval: float,
        new_job_id: Callable[[], JobId] | None = None,
        checkpoints: CheckpointStore | None = None,
    ) -> None:
        """`checkpoints`: None: files with the times of the clock, in a temporary directory."""
        self._disk_clock = DiskClock(clock.now)
        self.checkpoints = checkpoints or temporary_checkpoints(self._disk_clock.now, self._disk_clock.changed_at)
        self.store = StoreProxy(store)
        self.machine = runtime
        self.runtime = RecordingRuntime(runtime)
        self.clock = clock
        self.archive = archive
        self.survey_interval = survey_interval
        self._new_job_id = new_job_id
        self._definitions = count()
        self.caller = builders.ADMIN
        self.people = builders.PEOPLE
        #: Whether servers that start later follow the logs of containers.
        self.follows_logs = False
        #: Of new jobs; None: their costs are not known.
        self.prices: Prices | None = None

    @property
    def virtual(self) -> bool:
        """Whether time is simulated."""
        return getattr(self.clock, "virtual", False)

    @property
    def slack(self) -> timedelta:
        """The permitted delay: almost none on a virtual clock; on Docker it depends on the machine."""
        return timedelta(seconds=0.5 if self.virtual else TIMEOUT)

    async def boot(self) -> None:
        """Start a server on what is stored."""
        self.server = InProcessServer(
            store=self.store,
            runtime=self.runtime,
            archive=self.archive,
            checkpoints=self.checkpoints,
            clock=self.clock,
            people=lambda: self.people,
            survey_interval=self.survey_interval,
            new_job_id=self._new_job_id,
            follows_logs=self.follows_logs,
        )
        self.engine, self.catalog, self.logs = self.server.engine, self.server.catalog, self.server.logs
        self.jobs, self.submissions = self.server.jobs, self.server.submission_service(stop_grace=GRACE)
        self.bulk_stops = self.server.bulk_stops
        await self.server.align()
        await self.server.start()

    async def create_default_catalog(self) -> None:
        """Create the environment `local` and the queue `default`, as the first start of a server does."""
        await self.environment("local", max_millicpus=HOST.millicpus)
        await self.queue("default", environments=("local",))

    async def environment(
        self, name: str, *, max_millicpus: int, network: Network | None = None, tags: Tags = ()
    ) -> None:
        tags = (*tags, *(() if network is None else ((NETWORK_TAG, network.value),)))
        made = builders.environment(name, max_millicpus=max_millicpus, tags=tags, created_at=self.clock.now())
        await self.catalog.compute_environments.create(made, caller=None)

    async def queue(
        self,
        name: str,
        *,
        environments: Sequence[str] = ("local",),
        priority: int = 1,
        policy: PolicyName | None = None,
    ) -> None:
        made = builders.queue(name, environments=tuple(environments), priority=priority, policy=policy)
        await self.catalog.job_queues.create(replace(made, created_at=self.clock.now()), caller=None)

    async def crash(self) -> None:
        """End the server as `kill -9` does; the store and the containers remain."""
        await self.server.kill()

    async def crash_after(self, call: str) -> None:
        """Let the engine carry out a held call, and crash the server before it has saved the result."""
        replies = self.runtime.replies[call]

        async def replied() -> bool:
            return self.runtime.replies[call] > replies

        self.store.failing = True
        self.runtime.release(call)
        await self.until(replied, f"no {call} was answered")
        await self.crash()
        self.store.failing = False

    async def crash_in_commit(self, request: Coroutine[Any, Any, Any]) -> None:
        """Make a request, and crash the server when the request is saved and not yet answered."""
        self.store.withholds_replies = True
        response = asyncio.create_task(request)

        async def saved() -> bool:
            return self.store.unanswered_commits > 0

        await self.until(saved, "nothing was saved")
        assert not response.done()
        await self.crash()
        response.cancel()
        self.store.withholds_replies = False

    async def restart_with_clock(self, clock: BootClock) -> None:
        """Restart the server; in between the machine's clock was set."""
        await self.crash()
        self.clock = clock
        await self.boot()

    async def restart(self, *, dropping: str | None = None) -> None:
        """Crash the server and start the next one. `dropping`: a held call, which the engine never gets."""
        await self.crash()
        if dropping is not None:
            self.runtime.release(dropping)
        await self.boot()

    def backup(self) -> Store:
        """A copy of everything that is stored."""
        return self.store.store.copy()

    async def restore(self, backup: Store) -> None:
        """Crash the server and start the next one on a backup; the containers remain as they are."""
        await self.crash()
        self.store.store = backup.copy()
        await self.store.commit(Changes(restoration=Restoration(at=self.clock.now())))
        await self.boot()

    async def submit(self, script: Script | None = None, **fields: Any) -> JobId:
        """Submit a job that executes a script. Takes `attempts`, `rules`, `limit` (seconds), `after`, `queue` and size.

        Its grace period is short if its script ignores the stop signal, or if the test sets `grace`.
        """
        (job_id,) = await self.submit_many(1, script, **fields)
        return job_id

    async def start(self, script: Script = LASTING, **fields: Any) -> JobId:
        """Submit a job, and wait until it runs and has printed `ready`, if its script prints that."""
        job_id = await self.submit(script, **fields)
        await self.wait_for(job_id, Status.RUNNING)
        if "ready" in script.output:
            await self.wait_for_output(job_id, "ready")
        return job_id

    async def run(self, script: Script | None = None, status: Status = Status.SUCCEEDED, **fields: Any) -> JobId:
        """Submit a job, and wait until it has ended with this status."""
        job_id = await self.submit(script, **fields)
        await self.wait_for(job_id, status)
        return job_id

    async def submit_until(
        self, call: str, script: Script | None = None, *, container_key: str = "", **fields: Any
    ) -> JobId:
        """Hold this call of the engine, and submit a job whose container, or the named one, waits for it."""
        self.runtime.hold(call)
        job_id = await self.submit(script, **fields)
        await self.wait_for_call(job_id, call, container_key=container_key)
        return job_id

    async def submit_behind(self, script: Script | None = None, **fields: Any) -> tuple[JobId, JobId]:
        """Start a job that holds all vCPUs of the environment, and submit one that waits for them."""
        holder = await self.start(millicpus=HOST.millicpus)
        waiting = await self.submit(script, millicpus=HOST.millicpus, **fields)
        await self.wait_for(waiting, Status.RUNNABLE)
        return holder, waiting

    async def submit_many(
        self, number: int, script: Script | None, *, grace: timedelta | None = None, **fields: Any
    ) -> list[JobId]:
        """Submit `number` jobs of one definition; their ids in the order of submission."""
        submission = await self.submission(script, **fields)
        usual = AMPLE if script is not None and script.on_term is not None else GRACE
        service = self.server.submission_service(stop_grace=usual if grace is None else grace, prices=self.prices)
        return [(await service.submit(submission, caller=self.caller)).id for _ in range(number)]

    async def submit_and(self, request: Callable[[JobId], Awaitable[None]], **fields: Any) -> JobId:
        """Submit a job and make a request for it at once, so that the request finds the job SUBMITTED."""
        submission = await self.submission(**fields)
        definition = await self.catalog.definitions.find(submission.definition_name, None, caller=self.caller)
        job_id = JobId(str(uuid4()))
        spec = build_spec(submission, definition, owner=self.caller.owner, stop_grace=GRACE)
        await asyncio.gather(
            self.engine.submit(job_id=job_id, spec=spec, tags=(), key=None, caller=self.caller), request(job_id)
        )
        return job_id

    async def submission(
        self,
        script: Script | None = None,
        *,
        name: str | None = None,
        attempts: int = 1,
        rules: tuple[Any, ...] = (),
        limit: float | None = None,
        after: Sequence[JobId | Dependency] = (),
        task: Task | None = None,
        nodes: Nodes | None = None,
        array_size: int | None = None,
        children: Mapping[int, Script] = {},
        queue: str = "default",
        millicpus: int = 250,
        memory_mib: int = 32,
        gpus: int = 0,
        share: str | None = None,
        priority: int = 0,
        needs: Mapping[str, int] = {},
        tags: Mapping[str, str] = {},
        later: Sequence[Script] = (),
        **container: Any,
    ) -> JobRequest:
        """`priority` is that within the share; `needs` are units of consumable resources by name."""
        spec = scripts.spec(script or Script(seconds=0), *later, children=children)
        size = Resources(millicpus=millicpus, memory_mib=memory_mib, gpus=gpus)
        defined = f"script-{next(self._definitions)}"
        own = replace(spec, resources=size, **container)
        definition = builders.definition(name=defined, container=own, task=task, nodes=nodes)
        await self.catalog.definitions.register(definition, caller=self.caller)
        return JobRequest(
            name=name or defined,
            queue=QueueName(queue),
            definition_name=defined,
            retry=RetryStrategy(attempts=attempts, evaluate_on_exit=rules),
            timeout=None if limit is None else timedelta(seconds=limit),
            array_size=array_size,
            tags=tuple(tags.items()),
            share_identifier=share,
            scheduling_priority=None if share is None else priority,
            needs=tuple(ConsumableRequirement(resource=ConsumableName(need), quantity=of) for need, of in needs.items())
            or None,
            depends_on=tuple(
                job_id if isinstance(job_id, Dependency) else Dependency(job_id=job_id) for job_id in after
            ),
        )

    async def cancel(self, job_id: JobId, reason: str = "not needed", *, caller: Caller | None = None) -> None:
        await self.jobs.stop(job_id, StopRequest(kind=StopKind.CANCEL, reason=reason), caller=caller or self.caller)

    async def terminate(
        self, job_id: JobId, reason: str = "stop it", *, caller: Caller | None = None, **more: Any
    ) -> None:
        """`more`: checkpoint, keep_checkpoints, force, signal, grace."""
        request = StopRequest(kind=StopKind.TERMINATE, reason=reason, **more)
        await self.jobs.stop(job_id, request, caller=caller or self.caller)

    def step_disk_clock(self, seconds: float) -> None:
        """Set the clock of the checkpoints' disk ahead of the server's, or back.

        The clock of a real disk is not set: that of the server is set in the opposite direction.
        """
        if isinstance(self.clock, ShiftedClock):
            self.clock.ahead -= timedelta(seconds=seconds)
        else:
            self._disk_clock.step(seconds)

    async def write_checkpoint(self, job_id: JobId, name: str) -> None:
        """Write a checkpoint of the job, as its program does."""
        folder = await self.checkpoints.directory(job_id)
        assert folder is not None, f"{job_id} has no checkpoint directory"
        (folder / name).write_text("x")
        if self.virtual:
            os.utime(folder / name, ns=(nanoseconds(self.clock.now()),) * 2)

    async def checkpoint_names(self, job_id: JobId) -> list[str]:
        """The names of the job's checkpoints, oldest first."""
        return [entry.name for entry in await self.checkpoints.entries(job_id, ended=True)]

    async def wait_for_checkpoint(self, job_id: JobId, name: str) -> None:
        """Wait until the program has written this checkpoint; no server has to run."""

        async def holds() -> bool:
            return name in await self.checkpoint_names(job_id)

        await self.until(holds, f"{job_id} never wrote {name}")

    async def hold(self, job_id: JobId, reason: str = "not yet") -> None:
        await self.jobs.hold(job_id, reason, caller=self.caller)

    async def submit_held(self, reason: str = "not yet", *, paused: bool = False, **fields: Any) -> JobId:
        """Submit a job and hold or pause it at once, so that it is not placed."""
        event = (on.PauseRequested if paused else on.HoldRequested)(reason=reason, user=self.caller.user)
        return await self.submit_and(lambda job_id: self.engine.deliver(job_id, event, caller=self.caller), **fields)

    async def release(self, job_id: JobId) -> bool:
        return await self.jobs.release(job_id, caller=self.caller)

    async def pause(self, job_id: JobId, reason: str = "not now") -> None:
        await self.jobs.stop(job_id, StopRequest(kind=StopKind.PAUSE, reason=reason), caller=self.caller)

    async def resume(self, job_id: JobId) -> bool:
        return await self.jobs.resume_job(job_id, caller=self.caller)

    async def cancel_all(self, *ids: str, reason: str = "not needed", **of: Any) -> dict[str, str]:
        """Cancel the jobs with these ids, or those that a filter selects; the outcome by id."""
        return await self.stop_many(StopRequest(kind=StopKind.CANCEL, reason=reason), *ids, **of)

    async def terminate_all(self, *ids: str, reason: str = "stop it", **of: Any) -> dict[str, str]:
        return await self.stop_many(StopRequest(kind=StopKind.TERMINATE, reason=reason), *ids, **of)

    async def stop_many(self, order: StopRequest, *ids: str, preview: bool = False, **of: Any) -> dict[str, str]:
        return {
            outcome.job_id: str(outcome.outcome) for outcome in await self.outcomes(order, *ids, preview=preview, **of)
        }

    async def outcomes(self, order: StopRequest, *ids: str, preview: bool = False, **of: Any) -> list[JobOutcome]:
        selection = JobSelection(
            ids=ids or None, **{key: value if value is True else frozenset(value) for key, value in of.items()}
        )
        stop = self.bulk_stops.preview if preview else self.bulk_stops.stop
        return [line async for some in await stop(order, selection, caller=self.caller) for line in some]

    async def finish(self, job_id: JobId, status: Status | None = None, *, container_key: str = "") -> None:
        """End a job of a LASTING script: its container gets the signal directly, without the server.

        The signal is repeated until the container has ended, because the script may not handle it yet. Then wait for
        the job's status; None: do not wait.
        """
        tag = replace((await self.wait_for(job_id, Status.RUNNING)).tag, container_key=container_key)

        async def holds() -> bool:
            with suppress(ContainerGone):
                await self.machine.signal_stop(tag)
            found = await self.machine.inspect(tag)
            return found is None or found.state is ContainerState.EXITED

        await self.until(holds, f"{job_id} did not end")
        if status is not None:
            await self.wait_for(job_id, status)

    async def why(self, job_id: JobId, *, caller: Caller | None = None) -> Explanation:
        """Why the job waits, what it does, or why it failed, as `caller` reads it; None: the scenario's caller."""
        return await self.server.explanations.why(job_id, caller=caller or self.caller)

    async def wait_for_why(
        self, job_id: JobId, code: str, sentence: str = "*", *, caller: Caller | None = None, **facts: Any
    ) -> Explanation:
        """Wait until the job has an explanation with this code; then compare its sentence and these facts.

        In `sentence` `*` stands for any text.
        """

        async def holds() -> bool:
            with suppress(NotFound):
                return (await self.why(job_id, caller=caller)).code == code
            return False

        try:
            await self.until(holds, f"never came to {code}")
        except TimeoutError:
            raise AssertionError(f"{await self.why(job_id)} {await self.describe(job_id)}") from None
        why = check(await self.why(job_id, caller=caller), code, sentence)
        assert {name: why.facts.get(name) for name in facts} == facts, why
        return why

    async def leave_safe_mode(self, *, purge: bool) -> None:
        await self.engine.leave_safe_mode(purge=purge, caller=builders.ADMIN)

    async def force_fail(self, job_id: JobId, reason: str = "it does not end") -> Job:
        return await self.jobs.force_fail(job_id, reason, caller=self.caller)

    async def job(self, job_id: JobId) -> Job:
        return (await self.store.jobs([job_id]))[job_id]

    async def described(self, *ids: JobId) -> list[Job]:
        """The jobs as DescribeJobs reports them."""
        return list(await self.jobs.describe(ids, caller=self.caller))

    async def wait_for(
        self, job_id: JobId, status: Status, *, exit_codes: Sequence[int | None] | None = None, **expected: Any
    ) -> Job:
        """Wait until the job has this status; then its members must have the expected values.

        `exit_codes`: those of all its attempts; None: any.
        """
        job = await self._reach(job_id, status)
        seen = {name: getattr(job, name) for name in expected}
        assert seen == expected, await self.describe(job_id)
        if exit_codes is not None:
            assert [attempt.exit_code for attempt in job.attempts] == list(exit_codes), await self.describe(job_id)
        return job

    async def wait_until(self, job_id: JobId, so: Callable[[Job], bool]) -> Job:
        """Wait until the condition holds for the job."""

        async def holds() -> bool:
            return so(await self.job(job_id))

        await self.until(holds, f"never came to that: {job_id}", stored=True)
        return await self.job(job_id)

    async def wait_for_signal(self, job_id: JobId) -> Job:
        """Wait until the delivery of the checkpoint or stop signal under way is stored."""
        return await self.wait_until(job_id, lambda job: next_step_at(job) is not None)

    async def statuses(self, job_id: JobId) -> list[str]:
        """The statuses of the job's history, in order."""
        return [str(moment.status) for moment in await self.store.history(job_id) if moment.is_status]

    async def engine_calls(self, job_id: JobId, attempt: int = 1, container_key: str = "") -> list[str]:
        """The calls of the container engine for an attempt's container, once the server is idle.

        Repeated removals are reported once, because a survey may find a container that is being removed; so are kills,
        which are repeated until the container is dead.
        """
        await self.wait_until_idle()
        calls = self.runtime.calls(Tag(job_id=job_id, attempt=attempt, container_key=container_key))
        return [call for after, call in pairwise(["", *calls]) if call != after or call not in {"kill", "remove"}]

    async def engine_calls_by_container(self, job_id: JobId, what: str) -> list[str]:
        """The containers of a job for which the engine got this call, in the order of the calls."""
        await self.wait_until_idle()
        return [tag.container_key for tag, call in self.runtime.all_calls if tag.job_id == job_id and call == what]

    async def output(self, job_id: JobId, attempt: int = 1, container_key: str = "") -> list[str]:
        """The archived output of the attempt, or of one of its containers, once the server is idle."""
        await self.wait_until_idle()
        tag = Tag(job_id=job_id, attempt=attempt, container_key=container_key)
        page = await self.archive.read(tag.log_id, position=0, limit=1000, max_bytes=1 << 20)
        return [line.message for line in page.lines]

    async def wait_for_output(self, job_id: JobId, message: str, container_key: str = "") -> None:
        """Wait until the job runs and its only container, or the named one, has written this line."""
        tag = replace((await self.wait_for(job_id, Status.RUNNING)).tag, container_key=container_key)
        await self.until(lambda: self._wrote(tag, message), f"{job_id} never wrote {message!r}")

    async def wait_for_call(self, job_id: JobId, call: str, *, times: int = 1, container_key: str = "") -> None:
        """Wait until the engine got this call for the job's first attempt, answered or not."""

        async def holds() -> bool:
            return self.runtime.calls(Tag(job_id=job_id, attempt=1, container_key=container_key)).count(call) >= times

        await self.until(holds, f"{call} was never called for {job_id}")

    async def sleep(self, seconds: float) -> None:
        """Wait on the world's clock."""
        await self.clock.sleep(seconds)

    async def wait_for_engine(self, *, up: bool) -> None:
        async def holds() -> bool:
            return (self.engine.health().engine is None) is up

        await self.until(holds, f"the engine never was {'up' if up else 'away'}")

    async def wait_until_containers_are_gone(self) -> None:
        await self.until(self._none_left, "containers are left over")

    async def wait_until_idle(self) -> None:
        """Wait until no message is unread, no unit of work is in progress, and no task runs except the engine's loops.

        A commit can be read from the store slightly before its unit of work gets the reply and acts on it.
        """
        await self.until(self._is_idle, f"never idle: {self.engine.tasks.names}")

    async def describe(self, job_id: JobId) -> str:
        job = await self.job(job_id)
        walk = " > ".join(await self.statuses(job_id))
        return f"{job_id} [{walk}] reason {job.status_reason!r} attempts {job.attempts} stop {job.stop} {job}"

    async def end(self) -> None:
        """Remove all faults, end all jobs, and check that nothing is left over."""
        self.caller = builders.ADMIN
        self.store.failing = self.store.withholds_replies = False
        self.runtime.repair()
        await self.wait_for_engine(up=True)
        await self.wait_until_idle()
        assert self.engine.loop.scheduler.queued_jobs.queued == +Counter(await self.store.queued())
        if self.engine.health().safe_mode is not None:
            await self.leave_safe_mode(purge=True)
        order = StopRequest(kind=StopKind.TERMINATE, reason="the scenario is over", force=True)
        await self.stop_many(order, names=["*"])
        await self.until(self._all_gone, "containers or jobs are left over", patience=REMOVAL_TIMEOUT)
        await self.wait_until_idle()
        assert not +Counter(await self.store.queued())
        await self.engine.stop()  # a last survey may still have found something that the next server would find
        assert self.engine.tasks.names == []

    async def _reach(self, job_id: JobId, status: Status) -> Job:
        async def holds() -> bool:
            job = (await self.store.jobs([job_id])).get(job_id)  # a child may not be there yet
            if job is not None and job.status in FINISHED and job.status is not status:
                raise AssertionError(f"did not come to {status}: {await self.describe(job_id)}")
            return job is not None and job.status is status

        try:
            await self.until(holds, f"did not come to {status}", stored=True)
        except TimeoutError:
            raise AssertionError(f"did not come to {status} in time: {await self.describe(job_id)}") from None
        return await self.job(job_id)

    async def until(self, holds: Any, otherwise: str, *, stored: bool = False, patience: float = TIMEOUT) -> None:
        """Poll on the world's clock until `holds` returns true. Raises TimeoutError. RuntimeUnknown counts as false.

        `stored`: `holds` reads stored jobs only; on the virtual clock it is called again only after a commit.
        """
        end = self.clock.now() + timedelta(seconds=patience)
        while self.clock.now() <= end:
            commits = self.store.commits
            with suppress(RuntimeUnknown):
                if await holds():
                    return
            if stored and self.virtual and self.store.commits == commits:
                await self._next_commit(end)
            await self.clock.sleep(POLL_INTERVAL)
        raise TimeoutError(otherwise)

    async def _next_commit(self, end: datetime) -> None:
        """Return after the next commit, at `end` at the latest."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.store.next_commit(), (end - self.clock.now()).total_seconds())

    async def _is_idle(self) -> bool:
        await asyncio.sleep(0)
        return self.server.is_idle()

    async def _all_gone(self) -> bool:
        return not self.engine.loop.state.active and await self._none_left()

    async def _none_left(self) -> bool:
        return not await self.runtime.survey()

    async def _wrote(self, tag: Tag, message: str) -> bool:
        """Whether the container has written the line; false if it does not exist yet."""
        try:
            lines: list[LogLine] = [line async for line in self.runtime.logs(tag, after=0)]
        except ContainerGone:
            return False
        return any(line.message == message for line in lines)


def check(why: Explanation, code: str, sentence: str) -> Explanation:
    """Check the code and the sentence, in which `*` stands for any text."""
    assert why.code == code, why
    assert fnmatchcase(why.sentence, sentence), why.sentence
    return why


def new_simulated(
    *,
    machines: tuple[Machine, ...] = one_machine(HOST),
    survey_interval: float = 10.0,
    new_job_id: Callable[[], JobId] | None = None,
) -> World:
    """A world of simulated containers, the real store in memory, and the virtual clock. It is not booted."""
    clock = VirtualClock()
    return World(
        store=InlineStore(),
        runtime=SimulatedRuntime(clock=clock, machines=machines),
        archive=InlineLogFiles(),
        clock=clock,
        survey_interval=survey_interval,
        new_job_id=new_job_id,
    )


@asynccontextmanager
async def simulated() -> AsyncIterator[World]:
    """A booted simulated world, which must end with nothing left over."""
    world = new_simulated()
    async with running(world):
        yield world
    await world.machine.close()
    await world.store.store.close()


@asynccontextmanager
async def docker(
    directory: Path,
    *,
    network: Network = Network.HOST,
    base_url: str | None = None,
    limits: Limits = LIMITS,
    survey_interval: float = 1.0,
) -> AsyncIterator[World]:
    """A booted world on Docker and an SQLite file. Without `base_url` the engine is that of DOCKER_HOST.

    A shared network takes as long to create and remove as a job runs, so only tests that need one have one.
    """
    store = await SqliteStore.open(directory)
    runtime = DockerRuntime(instance=f"t{uuid4().hex[:10]}", base_url=base_url, limits=limits, network=network)
    archive = LogFiles(directory / "logs")
    checkpoints = CheckpointFiles(directory / "checkpoints")
    world = World(
        store=store,
        runtime=runtime,
        archive=archive,
        clock=ShiftedClock(),
        survey_interval=survey_interval,
        checkpoints=checkpoints,
    )
    try:
        async with running(world):
            yield world
        await until(lambda: _nothing_is_left(runtime, base_url))
    finally:
        for found in await until_answered(runtime.survey):
            await until_answered(partial(runtime.remove, found.tag))
        await runtime.close()
        await store.close()
        checkpoints.close()
    await leaves_nothing(base_url, runtime._instance)


async def _nothing_is_left(runtime: DockerRuntime, base_url: str | None) -> bool:
    """Whether no container, network or volume is left; leftovers of a crash are removed after two surveys.

    The networks that jobs share remain for the next jobs.
    """
    await until_answered(runtime.survey)
    shared = shared_network_name(runtime._instance, SharedNetwork(environment="local"))
    return all(name.lstrip("/").startswith(shared) for name in left_over(base_url, runtime._instance))


@asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    await world.boot()
    await world.create_default_catalog()
    try:
        yield world
        await world.end()
    finally:
        await world.crash()
