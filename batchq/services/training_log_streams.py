"""SageMaker's names of log streams: `JOB/algo-INSTANCE-TIME` in the log group `/aws/sagemaker/TrainingJobs`.

They are other names of streams of `/aws/batch/job`. INSTANCE counts from 1; TIME is when the attempt was placed, in
milliseconds since 1970, so that each attempt has streams of its own.
"""

from collections.abc import Mapping

from batchq.domain.access.accounts import Caller
from batchq.domain.attempt_tags import tags
from batchq.domain.ids import stream_name
from batchq.domain.job import Job
from batchq.errors import Invalid, NotFound
from batchq.services.named_jobs import NamedJobService

TRAINING_GROUP = "/aws/sagemaker/TrainingJobs"


class TrainingLogStreams:
    """The log streams of training jobs. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, named: NamedJobService) -> None:
        self._named = named

    async def names(self, prefix: str, *, caller: Caller) -> Mapping[str, str]:
        """The streams whose SageMaker names begin with `prefix`, as names of `/aws/batch/job`; sorted.

        Streams of containers that never started are included, although they do not exist. Raises Invalid unless the
        prefix has a whole job name.
        """
        name, slash, _ = prefix.partition("/")
        if not slash:
            raise Invalid(f"In {TRAINING_GROUP} a logStreamNamePrefix must begin with the name of a job and a slash.")
        job = await self._named.find(name, caller=caller)
        found = {} if job is None else _streams(job)
        return {it: found[it] for it in sorted(found) if it.startswith(prefix)}

    async def resolve(self, name: str, *, caller: Caller) -> str:
        """The name in `/aws/batch/job` of the stream with a SageMaker name. Raises NotFound."""
        found = await self.names(name, caller=caller) if "/" in name else {}
        if name not in found:
            raise NotFound("The specified log stream does not exist.")
        return found[name]


def _streams(job: Job) -> dict[str, str]:
    """The names in `/aws/batch/job` by SageMaker's."""
    attempts = (*job.attempts, *(() if job.attempt is None else (job.attempt,)))
    placed = {it.number: it.placed_at or job.created_at for it in attempts}
    return {
        f"{job.spec.name}/algo-{int(tag.node or 0) + 1}-{int(placed[tag.attempt].timestamp() * 1000)}": stream_name(
            job.spec.definition.name, tag
        )
        for tag in tags(job)
    }
