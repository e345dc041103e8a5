"""The rows of the table for jobs with an attempt under way, and for jobs that have ended. Pure."""

from collections.abc import Mapping

from batchq.domain.enums import Status
from batchq.domain.explanation.codes import QUEUED, STOP_FACTS, UNPLACED, Code, Row

_AWAY = "The container engine has not answered for {away}: an end of the job is seen when it does."
_KILLED_BY_OTHERS = (
    "batchq did not kill it. Likely cause: its memory limit of {memory_limit}, which the engine does not always report."
)
_END = ("Attempt {attempt} of {attempts}.", "No further attempt: {verdict}.")
_END_FACTS = ("exitCode", "reason", "attempt", "attempts", "verdict", "container")

STARTED_ROWS: Mapping[Code, Row] = {
    Code.PULLING_IMAGE: Row(
        statuses=(Status.STARTING,),
        applies="The engine pulls the image.",
        sentences=("Has been pulling image {image} for {length}.",),
        more=("{others} for the same image.",),
        facts=("image", "jobsWaiting"),
    ),
    Code.CLEANING_UP: Row(
        statuses=(Status.STARTING,),
        applies="The container of the previous attempt is being removed.",
        sentences=("Waits until the container of the previous attempt is removed.",),
    ),
    Code.HOST_FAILURE: Row(
        statuses=(Status.STARTING,),
        applies="The host fails to start containers for a cause that is not the job's.",
        sentences=("The host has failed to start containers for {length}: the start is repeated until it works.",),
        more=("Error: {detail}.",),
        facts=("detail", "computeEnvironment"),
    ),
    Code.START_REFUSED: Row(
        statuses=(Status.STARTING,),
        applies="The engine refused to start the container, and the start is tried again.",
        sentences=("The engine refused the start ({refusals}); it is tried again: {error}.",),
        facts=("refusals", "error", "computeEnvironment"),
    ),
    Code.CREATING_CONTAINER: Row(
        statuses=(Status.STARTING,),
        applies="The container is being created and started.",
        sentences=("Its container has been starting in {environment} for {length}.",),
        more=("{order}: it is not retried.",),
        facts=("computeEnvironment",),
    ),
    Code.STARTING_CONTAINERS: Row(
        statuses=(Status.STARTING,),
        applies="The job has several containers, and none of them runs yet.",
        sentences=("{containers} in {environment}, placed {length} ago: {starting} starting, {waiting} for others.",),
        facts=("computeEnvironment", "containers", "starting", "waiting"),
    ),
    Code.ABANDONING_START: Row(
        statuses=(Status.STARTING,),
        applies="The job was terminated while its container was starting.",
        sentences=("{order}: its start is being abandoned.",),
        facts=STOP_FACTS,
    ),
    Code.RUNNING: Row(
        statuses=(Status.RUNNING,),
        applies="The job runs.",
        sentences=("Has run for {length} in {environment}.",),
        more=("Its time limit ends it in {left}.", _AWAY),
        facts=("computeEnvironment", "startedAt", "endsBy", "attempt", "attempts"),
    ),
    Code.NO_RETRY: Row(
        statuses=(Status.RUNNING,),
        applies="The job was cancelled while it ran: the attempt continues and is the last one.",
        sentences=("Has run for {length} in {environment}, and will not be retried. {order}.",),
        more=("Its time limit ends it in {left}.", _AWAY),
        facts=("computeEnvironment", "startedAt", "endsBy", "attempt", "attempts", *STOP_FACTS),
    ),
    Code.STOPPING: Row(
        statuses=(Status.RUNNING,),
        applies="The job was terminated, and its container has not exited yet.",
        sentences=(
            "{order}: {signal} {signalled}, {next} follows in {left}.",
            "{order}: SIGKILL was sent {killed} ago.",
            "{order}: the stop signal is being sent.",
        ),
        facts=STOP_FACTS,
    ),
    Code.TIME_LIMIT: Row(
        statuses=(Status.RUNNING,),
        applies="The job's time limit has passed, and its container has not exited yet.",
        sentences=(
            "Its time limit of {limit} has passed: {signal} {signalled}, {next} follows in {left}.",
            "Its time limit of {limit} has passed: SIGKILL was sent {killed} ago.",
            "Its time limit of {limit} has passed: the stop signal is being sent.",
            "Its time limit has passed: it is being stopped.",
        ),
        facts=("timeLimitSeconds", *STOP_FACTS),
    ),
    Code.NOT_EXITING: Row(
        statuses=(Status.RUNNING,),
        applies="The container has not exited for a minute although it was killed.",
        sentences=("{order}. Its container has not exited although SIGKILL was sent {killed} ago.",),
        more=("Last resort of an administrator: `batchq force-fail`.",),
        facts=STOP_FACTS,
    ),
    Code.EXIT_CODE: Row(
        statuses=(Status.FAILED,),
        applies="The container exited with an exit code other than 0.",
        sentences=("Ended with {outcome}.",),
        more=(_KILLED_BY_OTHERS, *_END),
        facts=_END_FACTS,
    ),
    Code.OUT_OF_MEMORY: Row(
        statuses=(Status.FAILED,),
        applies="The container was killed because it exceeded its memory.",
        sentences=("Killed because it exceeded its {memory} of memory. Request more.",),
        more=_END,
        facts=("memoryMiB", *_END_FACTS),
    ),
    Code.TIMED_OUT: Row(
        statuses=(Status.FAILED,),
        applies="The job was stopped because its time limit passed.",
        sentences=("Stopped by its time limit of {limit}.", "Stopped by its time limit."),
        facts=("timeLimitSeconds", "attempt", "attempts", *STOP_FACTS),
    ),
    Code.IMAGE_UNAVAILABLE: Row(
        statuses=(Status.FAILED,),
        applies="The image could not be pulled.",
        sentences=("Image {image} could not be pulled: {error}.",),
        more=_END,
        facts=("image", *_END_FACTS),
    ),
    Code.NOT_STARTED: Row(
        statuses=(Status.FAILED,),
        applies="The container could not be started.",
        sentences=("Its container could not be started: {error}.", "Its container could not be started."),
        more=_END,
        facts=_END_FACTS,
    ),
    Code.FORBIDDEN: Row(
        statuses=(Status.FAILED,),
        applies="The job requests what its account, or the server, does not permit.",
        sentences=("Not permitted: {error}.", "Not permitted."),
        more=_END,
        facts=_END_FACTS,
    ),
    Code.DEPENDENCY_FAILED: Row(
        statuses=(Status.FAILED,),
        applies="A job that the job depends on failed.",
        sentences=(
            "Its dependency {dependency} failed: {cause}",
            "Its dependency {dependency} failed.",
            "One of its dependencies failed.",
        ),
        facts=("dependency",),
    ),
    Code.CHILD_FAILED: Row(
        statuses=(Status.FAILED,),
        applies="The job is an array, and a child failed.",
        sentences=("{failed} of {children} failed.",),
        more=("The last one is index {index}: {cause}",),
        facts=("size", "succeeded", "failed", "child"),
    ),
    Code.HOST_LOST: Row(
        statuses=(Status.FAILED,),
        applies="The host, or its container engine, went down while the container ran.",
        sentences=("The host, or its container engine, went down while the job ran.",),
        more=_END,
        facts=_END_FACTS,
    ),
    Code.CONTAINER_LOST: Row(
        statuses=(Status.FAILED,),
        applies="Another program than batchq removed the container.",
        sentences=("Its container disappeared: another program removed it.",),
        more=_END,
        facts=_END_FACTS,
    ),
    Code.CANCELLED: Row(
        statuses=(Status.FAILED,),
        applies="The job was cancelled.",
        sentences=("{order}.",),
        more=("Its last attempt ended with {outcome}.",),
        facts=("exitCode", *STOP_FACTS),
    ),
    Code.TERMINATED: Row(
        statuses=(Status.FAILED,),
        applies="The job was terminated.",
        sentences=("{order}.",),
        more=("Its last attempt ended with {outcome}.",),
        facts=("exitCode", *STOP_FACTS),
    ),
    Code.BLOCKED_TOO_LONG: Row(
        statuses=(Status.FAILED,),
        applies="A jobStateTimeLimitAction of the queue cancelled the job.",
        sentences=("Cancelled because it was blocked longer than queue {queue} allows: {reason}.",),
        facts=("jobQueue", "reason"),
    ),
    Code.FORCE_FAILED: Row(
        statuses=(Status.FAILED,),
        applies="An administrator gave up the job because its container did not exit.",
        sentences=("{order}.",),
        facts=STOP_FACTS,
    ),
    Code.INVALID: Row(
        statuses=(Status.FAILED,),
        applies="The request was accepted, as AWS accepts it, and is not valid.",
        sentences=("Not valid: {reason}.",),
        facts=("reason",),
    ),
    Code.UNREADABLE: Row(
        statuses=(*QUEUED, *UNPLACED[1:], Status.RUNNING, Status.FAILED),
        applies="The stored record of the job was damaged.",
        sentences=("Its record in the database was damaged and could not be read: it cannot continue.",),
    ),
    Code.SUCCEEDED: Row(
        statuses=(Status.SUCCEEDED,),
        applies="The job succeeded.",
        sentences=("Succeeded after {length}.", "Succeeded."),
        more=("Attempt {attempt} of {attempts}.",),
        facts=("attempt", "attempts"),
    ),
}
