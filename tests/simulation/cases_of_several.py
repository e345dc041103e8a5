"""Cases of arrays, tasks, multi-node jobs, groups, pauses and bulk stops, for `fault_sweep` as those of `cases`."""

from collections.abc import Mapping
from datetime import timedelta

from batchq.compute.simulated.script import Script, script_variable
from batchq.domain.container import Resources
from batchq.domain.enums import Status
from batchq.domain.group_terms import GROUP_TAG, MAX_FAILED_TAG, MAX_RUNNING_TAG
from batchq.domain.job import RetryStrategy
from batchq.domain.job_selection import JobSelection
from batchq.domain.task import Condition, DefinitionForm, NodeRange, Nodes
from batchq.services.client_requests import RERUN_OF
from tests.simulation.cases import (
    CHECKPOINT_TAGS,
    FAILS,
    HANDLES_SIGNAL,
    IGNORES_SIGNAL,
    SHORT,
    SUCCEEDED,
    TERMINATED,
    WRITES_CHECKPOINT,
    Case,
    CaseRun,
    End,
)
from tests.simulation.submissions import LARGEST, SEQUENTIAL
from tests.support import builders

NEVER_RAN = End(status=Status.FAILED, attempts=0, starts=0, reason="a user stops it")
RESUMED = End(status=Status.SUCCEEDED, attempts=2, starts=2)


def failed(reason: str, *, attempts: int = 1, starts: int = 1) -> End:
    return End(status=Status.FAILED, attempts=attempts, starts=starts, reason=reason)


ARRAY_FAILED = failed("Array Child Job failed", attempts=0, starts=0)
EXITED = "Essential container in task exited"


def _are_running(run: CaseRun, *names: str) -> bool:
    return all(run.job(name).status is Status.RUNNING for name in names)


async def _array_is_terminated(run: CaseRun) -> None:
    await run.submit("a", IGNORES_SIGNAL, array_size=3)
    await run.until(lambda: run.job("a").array_state is not None and run.job("a").array_state.spawned == 3)
    run.name_children("a", 3)
    await run.until(lambda: _are_running(run, "a:0", "a:1", "a:2"))
    await run.terminate("a")


async def _array_is_sequential(run: CaseRun) -> None:
    own = (script_variable(FAILS, child=1),)
    await run.submit("a", SHORT, own=own, array_size=4, depends_on=(SEQUENTIAL,))
    await run.until(lambda: run.job("a").array_state is not None and run.job("a").array_state.spawned == 4)
    run.name_children("a", 4)


async def _array_is_retried_and_cancelled(run: CaseRun) -> None:
    """Its children would be retried, but for the cancel of their array."""
    slow = Script(seconds=40, exit_code=1)
    await run.submit("a", slow, array_size=2, retry=RetryStrategy(attempts=3))
    await run.until(lambda: run.job("a").array_state is not None and run.job("a").array_state.spawned == 2)
    run.name_children("a", 2)
    await run.until(lambda: _are_running(run, "a:0", "a:1"))
    await run.cancel("a")


async def _paused(run: CaseRun, script: Script, **fields) -> None:
    await run.submit("a", script, SHORT, **fields)
    await run.until(lambda: _are_running(run, "a"))
    await run.request("pause", "a")
    await run.until(lambda: run.job("a").status is Status.RUNNABLE)
    await run.request("resume_job", "a")


async def _array_is_paused(run: CaseRun) -> None:
    await run.submit("a", HANDLES_SIGNAL, SHORT, array_size=2)
    await run.until(lambda: run.job("a").array_state is not None and run.job("a").array_state.spawned == 2)
    run.name_children("a", 2)
    await run.until(lambda: _are_running(run, "a:0", "a:1"))
    await run.request("pause", "a")
    await run.until(lambda: all(run.job(name).held for name in ("a:0", "a:1")))
    await run.request("resume_job", "a")


async def _group_is_limited(run: CaseRun) -> None:
    for name in "abc":
        await run.submit(name, SHORT, tags=((GROUP_TAG, "g"), (MAX_RUNNING_TAG, "1")))


async def _group_fails(run: CaseRun) -> None:
    """The first job fails later than a server is away: a group that is closed takes no job."""
    tags = ((GROUP_TAG, "g"), (MAX_RUNNING_TAG, "1"), (MAX_FAILED_TAG, "1"))
    await run.submit("a", Script(seconds=25, exit_code=1), tags=tags)
    for name in "bc":
        await run.submit(name, SHORT, tags=tags)


async def _job_of_a_group_is_repeated(run: CaseRun) -> None:
    tags = ((GROUP_TAG, "g"), (MAX_RUNNING_TAG, "1"), (MAX_FAILED_TAG, "1"))
    await run.submit("a", FAILS, tags=tags)
    await run.until(lambda: run.job("a").status is Status.FAILED)
    await run.submit("b", SHORT, tags=(*tags, (RERUN_OF, run.ids["a"])))
    await run.until(lambda: run.job("b").status is Status.SUCCEEDED)
    await run.submit("c", SHORT, tags=tags)


