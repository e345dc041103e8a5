"""The tags of the containers of a job's attempts. Pure."""

from msgspec.structs import replace

from batchq.domain.ids import Tag
from batchq.domain.job import Job


def tags(job: Job) -> tuple[Tag, ...]:
    """The tags of the containers of all attempts of the job, including containers that may never have run."""
    attempts = (*job.attempts, *(() if job.attempt is None else (job.attempt,)))
    whole = (Tag(job_id=job.id, attempt=it.number) for it in attempts)
    keys_of = ([container.key for container in it.containers] or [""] for it in attempts)
    return tuple(replace(tag, container_key=key) for tag, keys in zip(whole, keys_of, strict=True) for key in keys)
