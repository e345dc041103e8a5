"""The reasons of jobs that have ended. Pure."""

from typing import ClassVar

from batchq.domain.enums import Status
from batchq.domain.explanation.explanation import Explanation, Texts
from batchq.domain.explanation.started_reasons import STOP_FACTS

_KILLED_BY_OTHERS = (
    "batchq did not kill it. Likely cause: its memory limit of {memoryLimit}, which the container engine does not "
    "always report."
)
_PEAK = "The last sample showed a peak of {peakMemoryBytes}."
_KILLED_PEAK = "The last sample showed a peak of {peakMemoryBytes}, of {memoryLimit}."


class FailedReason(Explanation):
    """The job is FAILED."""

    statuses = (Status.FAILED,)


class AttemptFailedReason(FailedReason):
    """The last attempt of the job failed."""

    more: ClassVar[Texts] = ("Attempt {attempt} of {attempts}.", "No further attempt: {verdict}.")
    fact_names: ClassVar[Texts] = ("exitCode", "reason", "attempt", "attempts", "verdict", "container")


class ExitCodeReason(AttemptFailedReason):
    """The container exited with an exit code other than 0."""

    code = "EXIT_CODE"
    labels = ("{exitCode}",)
    sentences = ("Ended with {exitCode}.",)
    more = (_KILLED_BY_OTHERS, _KILLED_PEAK, *AttemptFailedReason.more)
    fact_names = ("peakMemoryBytes", *AttemptFailedReason.fact_names)


class OutOfMemoryReason(AttemptFailedReason):
    """The container was killed because it exceeded its memory."""

    code = "OUT_OF_MEMORY"
    labels = ("out of memory ({memoryMiB})",)
    sentences = ("Killed because it exceeded its {memoryMiB} of memory. Request more.",)
    more = (_PEAK, *AttemptFailedReason.more)
    fact_names = ("memoryMiB", "peakMemoryBytes", *AttemptFailedReason.fact_names)


class ImageUnavailableReason(AttemptFailedReason):
    """The image could not be pulled."""

    code = "IMAGE_UNAVAILABLE"
    labels = ("image not pulled",)
    sentences = ("Image {image} could not be pulled: {reason}.",)
    fact_names = ("image", *AttemptFailedReason.fact_names)


class NotStartedReason(AttemptFailedReason):
    """The container could not be started."""

    code = "NOT_STARTED"
    labels = ("not started",)
    sentences = ("Its container could not be started: {reason}.", "Its container could not be started.")


class ForbiddenReason(AttemptFailedReason):
    """The job requests what its account, or the server, does not permit."""

    code = "FORBIDDEN"
    labels = ("not permitted",)
    sentences = ("Not permitted: {reason}.", "Not permitted.")


class HostLostReason(AttemptFailedReason):
    """The host, or its container engine, went down while the container ran."""

    code = "HOST_LOST"
    labels = ("host went down",)
    sentences = ("The host, or its container engine, went down while the job ran.",)


class ContainerLostReason(AttemptFailedReason):
    """Another program than batchq removed the container."""

    code = "CONTAINER_LOST"
    labels = ("container removed",)
    sentences = ("Its container disappeared: another program removed it.",)


class TimedOutReason(FailedReason):
    """The job was stopped because its time limit passed."""

    code = "TIMED_OUT"
    labels = ("time limit of {timeLimitSeconds}", "time limit")
    sentences = ("Stopped by its time limit of {timeLimitSeconds}.", "Stopped by its time limit.")
    fact_names = ("timeLimitSeconds", "attempt", "attempts", *STOP_FACTS)


class DependencyFailedReason(FailedReason):
    """A job that the job depends on failed."""

    code = "DEPENDENCY_FAILED"
    labels = ("dependency failed",)
    sentences = (
        "Its dependency {dependency} failed: {cause}",
        "Its dependency {dependency} failed.",
        "One of its dependencies failed.",
    )
    fact_names = ("dependency",)


class ChildFailedReason(FailedReason):
    """The job is an array, and a child failed."""

    code = "CHILD_FAILED"
    labels = ("{failed} of {size} failed",)
    sentences = ("{failed} of {size} failed.",)
    more = ("The last one is index {index}: {child}",)
    fact_names = ("size", "succeeded", "failed", "child")


class OrderedReason(FailedReason):
    """A user or a rule ordered the job to stop."""

    sentences = ("{order}.",)
    fact_names: ClassVar[Texts] = STOP_FACTS


class CancelledReason(OrderedReason):
    """The job was cancelled."""

    code = "CANCELLED"
    labels = ("cancelled",)
    more = ("Its last attempt ended with {exitCode}.",)
    fact_names = ("exitCode", *STOP_FACTS)


class TerminatedReason(OrderedReason):
    """The job was terminated."""

    code = "TERMINATED"
    labels = ("terminated",)
    more = CancelledReason.more
    fact_names = CancelledReason.fact_names


class ForceFailedReason(OrderedReason):
    """An administrator gave up the job because its container did not exit."""

    code = "FORCE_FAILED"
    labels = ("force-failed",)


class BlockedTooLongReason(FailedReason):
    """A jobStateTimeLimitAction of the queue cancelled the job."""

    code = "BLOCKED_TOO_LONG"
    labels = ("blocked too long",)
    sentences = ("Cancelled because it was blocked longer than queue {jobQueue} allows: {reason}.",)
    fact_names = ("jobQueue", "reason")


class InvalidReason(FailedReason):
    """The request was accepted, as AWS accepts it, and is not valid."""

    code = "INVALID"
    labels = ("not valid",)
    sentences = ("Not valid: {reason}.",)
    fact_names = ("reason",)


class UnreadableReason(Explanation):
    """The stored record of the job was damaged."""

    code = "UNREADABLE"
    labels = ("record damaged",)
    statuses = tuple(status for status in Status if status is not Status.SUCCEEDED)
    sentences = ("Its record in the database was damaged and could not be read: it cannot continue.",)


class SucceededReason(Explanation):
    """The job succeeded."""

    code = "SUCCEEDED"
    labels = ("",)
    statuses = (Status.SUCCEEDED,)
    sentences = ("Succeeded after {length}.", "Succeeded.")
    more = ("Attempt {attempt} of {attempts}.",)
    fact_names = ("attempt", "attempts")
