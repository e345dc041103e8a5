"""Values to test with: each builder gives something sensible, and takes what the test is about."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

from msgspec import Struct

from batchq.domain.access.accounts import Caller, Directory, User, UserName
from batchq.domain.catalog import (
    ComputeEnvironment,
    ConsumableResource,
    DefinitionStatus,
    EnvironmentName,
    JobDefinition,
    JobQueue,
    PolicyName,
    ResourceKind,
    SchedulingPolicy,
)
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.enums import ACTIVE, AttemptContainerState, Role, State, StopKind
from batchq.domain.explanation.facts import Holders, SchedulerState
from batchq.domain.ids import ConsumableName, DefinitionRef, JobId, QueueName, SubmissionKey, child_id
from batchq.domain.job import ArrayChild, Attempt, AttemptContainer, Dependency, ExitRule, Job, JobSpec, RetryStrategy
from batchq.domain.scheduling.resources import Usage
from batchq.domain.stop_values import STOPS_ATTEMPT, SignalStep, StopOrder
from batchq.domain.task import (
    Condition,
    ContainerDependency,
    DefinitionForm,
    NodeRange,
    Nodes,
    Task,
    TaskContainer,
    one_container,
    one_task,
)
from batchq.engine.account_limits import AccountPolicies
from batchq.ports.history import HistoryEntry
from batchq.ports.logs import LogStream

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
IMAGE = "batchq-test:latest"
ADMIN = Caller(user=UserName("tester"), role=Role.ADMIN)
PEOPLE = Directory(users={ADMIN.user: User(name=ADMIN.user, role=Role.ADMIN)})
NO_ACCOUNTS = AccountPolicies(directory=lambda: PEOPLE, enforced=False)

_numbers = count()


def job_id(number: int) -> JobId:
    """The id of the job that has this number: always the same one."""
    return JobId(str(UUID(int=number, version=4)))


def resources(**changes: Any) -> Resources:
    return Resources(**{"millicpus": 1000, "memory_mib": 128} | changes)


def container(**changes: Any) -> ContainerSpec:
    """`millicpus`, `memory_mib` and `gpus` may be given as they are."""
    fields = {name: changes.pop(name) for name in _names(Resources) & changes.keys()}
    return ContainerSpec(**{"image": IMAGE, "command": ("true",), "resources": resources(**fields)} | changes)


def task_container(name: str = "app", *, after: Mapping[str, str] | None = None, **changes: Any) -> TaskContainer:
    """`after`: the conditions of the containers it waits for. Members of ContainerSpec may be given as they are."""
    fields = {
        other_name: changes.pop(other_name)
        for other_name in (_names(ContainerSpec) | _names(Resources)) & changes.keys()
    }
    depends_on = tuple(
        ContainerDependency(container=key, condition=Condition(condition)) for key, condition in (after or {}).items()
    )
    return TaskContainer(**{"name": name, "spec": container(**fields), "depends_on": depends_on} | changes)


def task(*containers: TaskContainer, **changes: Any) -> Task:
    return Task(containers=containers or (task_container(),), **changes)


def gang(count: int = 3, *, main: int = 0, each: Task | None = None, leader: Task | None = None) -> Nodes:
    """Nodes that all run the same task, but for the main one where a `leader` is given."""
    led = () if leader is None else (NodeRange(first=main, last=main, task=leader),)
    ranges = (NodeRange(first=0, last=count - 1, task=each or task()), *led)
    return Nodes(count=count, main=main, ranges=ranges, form=DefinitionForm.NODES)


def nodes(changes: dict[str, Any]) -> Nodes:
    """What a job runs: the members `nodes`, `task` or `container`, else a container with the members of its spec.

    The members are removed from `changes`.
    """
    fields = {name: changes.pop(name) for name in (_names(ContainerSpec) | _names(Resources)) & changes.keys()}
    given, task, single = (changes.pop(name, None) for name in ("nodes", "task", "container"))
    return given or (one_task(task) if task else one_container(single or container(**fields)))


def retry(attempts: int = 1, *rules: ExitRule) -> RetryStrategy:
    return RetryStrategy(attempts=attempts, evaluate_on_exit=rules)


def spec(**changes: Any) -> JobSpec:
    """Members of ContainerSpec and Resources may be given as they are; `attempts` is short for a retry strategy.

    `depends_on` takes job ids as well as dependencies.
    """
    if "attempts" in changes:
        changes["retry"] = retry(changes.pop("attempts"))
    changes["depends_on"] = tuple(_dependency(on) for on in changes.get("depends_on", ()))
    return JobSpec(
        **{
            "name": "a-job",
            "queue": QueueName("default"),
            "definition": DefinitionRef(name="a-definition", revision=1),
            "nodes": nodes(changes),
            "stop_grace": timedelta(seconds=30),
        }
        | changes
    )


def job(**changes: Any) -> Job:
    """A SUBMITTED job, new each time. Fields that Job does not have are those of its spec: `job(name=..., attempts=3)`.

    `number` determines the id and the sequence; an active job has one attempt unless `changes` has others.
    """
    number = changes.pop("number", None)
    number = next(_numbers) if number is None else number
    attempts = changes.get("attempts")
    fields = {name: changes.pop(name) for name in changes.keys() - _names(Job)}
    if isinstance(attempts, int):
        fields["attempts"] = changes.pop("attempts")
    if "spec" not in changes:
        changes["spec"] = spec(**fields)
    elif fields:
        raise TypeError(fields)
    if changes.get("status") in ACTIVE and "attempt" not in changes:
        changes["attempt"] = attempt(
            number=len(changes.get("attempts", ())) + 1,
            started_at=changes.get("started_at"),
            containers=_containers(changes),
        )
    return Job(**{"id": job_id(number), "sequence": number, "created_at": NOON} | changes)


def _containers(changes: Mapping[str, Any]) -> tuple[AttemptContainer, ...]:
    """The containers of an active job, all in the state of the job, and stopping if the job has a stop order."""
    stopping: dict[str, Any] = {}
    for order in changes.get("stop_orders", ()):
        if order.kind in STOPS_ATTEMPT:
            stopping = {"stop_ordered": True, "steps": order.steps, "killed_at": order.killed_at}
    state = {"state": AttemptContainerState(changes["status"]), "started_at": changes.get("started_at")}
    return tuple(AttemptContainer(key=key, **state, **stopping) for key in changes["spec"].nodes.containers)


def child(of: Job, index: int, **changes: Any) -> Job:
    """A child of an array, with the sequence and the specification of that index."""
    fields = {"id": child_id(of.id, index), "sequence": of.sequence + 1 + index, "spec": of.spec}
    return job(**fields | {"child": ArrayChild(parent=of.id, index=index)} | changes)


def attempt(**changes: Any) -> Attempt:
    """An attempt. Without `containers` it has one, with the times and the outcome of the attempt."""
    state = AttemptContainerState.RUNNING if changes.get("started_at") else AttemptContainerState.STARTING
    state = AttemptContainerState.ENDED if changes.get("stopped_at") else state
    members = {name: changes[name] for name in _names(AttemptContainer) & _names(Attempt) & changes.keys()}
    alone = AttemptContainer(state=state, **members)
    return Attempt(**{"number": 1, "environment": "local", "containers": (alone,)} | changes)


def one_step(seconds: float = 30, signal: str | None = None) -> tuple[SignalStep, ...]:
    """The stop steps of a job without a checkpoint signal."""
    return (SignalStep(signal=signal, wait=timedelta(seconds=seconds)),)


def stop(**changes: Any) -> StopOrder:
    """A TerminateJob's order, whose signal is not delivered yet."""
    return StopOrder(
        **{"kind": StopKind.TERMINATE, "reason": "enough", "ordered_at": NOON, "steps": one_step()} | changes
    )


