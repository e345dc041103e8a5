"""Translates between jobs and containers: how a container is created, and the events of its inspection. Pure."""

from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.catalog import Network
from batchq.domain.container import numbered
from batchq.domain.enums import AttemptContainerState
from batchq.domain.ids import Tag, node_id
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle.container_rules import container_with_key, is_last_to_start
from batchq.domain.lifecycle.status import attempt_of
from batchq.domain.task import DefinitionForm
from batchq.domain.training import MOUNT_POINT
from batchq.ports.checkpoints import PreparedDirectory
from batchq.ports.runtime import ContainerState, Inspection, LaunchSpec

NEVER_RAN = "Container state lost"


def launch_spec(job: Job, tag: Tag, network: Network | None = None, *, oci_runtime: str | None = None) -> LaunchSpec:
    """How to create a container of the current attempt. `network` and `oci_runtime` are those of its environment."""
    attempt, node, name = attempt_of(job), tag.node, tag.container
    task = job.spec.nodes.task(node)
    container = container_with_key(job, tag.container_key)
    return LaunchSpec(
        tag=tag,
        spec=numbered(job.spec.nodes.containers[tag.container_key].spec, node),
        environment=tuple(_environment(job, attempt, node).items()),
        container_id=container.container_id,
        job_name=job.spec.name,
        machine=container.machine,
        placed_on=attempt.environment,
        network=network,
        oci_runtime=oci_runtime,
        share_ipc=task.share_ipc,
        share_pids=task.share_pids,
        beside=tuple(
            [replace(other, spec=numbered(other.spec, node)) for other in task.containers if other.name != name]
        ),
        nodes=job.spec.nodes.count,
        is_main_node=node == job.spec.nodes.main,
    )


def _environment(job: Job, attempt: Attempt, node: int) -> dict[str, str]:
    common = {
        "AWS_BATCH_JOB_ID": job.id,
        "AWS_BATCH_JOB_ATTEMPT": str(attempt.number),
        "AWS_BATCH_JQ_NAME": job.spec.queue,
        "AWS_BATCH_CE_NAME": attempt.environment,
        "AWS_EXECUTION_ENV": "AWS_ECS_EC2",
    }
    return common | _child_variables(job) | _node_variables(job, attempt, node)


def _child_variables(job: Job) -> dict[str, str]:
    if job.child is None:
        return {}
    return {"AWS_BATCH_JOB_ARRAY_INDEX": str(job.child.index), "AWS_BATCH_JOB_ARRAY_SIZE": str(job.spec.array_size)}


def _node_variables(job: Job, attempt: Attempt, node: int) -> dict[str, str]:
    """AWS: each node has its own job id, and all nodes but the main node get the main node's address."""
    nodes = job.spec.nodes
    if nodes.form is not DefinitionForm.NODES:
        return {}
    variables = {
        "AWS_BATCH_JOB_ID": node_id(job.id, node),
        "AWS_BATCH_JOB_MAIN_NODE_INDEX": str(nodes.main),
        "AWS_BATCH_JOB_NODE_INDEX": str(node),
        "AWS_BATCH_JOB_NUM_NODES": str(nodes.count),
    }
    if node != nodes.main:
        for container in attempt.containers:
            if container.node == nodes.main and container.address is not None:
                return variables | {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": container.address}
    return variables


def is_first(job: Job, tag: Tag) -> bool:
    """Whether no other container of the attempt under way can have run: a container runs after its id is saved."""
    containers = () if job.attempt is None else job.attempt.containers
    return all(container.container_id is None for container in containers if container.key != tag.container_key)


def with_checkpoints(launch: LaunchSpec, prepared: PreparedDirectory) -> LaunchSpec:
    """The launch with the checkpoint directory of its job."""
    variables = {"BATCHQ_CHECKPOINT_DIR": MOUNT_POINT}
    if prepared.resume_from is not None:
        variables["BATCHQ_RESUME_FROM"] = prepared.resume_from
    return replace(
        launch, environment=(*launch.environment, *variables.items()), checkpoint_directory=str(prepared.path)
    )


def events_of_inspection(tag: Tag, found: Inspection | None) -> tuple[on.AttemptEvent, ...]:
    """The events of an attempt that should be running. For an ended container, its start comes before its exit."""
    number, key = tag.attempt, tag.container_key
    if found is None:
        return (on.ContainerLost(attempt=number, container_key=key),)
    match found.state:
        case ContainerState.GOING:
            return ()
        case ContainerState.CREATED:
            reason = status_reasons.HOST_TERMINATED if found.host_lost else NEVER_RAN
            return (on.ContainerLost(attempt=number, container_key=key, reason=reason),)
        case ContainerState.RUNNING:
            assert found.started_at is not None, f"{found} runs and has no start time"
            return (
                on.ContainerStarted(
                    attempt=number, container_key=key, started_at=found.started_at, address=found.address
                ),
            )
        case ContainerState.EXITED:
            return exit_events(tag, found)


def is_known_to_run(tag: Tag, job: Job | None) -> bool:
    """Whether the container is saved as RUNNING, and only its end is a new event.

    False while another container has still to start: that one may wait for an address which is not known yet.
    """
    if job is None or job.attempt is None or job.attempt.number != tag.attempt:
        return False
    container = container_with_key(job, tag.container_key)
    return container.state is AttemptContainerState.RUNNING and is_last_to_start(job, tag.container_key)


def is_urgent(event: on.AttemptEvent, job: Job | None) -> bool:
    """Whether the event must be handled without delay.

    Only the start of the attempt's last container can wait, without a pending stop: its timeout counts from
    `started_at`, whenever the event is handled.
    """
    if not isinstance(event, on.ContainerStarted) or job is None or job.attempt is None or job.stop is not None:
        return True
    return not is_last_to_start(job, event.container_key)


def exit_events(tag: Tag, found: Inspection) -> tuple[on.AttemptEvent, ...]:
    """The events that report when an ended container started, and how and when it exited."""
    number, key = tag.attempt, tag.container_key
    assert found.started_at is not None, f"{found} has ended and has no start time"
    assert found.stopped_at is not None, f"{found} has ended and has no end time"
    assert found.exit_code is not None, f"{found} has ended and has no exit code"
    return (
        on.ContainerStarted(attempt=number, container_key=key, started_at=found.started_at),
        on.ContainerExited(
            attempt=number,
            container_key=key,
            exit_code=found.exit_code,
            started_at=found.started_at,
            stopped_at=found.stopped_at,
            out_of_memory=found.out_of_memory,
            host_lost=found.host_lost,
            failure=found.failure,
        ),
    )
