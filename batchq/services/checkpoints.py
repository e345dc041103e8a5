"""The checkpoint service: lists, requests and deletes checkpoints of jobs."""

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import replace

from batchq.audit import Journal
from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.access.audit import DONE, record_of
from batchq.domain.ids import JobId, node_of
from batchq.domain.job import ACTIVE, Job, Status
from batchq.engine.engine import Engine
from batchq.errors import Invalid, NotFound
from batchq.ports.checkpoints import Checkpoint, CheckpointStore, CheckpointType
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore


class CheckpointSummary(Struct, frozen=True, kw_only=True):
    """The checkpoints of a job as a whole."""

    count: int
    #: The size of all checkpoints.
    size_bytes: int
    #: The newest complete checkpoint; None: there is none.
    latest: Checkpoint | None


class CheckpointService:
    """Requests about checkpoints. Jobs that are not visible to the caller are treated as missing.

    Checkpoints of jobs whose records were removed after the retention period are visible to operators and admins.
    """

    def __init__(
        self, *, engine: Engine, store: JobStore, checkpoints: CheckpointStore, journal: Journal, clock: Clock
    ) -> None:
        self._engine = engine
        self._store = store
        self._checkpoints = checkpoints
        self._journal = journal
        self._clock = clock
        #: By user: a user reads one directory at a time, so the threads remain free for others and for starts.
        self._reads: WeakValueDictionary[UserName, asyncio.Lock] = WeakValueDictionary()

    async def list(self, job_id: JobId, *, caller: Caller) -> tuple[Checkpoint, ...]:
        """The checkpoints of a job, oldest first, at most 1000; those of a node are those of its whole job.

        Raises NotFound and StoreFailed.
        """
        whole, _ = node_of(job_id)
        job = await self._visible(whole, job_id, caller)
        async with self._reads.setdefault(caller.user, asyncio.Lock()):
            found = await self._checkpoints.entries(whole, ended=job is None or job.status not in ACTIVE)
        final = {it.final_checkpoint for it in (() if job is None else job.stop_orders)}
        return tuple(replace(it, type=CheckpointType.FINAL) if it.name in final else it for it in found)

    async def get(self, job_id: JobId, checkpoint_id: str, *, caller: Caller) -> Checkpoint:
        """One checkpoint of a job. Raises NotFound and StoreFailed."""
        for it in await self.list(job_id, caller=caller):
            if it.id == checkpoint_id:
                return it
        raise NotFound(f"Checkpoint {checkpoint_id} of job {job_id} not found.")

    async def summary(self, job_id: JobId, *, caller: Caller) -> CheckpointSummary:
        """The number, the size and the newest of a job's checkpoints. Raises NotFound and StoreFailed."""
        found = await self.list(job_id, caller=caller)
        complete: Sequence[Checkpoint] = [it for it in found if it.complete]
        return CheckpointSummary(
            count=len(found),
            size_bytes=sum(it.size_bytes for it in found),
            latest=complete[-1] if complete else None,
        )

    async def request(self, job_id: JobId, *, caller: Caller) -> None:
        """Request a checkpoint now: send the signal that the job declared to the containers of its main node.

        Raises NotFound; Invalid for a job that does not run, is being stopped or declared no signal; Unavailable if the
        container engine does not answer.
        """
        whole, node = node_of(job_id)
        if node is not None:
            raise Invalid(f"Job {job_id} is a node: name the whole job {whole}.")
        job = await self._visible(whole, job_id, caller)
        if job is None or job.status is not Status.RUNNING:
            raise Invalid(f"Job {job_id} is not RUNNING: a checkpoint cannot be requested.")
        if job.spec.checkpoints is None or job.spec.checkpoints.signal is None:
            raise Invalid(f"Job {job_id} declared no checkpoint signal: a checkpoint cannot be requested.")
        if job.stop is not None:
            raise Invalid(f"Job {job_id} is being stopped: a checkpoint cannot be requested.")
        await self._record(job_id, job, caller)
        await self._checkpoints.record_request(whole, self._clock.now())
        await self._engine.signal(job, f"SIG{job.spec.checkpoints.signal}")

    async def delete(self, job_id: JobId, checkpoint_id: str, *, caller: Caller) -> None:
        """Delete a checkpoint. Raises NotFound and StoreFailed."""
        whole, _ = node_of(job_id)
        job = await self._visible(whole, job_id, caller)
        found = await self.get(job_id, checkpoint_id, caller=caller)
        await self._record(job_id, job, caller)
        await self._checkpoints.discard(whole, [found.name])

    async def _visible(self, whole: JobId, job_id: JobId, caller: Caller) -> Job | None:
        """The job; None if its record was removed and the caller may see its checkpoints. Raises NotFound."""
        job = (await self._store.jobs([whole], visibility=caller.visibility)).get(whole)
        if job is not None:
            return job
        if caller.reaches_all and self._has_directory(whole):
            return None
        raise NotFound(f"Job {job_id} not found.")

    def _has_directory(self, job_id: JobId) -> bool:
        try:
            return self._checkpoints.directory(job_id) is not None
        except Invalid:  # not an id of a job
            return False

    async def _record(self, job_id: JobId, job: Job | None, caller: Caller) -> None:
        """Add an audit record, before the change."""
        record = record_of(caller, at=self._clock.now(), resource=f"job/{job_id}", outcome=DONE)
        if job is not None:
            record = replace(record.about_job(job_id, job.spec.owner, job.status), outcome=DONE)
        await asyncio.to_thread(self._journal.append, record)
