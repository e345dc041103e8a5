"""Finds jobs by a name that is unique among the jobs of a user, for dialects that address jobs by name.

The id of such a job begins with hashes of its name and of its owner. So a job is found by a prefix of its id, however
many jobs there are, and the store needs no index of names. Decision 0048. SageMaker's names of log streams follow from
the names of jobs.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from uuid import UUID, uuid4

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.ids import JobId, stream_name
from batchq.domain.job import Job
from batchq.domain.lifecycle.reconcile import container_tags
from batchq.errors import Invalid, NotFound
from batchq.ports.job_search import JobSearchQuery
from batchq.services.job_search import JobSearchService

MAX_EXAMINED = 100  # jobs of other users with the same name

_VERSION = "8"  # RFC 9562: a UUID whose bits the application chooses


class NamedJobService:
    """Jobs with unique names. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, search: JobSearchService, *, is_named: Callable[[Job], bool]) -> None:
        """`is_named`: whether a job with the right name is one that the dialect created and has not deleted."""
        self._search = search
        self._is_named = is_named
        self._reserved: set[tuple[str, str]] = set()

    async def find(self, name: str, *, caller: Caller) -> Job | None:
        """The job with this name: the caller's own, else the newest one that the caller may see."""
        own = await self.own(name, caller=caller)
        if own is not None:
            return own
        return await self._newest(name, _hash(name, 8), caller, limit=MAX_EXAMINED)

    async def own(self, name: str, *, caller: Caller) -> Job | None:
        """The caller's own job with this name."""
        found = await self._newest(name, _prefix(name, caller.user), caller, limit=1)
        return found if found is not None and found.spec.owner.user == caller.user else None

    @contextmanager
    def reserved(self, name: str, *, caller: Caller) -> Iterator[bool]:
        """Reserve a name during a submission. Yields False if another request of the user has reserved it."""
        key = (caller.user, name)
        if key in self._reserved:
            yield False
            return
        self._reserved.add(key)
        try:
            yield True
        finally:
            self._reserved.discard(key)

    async def _newest(self, name: str, prefix: str, caller: Caller, *, limit: int) -> Job | None:
        page = await self._search.search(JobSearchQuery(id_prefix=prefix, limit=limit), caller=caller)
        return next((it for it in page.jobs if it.spec.name == name and self._is_named(it)), None)


def new_id(name: str, user: UserName) -> JobId:
    """The id of a new job of `user` with this name."""
    fixed = _prefix(name, user).replace("-", "")
    return JobId(str(UUID(hex=fixed + uuid4().hex[len(fixed) :])))


def _prefix(name: str, user: UserName) -> str:
    """The beginning of the ids of all jobs of `user` with this name: 60 bits."""
    owner = _hash(f"{user}/{name}", 7)
    return f"{_hash(name, 8)}-{owner[:4]}-{_VERSION}{owner[4:]}"


def _hash(text: str, digits: int) -> str:
    return sha256(text.encode()).hexdigest()[:digits]


TRAINING_GROUP = "/aws/sagemaker/TrainingJobs"


class TrainingLogStreams:
    """SageMaker's log streams `JOB/algo-INSTANCE-TIME` in TRAINING_GROUP: other names of streams of `/aws/batch/job`.

    INSTANCE counts from 1; TIME is when the attempt was placed, in milliseconds since 1970, so that each attempt has
    streams of its own. Jobs that are not visible to the caller are treated as missing.
    """

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
    placed = {it.number: it.placed_at or job.created_at for it in job.all_attempts}
    return {
        f"{job.spec.name}/algo-{int(tag.node or 0) + 1}-{int(placed[tag.attempt].timestamp() * 1000)}": stream_name(
            job.spec.definition.name, tag
        )
        for tag in container_tags(job)
    }
