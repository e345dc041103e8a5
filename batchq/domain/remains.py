"""What a job leaves behind beside its row. Pure."""

from msgspec.structs import replace

from batchq.domain.job import Job
from batchq.domain.names import Tag


def tags(job: Job) -> tuple[Tag, ...]:
    """The containers of all its attempts, also of those that may never have run."""
    attempts = (*job.attempts, *(() if job.attempt is None else (job.attempt,)))
    whole = (Tag(job_id=job.id, attempt=it.number) for it in attempts)
    parts = ([part.key for part in it.parts] or [""] for it in attempts)
    return tuple(replace(tag, part=key) for tag, keys in zip(whole, parts, strict=True) for key in keys)