def cancel(reason: str = "not wanted", **changes: Any) -> StopOrder:
    """A CancelJob's order."""
    return StopOrder(**{"kind": StopKind.CANCEL, "reason": reason, "ordered_at": NOON} | changes)


def definition(**changes: Any) -> JobDefinition:
    """`name` and `revision` make the ref; members of ContainerSpec and Resources may be given as they are."""
    ref = DefinitionRef(name=changes.pop("name", "a-definition"), revision=changes.pop("revision", 1))
    return JobDefinition(
        **{
            "ref": ref,
            "status": DefinitionStatus.ACTIVE,
            "nodes": nodes(changes),
            "retry": retry(),
            "document": "{}",
            "created_at": NOON,
        }
        | changes
    )


def queue(name: str = "default", **changes: Any) -> JobQueue:
    return JobQueue(
        **{
            "name": QueueName(name),
            "state": State.ENABLED,
            "priority": 1,
            "environments": (EnvironmentName("local"),),
            "document": "{}",
            "created_at": NOON,
        }
        | changes
    )


def environment(name: str = "local", **changes: Any) -> ComputeEnvironment:
    return ComputeEnvironment(
        **{
            "name": EnvironmentName(name),
            "state": State.ENABLED,
            "max_millicpus": 4000,
            "document": "{}",
            "created_at": NOON,
        }
        | changes
    )


def policy(name: str = "fair", **changes: Any) -> SchedulingPolicy:
    return SchedulingPolicy(**{"name": PolicyName(name), "document": "{}", "created_at": NOON} | changes)


def consumable(name: str = "licences", **changes: Any) -> ConsumableResource:
    return ConsumableResource(
        **{"name": ConsumableName(name), "total": 10, "kind": ResourceKind.REPLENISHABLE, "created_at": NOON} | changes
    )


def moment(of: Job, **changes: Any) -> HistoryEntry:
    """A job's coming into the status it is in."""
    return HistoryEntry(
        **{"job_id": of.id, "at": NOON, "status": of.status, "reason": of.status_reason, "attempt": None} | changes
    )


def submission(**changes: Any) -> SubmissionKey:
    return SubmissionKey(
        **{"principal": "a-principal", "invocation_id": "an-invocation", "body_sha256": "0" * 64} | changes
    )


def scheduler_state(**changes: Any) -> SchedulerState:
    """The state of an engine that has not seen its host, and has nothing to do."""
    return SchedulerState(
        **{
            "now": NOON,
            "obstacle": None,
            "cluster": None,
            "queues": {},
            "policies": {},
            "usage": Usage().after(()),
            "holders": Holders({}, NOON),
            "heads": {},
            "starts": {},
        }
        | changes
    )


def log_stream(of: Job, **changes: Any) -> LogStream:
    """The stream of an active job's attempt."""
    return LogStream(**{"name": f"a-definition/default/{of.tag.task_id}", "tag": of.tag, "created_at": NOON} | changes)


def _dependency(on: Dependency | Job | JobId) -> Dependency:
    if isinstance(on, Dependency):
        return on
    return Dependency(job_id=on.id if isinstance(on, Job) else on)


def _names(of: type[Struct]) -> set[str]:
    return set(of.__struct_fields__)
