"""A world to tell scenarios in: batchq without its API, on pretended containers or on real ones.

`then` waits for a status and holds the job against what is expected of it. What a world leaves behind is checked when
it ends: no container, no unread message, no call under way, and every job at its end or with a reason to move.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec.structs import replace

from batchq.clock import SystemClock
from batchq.compute.docker.create_request import SharedNetwork, shared_network_name
from batchq.compute.docker.runtime import DockerRuntime
from batchq.compute.docker.thread_pools import LIMITS, Limits
from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain import events as on
from batchq.domain.bulk_stop import BulkStopOrder, JobFilter, Kind
from batchq.domain.catalog import NETWORK_TAG, Network, PolicyName
from batchq.domain.container import Overrides, Resources
from batchq.domain.ids import JobId, QueueName, Tag
from batchq.domain.job import FINISHED, Dependency, Job, RetryStrategy, Status
from batchq.domain.task import Nodes, Task
from batchq.engine.messages import JobEvent
from batchq.errors import ContainerGone, EngineUnknown
from batchq.ports.clock import BootClock
from batchq.ports.jobs import Changes, Restoration
from batchq.ports.logs import LogArchive, LogLine
from batchq.ports.runtime import ContainerRuntime, ContainerState
from batchq.services.bulk_stop import BulkStopRequest
from batchq.services.jobs import Submission, specify
from batchq.store.log_files import LogFiles
from batchq.store.sqlite_store import SqliteStore
from tests.support import builders, scripts
from tests.support.clock import VirtualClock
from tests.support.containers import insisting, leaves_nothing, left_over, until
from tests.support.in_process_server import InProcessServer, Store
from tests.support.inline import InlineLogFiles, InlineStore
from tests.support.recording_runtime import RecordingRuntime
from tests.support.scripts import AMPLE, Script
from tests.support.store_proxy import StoreProxy

HOST = Resources(millicpus=4000, memory_mib=4096)
GRACE = timedelta(seconds=2)  # of those who are deaf
PATIENCE = 60.0  # seconds of the world's own time


class World:
    def __init__(
        self,
        *,
        store: Store,
        runtime: ContainerRuntime,
        archive: LogArchive,
        clock: BootClock,
        survey_every: float,
        new_job_id: Callable[[], JobId] | None = None,
    ) -> None:
        self.store = StoreProxy(store)
        self.machine = runtime
        self.runtime = RecordingRuntime(runtime)
        self.clock = clock
        self.archive = archive
        self.survey_every = survey_every
        self._new_job_id = new_job_id
        self._definitions = count()
        self.caller = builders.ADMIN
        self.people = builders.PEOPLE

    @property
    def virtual(self) -> bool:
        """Whether time is simulated."""
        return getattr(self.clock, "virtual", False)

    @property
    def slack(self) -> timedelta:
        """The permitted delay: almost none on a virtual clock; on Docker it depends on the machine."""
        return timedelta(seconds=0.5 if self.virtual else PATIENCE)

    async def boot(self) -> None:
        """Start a server on what is stored."""
        self.server = InProcessServer(
            store=self.store,
            runtime=self.runtime,
            archive=self.archive,
            clock=self.clock,
            people=lambda: self.people,
            survey_every=self.survey_every,
            new_job_id=self._new_job_id,
        )
        self.engine, self.catalog, self.logs = self.server.engine, self.server.catalog, self.server.logs
        self.service = self.server.job_service(stop_grace=GRACE)
        self.stopping = self.server.bulk_stops
        await self.server.align()
        await self.server.start()

    async def settle_ground(self) -> None:
        """The environment `local` and the queue `default`, as a first start makes them."""
        await self.environment("local", max_millicpus=HOST.millicpus)
        await self.queue("default", environments=("local",))

    async def environment(self, name: str, *, max_millicpus: int, network: Network | None = None) -> None:
        made = builders.environment(name, max_millicpus=max_millicpus)
        tags = () if network is None else ((NETWORK_TAG, network.value),)
        await self.catalog.create_environment(
            name=made.name, state=made.state, max_millicpus=max_millicpus, document="{}", tags=tags, caller=None
        )

    async def queue(
        self,
        name: str,
        *,
        environments: Sequence[str] = ("local",),
        priority: int = 1,
        policy: PolicyName | None = None,
    ) -> None:
        made = builders.queue(name, environments=tuple(environments))
        await self.catalog.create_queue(
            name=made.name,
            state=made.state,
            priority=priority,
            environments=made.environments,
            policy=policy,
            document="{}",
            tags=(),
            caller=None,
        )

    async def crash(self) -> None:
        """The server is gone from one moment to the next; store and containers go on."""
        await self.server.kill()

    async def crash_once_done(self, call: str) -> None:
        """The engine carries out a call that was held, and the server is gone before it has saved that."""
        self.store.failing = True
        self.runtime.release(call)
        await self.passes(1)
        await self.crash()
        self.store.failing = False

    async def restart_with_clock(self, clock: BootClock) -> None:
        """The machine's clock is set while the server is down."""
        await self.crash()
        self.clock = clock
        await self.boot()

    async def restart(self) -> None:
        await self.crash()
        await self.boot()

    def backup(self) -> Store:
        """All that is stored now."""
        return self.store.store.copy()

    async def restore(self, backup: Store) -> None:
        """The server is gone, and the next starts on what was stored once; the containers are as they are."""
        await self.crash()
        self.store.store = backup.copy()
        await self.store.commit(Changes(restoration=Restoration(at=self.clock.now())))
        await self.boot()

    async def submit(self, script: Script | None = None, **asked: Any) -> JobId:
        """A job that plays a script. Takes `attempts`, `rules`, `limit` (seconds), `after` (ids), `queue` and size.

        Its grace is short if it is deaf, or the test says so, as for those who may be asked before they listen.
        """
        (job_id,) = await self.submit_many(1, script, **asked)
        return job_id

    async def submit_many(
        self, number: int, script: Script | None, *, grace: timedelta | None = None, **asked: Any
    ) -> list[JobId]:
        """As many jobs of one definition, in their order."""
        submission = await self.submission(script, **asked)
        usual = AMPLE if script is not None and script.on_term is not None else GRACE
        service = self.server.job_service(stop_grace=usual if grace is None else grace)
        return [(await service.submit(submission, caller=self.caller)).id for _ in range(number)]

    async def submit_and(self, request: Callable[[JobId], Awaitable[None]], **asked: Any) -> JobId:
        """A job and a request about it that lie in the inbox together, so that the job is SUBMITTED when it is read."""
        submission = await self.submission(**asked)
        definition = await self.catalog.definitions.find(submission.definition_name, None, caller=self.caller)
        job_id = JobId(str(uuid4()))
        spec = specify(submission, definition, owner=self.caller.owner, stop_grace=GRACE)
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
        **container: Any,
    ) -> Submission:
        spec = scripts.spec(script or Script(seconds=0), children=children)
        size = Resources(millicpus=millicpus, memory_mib=memory_mib)
        defined = f"script-{next(self._definitions)}"
        definition = builders.definition(name=defined)
        await self.catalog.definitions.register(
            replace(definition, container=replace(spec, resources=size, **container)), caller=self.caller
        )
        return Submission(
            name=name or defined,
            queue=QueueName(queue),
            definition_name=defined,
            overrides=Overrides(),
            retry=RetryStrategy(attempts=attempts, evaluate_on_exit=rules),
            timeout=None if limit is None else timedelta(seconds=limit),
            task=task,
            nodes=nodes,
            array_size=array_size,
            depends_on=tuple(it if isinstance(it, Dependency) else Dependency(job_id=it) for it in after),
        )

    async def cancel(self, job_id: JobId, reason: str = "not needed") -> None:
        await self.service.cancel(job_id, reason, caller=self.caller)

    async def terminate(self, job_id: JobId, reason: str = "stop it") -> None:
        await self.service.terminate(job_id, reason, caller=self.caller)

    async def cancel_all(self, *ids: str, reason: str = "not needed", **of: Any) -> dict[str, str]:
        """Of those of which this holds. The answer is what became of each."""
        return await self.sweep(BulkStopOrder(kind=Kind.CANCEL, reason=reason), *ids, **of)

    async def terminate_all(self, *ids: str, reason: str = "stop it", **of: Any) -> dict[str, str]:
        return await self.sweep(BulkStopOrder(kind=Kind.TERMINATE, reason=reason), *ids, **of)

    async def sweep(self, order: BulkStopOrder, *ids: str, preview: bool = False, **of: Any) -> dict[str, str]:
        asked = BulkStopRequest(
            ids=ids or None, accounts=of.pop("accounts", None), rest=JobFilter(**{it: frozenset(of[it]) for it in of})
        )
        stop = self.stopping.preview if preview else self.stopping.stop
        return {
            it.job_id: str(it.outcome) async for some in await stop(order, asked, caller=self.caller) for it in some
        }

    async def finish(self, job_id: JobId, *, part: str = "") -> None:
        """One that is lasting ends now, and nobody ordered that: its container is told so, whether or not we serve.

        Told again until it hears: it may not listen yet.
        """
        tag = replace((await self.then(job_id, Status.RUNNING)).tag, part=part)

        async def over() -> bool:
            with suppress(ContainerGone):
                await self.machine.signal_stop(tag)
            found = await self.machine.inspect(tag)
            return found is None or found.state is ContainerState.EXITED

        await self._until(over, f"{job_id} did not end")

    async def force_fail(self, job_id: JobId, reason: str = "it does not end") -> Job:
        return await self.service.force_fail(job_id, reason, caller=self.caller)

    async def job(self, job_id: JobId) -> Job:
        return (await self.store.jobs([job_id]))[job_id]

    async def described(self, *ids: JobId) -> list[Job]:
        """As DescribeJobs shows them."""
        return [job for job, _ in await self.service.describe(ids, caller=self.caller)]

    async def then(self, job_id: JobId, status: Status, **expected: Any) -> Job:
        """Wait until the job is in this status; then its members must be as expected."""
        job = await self._reach(job_id, status)
        seen = {name: getattr(job, name) for name in expected}
        assert seen == expected, await self.story(job_id)
        return job

    async def reaches(self, job_id: JobId, so: Callable[[Job], bool]) -> Job:
        """Wait until this is so of the job."""

        async def there() -> bool:
            return so(await self.job(job_id))

        await self._until(there, f"never came to that: {job_id}")
        return await self.job(job_id)

    async def walk(self, job_id: JobId) -> list[str]:
        """The statuses that the job has been through."""
        return [str(moment.status) for moment in await self.store.history(job_id)]

    async def asked(self, job_id: JobId, attempt: int = 1, part: str = "") -> list[str]:
        """What the engine was asked about an attempt's container, once nothing more is being asked.

        Removals that follow each other are one: a survey may see what is being removed, and ask again. So are kills:
        they are repeated until the container is dead.
        """
        await self.quiet()
        asked = self.runtime.calls(Tag(job_id=job_id, attempt=attempt, part=part))
        return [it for after, it in pairwise(["", *asked]) if it != after or it not in {"kill", "remove"}]

    async def asked_of_all(self, job_id: JobId, what: str) -> list[str]:
        """The containers of a job of several, in the order in which this was asked of them."""
        await self.quiet()
        return [tag.part for tag, asked in self.runtime.all_calls if tag.job_id == job_id and asked == what]

    async def output(self, job_id: JobId, attempt: int = 1, part: str = "") -> list[str]:
        """What the attempt wrote, as it is kept; of an attempt of several containers, what one of them did."""
        tag = Tag(job_id=job_id, attempt=attempt, part=part)
        page = await self.archive.read(tag.log_id, position=0, limit=1000, max_bytes=1 << 20)
        return [line.message for line in page.lines]

    async def says(self, job_id: JobId, message: str, part: str = "") -> None:
        """Wait until the job runs and its attempt (or the container of it that is named) has written a line."""
        tag = replace((await self.then(job_id, Status.RUNNING)).tag, part=part)
        await self._until(lambda: self._wrote(tag, message), f"{job_id} never wrote {message!r}")

    async def comes_to_be_asked(self, job_id: JobId, call: str, *, times: int = 1, part: str = "") -> None:
        """Wait until the engine has been asked this about the job's first attempt, whether or not it has answered."""

        async def so() -> bool:
            return self.runtime.calls(Tag(job_id=job_id, attempt=1, part=part)).count(call) >= times

        await self._until(so, f"{call} was never asked of {job_id}")

    async def is_saved_unheard(self) -> None:
        """Wait until a store that is mute has taken something."""

        async def so() -> bool:
            return self.store.unanswered_commits > 0

        await self._until(so, "nothing was saved")

    async def passes(self, seconds: float) -> None:
        """Let time go by."""
        await self.clock.sleep(seconds)

    async def engine_is(self, *, up: bool) -> None:
        async def so() -> bool:
            return (self.engine.health().engine is None) is up

        await self._until(so, f"the engine never was {'up' if up else 'away'}")

    async def containers_gone(self) -> None:
        await self._until(self._none_left, "containers are left over")

    def tell_again(self, job_id: JobId) -> None:
        """The news of the first attempt's end comes a second time, late."""
        moment = self.clock.now()
        news = on.ContainerExited(attempt=1, exit_code=1, started_at=moment, stopped_at=moment)
        self.engine.inbox.post(JobEvent(job_id=job_id, event=news))

    async def quiet(self) -> None:
        """Wait until no message is unread, no unit of work is on its way, and no call is under way but the loops.

        What a unit of work saves can be read a little before the unit of work hears of it and acts on it.
        """
        await self._until(self._is_quiet, f"never quiet: {self.engine.tasks.names}")

    async def story(self, job_id: JobId) -> str:
        job = await self.job(job_id)
        walk = " > ".join(await self.walk(job_id))
        return f"{job_id} [{walk}] reason {job.status_reason!r} attempts {job.attempts} stop {job.stop} {job}"

    async def end(self) -> None:
        """Nothing is left over: whatever still runs is terminated first, as a scenario may leave it."""
        for job in [job for job in self.engine.loop.state.active.values() if job.status not in FINISHED]:
            await self.terminate(job.id, "the scenario is over")
        await self._until(self._all_gone, "containers or jobs are left over")
        await self.quiet()
        assert self.engine.loop.scheduler.tally.waiting == +Counter(await self.store.queued())
        await self.engine.stop()  # a last survey may still have told something, which the next server would find out
        assert self.engine.tasks.names == []

    async def _reach(self, job_id: JobId, status: Status) -> Job:
        async def there() -> bool:
            job = (await self.store.jobs([job_id])).get(job_id)  # a child may not be there yet
            if job is not None and job.status in FINISHED and job.status is not status:
                raise AssertionError(f"did not come to {status}: {await self.story(job_id)}")
            return job is not None and job.status is status

        try:
            await self._until(there, f"did not come to {status}")
        except TimeoutError:
            raise AssertionError(f"did not come to {status} in time: {await self.story(job_id)}") from None
        return await self.job(job_id)

    async def _until(self, holds: Any, otherwise: str) -> None:
        """Look often, in the world's own time, and not for ever. What is not answered does not hold yet."""
        end = self.clock.now() + timedelta(seconds=PATIENCE)
        while self.clock.now() <= end:
            with suppress(EngineUnknown):
                if await holds():
                    return
            await self.clock.sleep(0.01)
        raise TimeoutError(otherwise)

    async def _is_quiet(self) -> bool:
        await asyncio.sleep(0)
        return self.server.is_idle()

    async def _all_gone(self) -> bool:
        return not self.engine.loop.state.active and await self._none_left()

    async def _none_left(self) -> bool:
        return not await self.runtime.survey()

    async def _wrote(self, tag: Tag, message: str) -> bool:
        """Of several containers, one may not be there yet."""
        try:
            lines: list[LogLine] = [line async for line in self.runtime.logs(tag, after=0)]
        except ContainerGone:
            return False
        return any(line.message == message for line in lines)


