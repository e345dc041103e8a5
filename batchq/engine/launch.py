"""What a container is told of its job: the environment of AWS Batch. Pure."""

from msgspec.structs import replace

from batchq.domain.catalog import Network
from batchq.domain.consequences import part_of
from batchq.domain.gates import main_node, task_of
from batchq.domain.job import Job
from batchq.domain.moves import attempt_of
from batchq.domain.names import Tag, node_id
from batchq.values import Launch


def launch(job: Job, tag: Tag, network: Network | None = None) -> Launch:
    """How to make a container of the attempt under way. `network` is what its compute environment says of it."""
    attempt = attempt_of(job)
    alone = Launch(
        tag=tag,
        spec=job.spec.container,
        environment=tuple(_environment(job, tag).items()),
        container=attempt.container,
        placed_on=attempt.environment,
        network=network,
    )
    if not tag.part:
        return alone
    task = task_of(job, int(tag.node))
    return replace(
        alone,
        spec=task.container(tag.container).spec,
        container=part_of(job, tag.part).container,
        share_ipc=task.share_ipc,
        share_pids=task.share_pids,
        beside=tuple(it.name for it in task.containers if it.name != tag.container),
    )


def _environment(job: Job, tag: Tag) -> dict[str, str]:
    attempt = attempt_of(job)
    of_all = {
        "AWS_BATCH_JOB_ID": job.id,
        "AWS_BATCH_JOB_ATTEMPT": str(attempt.number),
        "AWS_BATCH_JQ_NAME": job.spec.queue,
        "AWS_BATCH_CE_NAME": attempt.environment,
        "AWS_EXECUTION_ENV": "AWS_ECS_EC2",
    }
    return of_all | _of_child(job) | _of_node(job, tag)


def _of_child(job: Job) -> dict[str, str]:
    if job.child is None:
        return {}
    return {
        "AWS_BATCH_JOB_ARRAY_INDEX": str(job.child.index),
        "AWS_BATCH_JOB_ARRAY_SIZE": str(job.spec.array_size),
    }


def _of_node(job: Job, tag: Tag) -> dict[str, str]:
    """AWS: the nodes have ids of their own, and all but the main one are told where that is."""
    nodes = job.spec.nodes
    if nodes is None:
        return {}
    said = {
        "AWS_BATCH_JOB_ID": node_id(job.id, int(tag.node)),
        "AWS_BATCH_JOB_MAIN_NODE_INDEX": str(nodes.main),
        "AWS_BATCH_JOB_NODE_INDEX": tag.node,
        "AWS_BATCH_JOB_NUM_NODES": str(nodes.count),
    }
    address = _main_address(job)
    if int(tag.node) == nodes.main or address is None:
        return said
    return said | {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": address}


def _main_address(job: Job) -> str | None:
    main = main_node(job)
    return next((it.address for it in attempt_of(job).parts if it.node == main and it.address is not None), None)