async def _swept(run: CaseRun) -> None:
    for name in ("runs", "too"):
        await run.submit(name, HANDLES_SIGNAL, room={"millicpus": LARGEST})
    await run.until(lambda: _are_running(run, "runs", "too"))
    await run.submit("waits", SHORT, room={"millicpus": LARGEST})
    await run.submit("depends", SHORT, after="waits")
    await run.submit("array", SHORT, array_size=2, after="waits")
    await run.sweep(JobSelection(names=frozenset({"*"})))


def _container(name: str, *scripts: Script, essential: bool = True, after: Mapping[str, Condition] = {}):
    return builders.task_container(
        name,
        after=after,
        essential=essential,
        environment=(script_variable(*scripts),),
        resources=Resources(millicpus=250, memory_mib=32),
        start_timeout=None,
        stop_timeout=timedelta(seconds=2),
    )


async def _task(run: CaseRun) -> None:
    """The first container ends before the others; the side container is stopped when the essential one has ended."""
    containers = (
        _container("first", SHORT, essential=False),
        _container("side", HANDLES_SIGNAL, essential=False),
        _container("app", SHORT, after={"first": Condition.SUCCESS, "side": Condition.START}),
    )
    run.world.client.submissions.definitions["task"] = builders.definition(name="task", task=builders.task(*containers))
    await run.submit("a", definition_name="task")


async def _nodes(run: CaseRun, main: Script) -> None:
    """Two nodes; the second one ignores the signal that it gets when the main node has ended."""
    scripts = (main, IGNORES_SIGNAL)
    ranges = tuple(
        NodeRange(first=node, last=node, task=builders.task(_container("app", script)))
        for node, script in enumerate(scripts)
    )
    nodes = Nodes(count=2, main=0, ranges=ranges, form=DefinitionForm.NODES)
    run.world.client.submissions.definitions["nodes"] = builders.definition(name="nodes", nodes=nodes)
    await run.submit("a", definition_name="nodes")


async def _nodes_are_terminated(run: CaseRun) -> None:
    await _nodes(run, HANDLES_SIGNAL)
    await run.until(lambda: len(run.started("a")) == 2)
    await run.terminate("a")


STOPPED_CHILDREN = {f"a:{index}": TERMINATED for index in range(3)}
SEQUENCE = {
    "a": ARRAY_FAILED,
    "a:0": SUCCEEDED,
    "a:1": failed(EXITED),
    "a:2": failed("Dependent Job failed", attempts=0, starts=0),
    "a:3": failed("Dependent Job failed", attempts=0, starts=0),
}
CANCELLED = failed("a user cancels it")
LIMIT_OF_GROUP = "1 job of group g failed, its limit of failed jobs"
CLOSED = failed(LIMIT_OF_GROUP, attempts=0, starts=0)
SWEPT = {"runs": TERMINATED, "too": TERMINATED, "waits": NEVER_RAN, "depends": NEVER_RAN, "array": NEVER_RAN}
BY_PAUSE = {"a": RESUMED}

CASES_OF_SEVERAL = (
    Case(name="an array is terminated", steps=_array_is_terminated, ends={"a": NEVER_RAN} | STOPPED_CHILDREN),
    Case(name="a child of a sequential array fails", steps=_array_is_sequential, ends=SEQUENCE),
    Case(
        name="an array whose children fail is cancelled",
        steps=_array_is_retried_and_cancelled,
        ends={"a": failed("a user cancels it", attempts=0, starts=0), "a:0": CANCELLED, "a:1": CANCELLED},
    ),
    Case(name="one is paused and resumed", steps=lambda run: _paused(run, HANDLES_SIGNAL), ends=BY_PAUSE),
    Case(
        name="one writes a checkpoint for a pause",
        steps=lambda run: _paused(run, WRITES_CHECKPOINT, tags=CHECKPOINT_TAGS),
        ends=BY_PAUSE,
    ),
    Case(
        name="an array is paused and resumed",
        steps=_array_is_paused,
        ends={"a": End(status=Status.SUCCEEDED, attempts=0, starts=0), "a:0": RESUMED, "a:1": RESUMED},
    ),
    Case(name="a group runs one job after another", steps=_group_is_limited, ends=dict.fromkeys("abc", SUCCEEDED)),
    Case(
        name="a group is closed by a failure", steps=_group_fails, ends={"a": failed(EXITED), "b": CLOSED, "c": CLOSED}
    ),
    Case(
        name="the failed job of a group is repeated",
        steps=_job_of_a_group_is_repeated,
        ends={"a": failed(EXITED), "b": SUCCEEDED, "c": SUCCEEDED},
    ),
    Case(name="many are stopped by one order", steps=_swept, ends=SWEPT),
    Case(
        name="a task of three containers", steps=_task, ends={"a": End(status=Status.SUCCEEDED, attempts=1, starts=3)}
    ),
    Case(
        name="the main node ends first",
        steps=lambda run: _nodes(run, Script(seconds=40)),  # beyond the survey that repeats a start
        ends={"a": End(status=Status.SUCCEEDED, attempts=1, starts=2)},
    ),
    Case(
        name="two nodes are terminated",
        steps=_nodes_are_terminated,
        ends={"a": failed("a user stops it", starts=2)},
    ),
)
