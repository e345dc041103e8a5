"""Small scripted cases whose outcome does not depend on faults; `fault_sweep` runs them with one fault each."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from batchq.compute.simulated.script import Script, script_variable
from batchq.domain import status_reasons
from batchq.domain.container import Overrides
from batchq.domain.enums import Status, StopKind
from batchq.domain.ids import JobId, QueueName, child_id
from batchq.domain.job import Dependency, Job, RetryStrategy
from batchq.domain.job_request import JobRequest
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_request import StopRequest
from batchq.domain.training import CHECKPOINTS_TAG, SIGNAL_TAG, TIMEOUT_TAG
from tests.simulation import final_checks
from tests.simulation.container_records import ContainerRecord
from tests.simulation.planned_faults import PlannedFaults
from tests.simulation.submissions import LARGEST
from tests.simulation.world import World

BRIEF = Script(seconds=0)
SHORT = Script(seconds=2, output=("a line",))
FAILS = Script(seconds=1, exit_code=1)
IGNORES_SIGNAL = Script(seconds=None, on_term=None)
HANDLES_SIGNAL = Script(seconds=None, on_term=0)
WRITES_CHECKPOINT = Script(seconds=None, on_term=0, on_request="final", request_delay=3)
CHECKPOINT_TAGS = ((CHECKPOINTS_TAG, "true"), (SIGNAL_TAG, "USR1"), (TIMEOUT_TAG, "60"))
START_REFUSED_TWICE = Script(seconds=2, refuse="no such user", refusals=2, refuse_certain=False)
SETTLE_TIMEOUT = timedelta(minutes=5)
JOB_NAMES = tuple(f"job {number}" for number in range(300))
POLL_INTERVAL = 0.05  # seconds


@dataclass(frozen=True, kw_only=True)
class End:
    status: Status
    attempts: int
    starts: int
    reason: str | None = None


SUCCEEDED = End(status=Status.SUCCEEDED, attempts=1, starts=1)
TERMINATED = End(status=Status.FAILED, attempts=1, starts=1, reason="a user stops it")
TIMED_OUT = End(status=Status.FAILED, attempts=1, starts=1, reason=status_reasons.TIMED_OUT)


class CaseRun:
    """One run of a case. `answered_in` is the longest time that a request took."""

    def __init__(self, world: World, case: "Case", fate: PlannedFaults) -> None:
        self.world = world
        self.ids: dict[str, JobId] = {}
        self.answered_in = timedelta()
        self._case = case
        self._fate = fate

    async def run(self) -> None:
        await self.world.create_catalog()
        await self.world.serve()
        self._fate.over = False
        await self._case.steps(self)
        soon = self.world.clock.now() + SETTLE_TIMEOUT
        await final_checks.until(self.world, lambda: self._all_over, soon)
        self._fate.over = True
        await self.world.ready()
        await self.world.clock.sleep(self._fate.recovery_time)
        await final_checks.check(self.world)

    @property
    def _all_over(self) -> bool:
        return not self.world.unfinished() and not self.world.machine.engine.containers

    async def submit(self, name: str, *scripts: Script, after: str | None = None, **fields: Any) -> None:
        """Submit a job, until that is acknowledged. Without scripts it has those of its definition."""
        if scripts:
            room = {"millicpus": 250} | fields.pop("room", {})
            fields["overrides"] = Overrides(environment=(script_variable(*scripts), *fields.pop("own", ())), **room)
        if after is not None:
            fields["depends_on"] = (Dependency(job_id=self.ids[after]),)
        submission = JobRequest(
            **{"definition_name": "plain", "retry": RetryStrategy(attempts=1)} | fields,
            name=name,
            queue=QueueName("usual"),
            key=self.world.client.key(),
        )
        requested_at = self.world.clock.now()
        self.ids[name] = await self.world.client.submit_until_acknowledged(submission)
        self.answered_in = max(self.answered_in, self.world.clock.now() - requested_at)

    async def terminate(self, name: str) -> None:
        requested_at = self.world.clock.now()
        await self.world.client.end(self.ids[name])
        self.answered_in = max(self.answered_in, self.world.clock.now() - requested_at)

    async def terminate_with(self, name: str, **how: bool) -> None:
        """As `terminate`, with a final checkpoint or force."""
        await self.world.client.end(self.ids[name], **how)

    async def cancel(self, name: str) -> None:
        await self.world.client.end(self.ids[name], by_cancel=True)

    async def request(self, what: str, name: str) -> None:
        """Hold, pause, release or resume a job, until that is acknowledged."""
        client = self.world.client
        await client._until_acknowledged(lambda: client.hold(what, self.ids[name], patience=None))

    async def sweep(self, selection: JobSelection) -> None:
        """Terminate the selected jobs by one order, until all outcomes were reported."""
        client, order = self.world.client, StopRequest(kind=StopKind.TERMINATE, reason="a user stops it")
        await client._until_acknowledged(
            lambda: client.request(lambda server: client._receive_reports(server, order, selection))
        )

    def name_children(self, name: str, size: int) -> None:
        """Let the children of an array be named `NAME:INDEX` in the result."""
        self.ids |= {f"{name}:{index}": child_id(self.ids[name], index) for index in range(size)}

    async def until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            await self.world.clock.sleep(POLL_INTERVAL)

    async def passes(self, seconds: float) -> None:
        await self.world.clock.sleep(seconds)

    def job(self, name: str) -> Job:
        """The job as last committed."""
        return self.world.invariants.jobs[self.ids[name]]

    def started(self, name: str) -> list[ContainerRecord]:
        """The containers of the job that ever ran."""
        return [record for record in self.world.invariants.containers.of_job(self.ids[name]) if record.ran]

    def result(self) -> "CaseResult":
        containers = self.world.invariants.containers
        return CaseResult(
            jobs={name: self.job(name) for name in self.ids},
            containers={name: tuple(containers.of_job(job_id)) for name, job_id in self.ids.items()},
            answered_in=self.answered_in,
            counts=self.world.run_log.counts,
            points=self._fate.points,
            calls=self._fate.calls,
            commits=self._fate.commits,
        )


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """The result of a run. A test may keep hundreds: a result has no reference to the world, which has megabytes."""

    #: The jobs by name, as last committed.
    jobs: Mapping[str, Job]
    #: The containers of each job by name, in order of their creation.
    containers: Mapping[str, Sequence[ContainerRecord]]
    #: The longest time that a request took.
    answered_in: timedelta
    #: What the log of the run counted.
    counts: Counter[str]
    #: The numbers of the last point, of the last call of the engine, and of the last transaction.
    points: int
    calls: int
    commits: int

    def job(self, name: str) -> Job:
        return self.jobs[name]

    def started(self, name: str) -> list[ContainerRecord]:
        """The containers of the job that ever ran."""
        return [container for container in self.containers[name] if container.ran]

    def ends(self) -> Mapping[str, End]:
        return {
            name: End(
                status=job.status,
                attempts=len(job.attempts),
                starts=len(self.started(name)),
                reason=None if job.status is Status.SUCCEEDED else _without_id(job.status_reason),
            )
            for name, job in self.jobs.items()
        }


def _without_id(reason: str | None) -> str | None:
    """The status reason without the id of the dependency that failed."""
    failed = status_reasons.DEPENDENCY_FAILED
    return failed if reason is not None and reason.startswith(failed) else reason


@dataclass(frozen=True, kw_only=True)
class Case:
    """`ends` are the outcomes of its jobs by name, with and without faults."""

    name: str
    steps: Callable[[CaseRun], Awaitable[None]]
    ends: Mapping[str, End]


async def _one(run: CaseRun) -> None:
    await run.submit("a", SHORT)


async def _at_once(run: CaseRun) -> None:
    await run.submit("a", BRIEF)


async def _again(run: CaseRun) -> None:
    await run.submit("a", FAILS, FAILS, SHORT, retry=RetryStrategy(attempts=3))


async def _another_waits(run: CaseRun) -> None:
    await run.submit("a", SHORT)
    await run.submit("b", SHORT, after="a")


async def _no_room(run: CaseRun) -> None:
    for name in "abc":
        await run.submit(name, SHORT, room={"millicpus": LARGEST})


async def _pulled(run: CaseRun) -> None:
    await run.submit("a", SHORT, definition_name="pulled")


async def _terminated(run: CaseRun, script: Script) -> None:
    await run.submit("a", script)
    await run.until(lambda: run.started("a"))
    await run.passes(1)
    await run.terminate("a")


async def _with_a_checkpoint(run: CaseRun, *, force: bool = False) -> None:
    await run.submit("a", WRITES_CHECKPOINT, tags=CHECKPOINT_TAGS)
    await run.until(lambda: run.job("a").status is Status.RUNNING)
    await run.terminate_with("a", checkpoint=True)
    if force:
        await run.passes(1)
        await run.terminate_with("a", force=True)


async def _many_jobs(run: CaseRun) -> None:
    for name in JOB_NAMES:
        await run.submit(name, IGNORES_SIGNAL, room={"millicpus": 25, "memory_mib": 4})
    await run.until(lambda: all(run.job(name).status is Status.RUNNING for name in JOB_NAMES))
    run.answered_in = timedelta()
    await asyncio.gather(*(run.terminate(name) for name in JOB_NAMES))


async def _timed_out(run: CaseRun) -> None:
    await run.submit("a", IGNORES_SIGNAL, timeout=timedelta(seconds=2))


async def _fails(run: CaseRun) -> None:
    await run.submit("a", FAILS, SHORT, retry=RetryStrategy(attempts=3))


ONE = Case(name="one that succeeds", steps=_one, ends={"a": SUCCEEDED})
END_AT_ONCE = Case(name="one that ends at once", steps=_at_once, ends={"a": SUCCEEDED})
AGAIN = Case(
    name="one that succeeds at last", steps=_again, ends={"a": End(status=Status.SUCCEEDED, attempts=3, starts=3)}
)
FAILING = Case(
    name="one that fails first", steps=_fails, ends={"a": End(status=Status.SUCCEEDED, attempts=2, starts=2)}
)
DEPENDENT = Case(name="one after another", steps=_another_waits, ends={"a": SUCCEEDED, "b": SUCCEEDED})
NO_ROOM = Case(name="one without room", steps=_no_room, ends=dict.fromkeys("abc", SUCCEEDED))
PULLED = Case(name="one whose image is pulled", steps=_pulled, ends={"a": SUCCEEDED})
KILLED = Case(
    name="a job that ignores the signal is terminated",
    steps=lambda value: _terminated(value, IGNORES_SIGNAL),
    ends={"a": TERMINATED},
)
STOPPED = Case(
    name="one that handles the signal is terminated",
    steps=lambda value: _terminated(value, HANDLES_SIGNAL),
    ends={"a": TERMINATED},
)
CHECKPOINTED = Case(
    name="a job is terminated with a final checkpoint", steps=_with_a_checkpoint, ends={"a": TERMINATED}
)
FORCED = Case(
    name="a job that is to write a final checkpoint is forced",
    steps=lambda value: _with_a_checkpoint(value, force=True),
    ends={"a": TERMINATED},
)
TOO_LONG = Case(name="one takes too long", steps=_timed_out, ends={"a": TIMED_OUT})
REFUSED = Case(
    name="one starts in the end", steps=lambda value: value.submit("a", START_REFUSED_TWICE), ends={"a": SUCCEEDED}
)
MANY_JOBS = Case(name="a crowd is terminated", steps=_many_jobs, ends=dict.fromkeys(JOB_NAMES, TERMINATED))

CASES = (
    ONE,
    END_AT_ONCE,
    AGAIN,
    FAILING,
    DEPENDENT,
    NO_ROOM,
    PULLED,
    KILLED,
    STOPPED,
    CHECKPOINTED,
    FORCED,
    TOO_LONG,
    REFUSED,
)
