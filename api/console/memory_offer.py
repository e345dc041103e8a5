"""The offer to submit jobs again with more memory: on the page of a job, and on that of a group."""

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from msgspec import Struct

from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller
from batchq.domain.job import Job
from batchq.domain.memory_shortage import GIB, memory_shortage


class MemoryOffer(Struct, frozen=True, kw_only=True):
    """A rerun of jobs that were killed, for a lack of memory as far as batchq knows."""

    #: How many jobs were killed.
    count: int
    #: Whether the container engine reported the lack of memory for each of them.
    is_reported: bool
    #: What each new job requests, in MiB.
    memory_mib: int
    #: The path of the page that submits them again.
    path: str


def memory_offer(
    parts: Parts, jobs: Iterable[Job], selection: Mapping[str, str], *, caller: Caller
) -> MemoryOffer | None:
    """The offer for those of `jobs` that were killed, and could request more; None without any.

    `selection`: the members of the rerun's query that select the jobs.
    """
    killed = [(job.spec.queue, shortage) for job in jobs if (shortage := memory_shortage(job)) is not None]
    most = {queue: parts.overviews.largest_memory(queue, caller=caller) for queue in {queue for queue, _ in killed}}
    requests = [mib for queue, shortage in killed if (mib := shortage.next_request(most=most[queue])) is not None]
    if not requests:
        return None
    mib = max(requests)
    memory = f"{mib // GIB}g" if mib % GIB == 0 else f"{mib}m"
    members = {**selection, "failed": "true", "outOfMemoryBelow": mib, "memory": memory}
    chosen = [shortage for _, shortage in killed if shortage.requested < mib]
    return MemoryOffer(
        count=len(chosen),
        is_reported=all(shortage.is_reported for shortage in chosen),
        memory_mib=mib,
        path=f"/ui/rerun?{urlencode(members)}",
    )