def simulated(
    *, capacity: Resources = HOST, survey_every: float = 10.0, new_job_id: Callable[[], JobId] | None = None
) -> World:
    """A world of simulated containers, the real store in memory, and the virtual clock. It is not booted."""
    clock = VirtualClock()
    return World(
        store=InlineStore(),
        runtime=SimulatedRuntime(clock=clock, capacity=capacity),
        archive=InlineLogFiles(),
        clock=clock,
        survey_every=survey_every,
        new_job_id=new_job_id,
    )


@asynccontextmanager
async def pretended() -> AsyncIterator[World]:
    """A simulated world, from its first server to its end."""
    world = simulated()
    async with living(world):
        yield world
    await world.machine.close()


@asynccontextmanager
async def real(
    directory: Path,
    *,
    network: Network = Network.HOST,
    base_url: str | None = None,
    limits: Limits = LIMITS,
    survey_every: float = 1.0,
) -> AsyncIterator[World]:
    """Docker, SQLite, and the time it takes. Without an address the engine is where DOCKER_HOST says.

    A shared network takes as long as a job to be made, and to be taken away; so only those that ask have one.
    """
    store = await SqliteStore.open(directory)
    runtime = DockerRuntime(instance=f"t{uuid4().hex[:10]}", base_url=base_url, limits=limits, network=network)
    archive = LogFiles(directory / "logs")
    world = World(store=store, runtime=runtime, archive=archive, clock=SystemClock(), survey_every=survey_every)
    try:
        async with living(world):
            yield world
        await until(lambda: _nothing_is_left(runtime, base_url))
    finally:
        for found in await insisting(runtime.survey):
            await insisting(partial(runtime.remove, found.tag))
        await runtime.close()
        await store.close()
    await leaves_nothing(base_url, runtime._instance)


async def _nothing_is_left(runtime: DockerRuntime, base_url: str | None) -> bool:
    """No container, nor what containers shared; what a crash left is swept after two surveys.

    The networks that jobs share are left for the next jobs.
    """
    await insisting(runtime.survey)
    shared = shared_network_name(runtime._instance, SharedNetwork(environment="local"))
    return all(it.lstrip("/").startswith(shared) for it in left_over(base_url, runtime._instance))


@asynccontextmanager
async def living(world: World) -> AsyncIterator[World]:
    await world.boot()
    await world.settle_ground()
    try:
        yield world
        await world.end()
    finally:
        await world.crash()
