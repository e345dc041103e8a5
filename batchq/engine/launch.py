"""What a container is told of its job: the environment of AWS Batch. Pure."""

from batchq.domain.job import Job
from batchq.values import Launch


def launch(job: Job) -> Launch:
    """How to make the container of the attempt under way."""
    assert job.attempt is not None, f"{job.id} has no attempt to launch"
    environment = {
        "AWS_BATCH_JOB_ID": job.id,
        "AWS_BATCH_JOB_ATTEMPT": str(job.attempt.number),
        "AWS_BATCH_JQ_NAME": job.spec.queue,
        "AWS_BATCH_CE_NAME": job.attempt.environment,
        "AWS_EXECUTION_ENV": "AWS_ECS_EC2",
        **_array(job),
    }
    return Launch(tag=job.tag, spec=job.spec.container, environment=tuple(environment.items()))


def _array(job: Job) -> dict[str, str]:
    """AWS: for the children of arrays alone."""
    if job.child is None:
        return {}
    return {
        "AWS_BATCH_JOB_ARRAY_INDEX": str(job.child.index),
        "AWS_BATCH_JOB_ARRAY_SIZE": str(job.spec.array_size),
    }
