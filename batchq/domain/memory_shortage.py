"""Jobs that were killed for a lack of memory, and the memory that their next run should request. Pure."""

from math import ceil

from msgspec import Struct

from batchq.domain import status_reasons
from batchq.domain.enums import Status
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle.stopping import latest_order
from batchq.domain.task import DefinitionForm

GIB, STEP = 1024, 64  # MiB; amounts below 1 GiB are multiples of STEP, larger ones of GIB
MIB = 2**20
REQUEST_FACTOR, PEAK_FACTOR = 2, 1.5
#: The exit code after SIGKILL. Docker does not report every kill for a lack of memory: decision 0055.
KILLED = 137


class MemoryShortage(Struct, frozen=True, kw_only=True):
    """What a job requested and used when it was killed."""

    #: MiB.
    requested: int
    #: Bytes; None: not measured.
    peak: int | None
    #: Whether the container engine reported the lack of memory; False: SIGKILL that batchq did not send, so likely one.
    is_reported: bool

    def next_request(self, *, most: int | None) -> int | None:
        """The MiB that the next run should request: at least twice the request, and 1.5 times the peak, rounded up.

        `most`: the MiB that a machine has, None if that is not known; the result is at most this, rounded down. None if
        it would not be more than the request.
        """
        needed = max(self.requested * REQUEST_FACTOR, ceil((self.peak or 0) / MIB * PEAK_FACTOR))
        step = STEP if needed <= GIB else GIB
        enough = ceil(needed / step) * step
        if most is not None and enough > most:
            enough = most // GIB * GIB if most >= GIB else most // STEP * STEP
        return enough if enough > self.requested else None


def memory_shortage(job: Job) -> MemoryShortage | None:
    """The shortage of a FAILED job whose last attempt was killed, likely for a lack of memory; None for any other job.

    Also None for a job of several containers, whose resources a rerun does not change, and for a job that was stopped.
    """
    if job.status is not Status.FAILED or not job.attempts or latest_order(job) is not None:
        return None
    attempt = job.attempts[-1]
    is_reported = lacked_memory(attempt)
    was_killed = attempt.exit_code == KILLED and attempt.status_reason == status_reasons.EXITED
    if job.spec.nodes.form is not DefinitionForm.CONTAINER or not (is_reported or was_killed):
        return None
    container = deciding_container(attempt)
    use = None if container is None else container.use
    requested = job.spec.resources.memory_mib
    peak = None if use is None else use.peak_memory
    return MemoryShortage(requested=requested, peak=peak, is_reported=is_reported)


def lacked_memory(attempt: Attempt) -> bool:
    """Whether the container engine reported that the attempt ended by a lack of memory."""
    return deciding_reason(attempt).startswith(status_reasons.OUT_OF_MEMORY.partition(":")[0])


def deciding_container(attempt: Attempt) -> AttemptContainer | None:
    """The container that decided the attempt; None: an order ended it first."""
    return next((container for container in attempt.containers if container.key == attempt.decided_by), None)


def deciding_reason(attempt: Attempt) -> str:
    """The reason of the container that decided the attempt, or else of the attempt; empty without a reason."""
    container = deciding_container(attempt)
    return (None if container is None else container.reason) or attempt.reason or ""
