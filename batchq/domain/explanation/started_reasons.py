"""The reasons of jobs with an attempt under way. Pure."""

from batchq.domain.enums import Status
from batchq.domain.explanation.explanation import Explanation

#: The facts of a stop order.
STOP_FACTS = (
    "kind",
    "user",
    "reason",
    "orderedAt",
    "checkpointRequestedAt",
    "checkpointSeenAt",
    "signalledAt",
    "nextStepAt",
    "forcedAt",
    "killedAt",
)
_AWAY = "The container engine has not answered for {away}: an end of the job is seen when it does."
_MACHINE_AWAY = (
    "Machine {machine} has not answered for {machineAway}: the job may still run there. It keeps its room and is not "
    "retried until the machine answers or has left."
)
_LIMIT = "Its time limit of {timeLimitSeconds} has passed"
_NEXT_STEP = "{signal} {signalled}, {next} follows in {left}."
_KILLED = "SIGKILL was sent {killed} ago."
_SENDING = "the stop signal is being sent."


class StartingReason(Explanation):
    """The job is STARTING."""

    statuses = (Status.STARTING,)


class PullingImageReason(StartingReason):
    """The container engine pulls the image."""

    code = "PULLING_IMAGE"
    labels = ("pulling the image",)
    sentences = ("Has been pulling image {image} for {length}.",)
    more = ("{others} for the same image.",)
    fact_names = ("image", "jobsWaiting")


class CleaningUpReason(StartingReason):
    """The container of the previous attempt is being removed."""

    code = "CLEANING_UP"
    labels = ("removing the previous container",)
    sentences = ("Waits until the container of the previous attempt is removed.",)


class HostFailureReason(StartingReason):
    """The host fails to start containers for a cause that is not the job's."""

    code = "HOST_FAILURE"
    labels = ("host cannot start containers",)
    sentences = ("The host has failed to start containers for {length}: the start is repeated until it works.",)
    more = ("Error: {detail}.",)
    fact_names = ("detail", "computeEnvironment")


class StartRefusedReason(StartingReason):
    """The container engine refused to start the container, and the start is tried again."""

    code = "START_REFUSED"
    labels = ("start refused, trying again",)
    sentences = ("The container engine refused the start ({refusals}); it is tried again: {error}.",)
    fact_names = ("refusals", "error", "computeEnvironment")


class CreatingContainerReason(StartingReason):
    """The container is being created and started."""

    code = "CREATING_CONTAINER"
    labels = ("starting the container",)
    sentences = ("Its container has been starting in {computeEnvironment} for {length}.",)
    more = ("{order}: it is not retried.",)
    fact_names = ("computeEnvironment",)


class StartingContainersReason(StartingReason):
    """The job has several containers, and none of them runs yet."""

    code = "STARTING_CONTAINERS"
    labels = ("starting containers",)
    sentences = (
        "{containers} in {computeEnvironment}, placed {length} ago: {starting} starting, {waiting} for others.",
    )
    fact_names = ("computeEnvironment", "containers", "starting", "waiting")


class AbandoningStartReason(StartingReason):
    """The job was terminated while its container was starting."""

    code = "ABANDONING_START"
    labels = ("abandoning the start",)
    sentences = ("{order}: its start is being abandoned.",)
    fact_names = STOP_FACTS


class ActiveReason(Explanation):
    """The job is RUNNING."""

    statuses = (Status.RUNNING,)


class RunningReason(ActiveReason):
    """The job runs."""

    code = "RUNNING"
    labels = ("machine away for {machineAway}", "container engine away for {away}", "")
    sentences = ("Has run for {length} in {computeEnvironment}.",)
    more = ("Its time limit ends it in {endsBy}.", _AWAY, _MACHINE_AWAY)
    fact_names = ("computeEnvironment", "startedAt", "endsBy", "attempt", "attempts", "machine", "machineAwaySince")


class NoRetryReason(ActiveReason):
    """The job was cancelled while it ran: the attempt continues and is the last one."""

    code = "NO_RETRY"
    labels = ("not retried",)
    sentences = ("Has run for {length} in {computeEnvironment}, and will not be retried. {order}.",)
    more = RunningReason.more
    fact_names = (*RunningReason.fact_names, *STOP_FACTS)


class StoppingReason(ActiveReason):
    """The job was terminated, and its container has not exited yet."""

    code = "STOPPING"
    labels = ("stopping, {next} in {left}", "killed {killed} ago", "stopping")
    sentences = (f"{{order}}: {_NEXT_STEP}", f"{{order}}: {_KILLED}", f"{{order}}: {_SENDING}")
    fact_names = STOP_FACTS


class TimeLimitReason(ActiveReason):
    """The job's time limit has passed, and its container has not exited yet."""

    code = "TIME_LIMIT"
    labels = ("time limit passed, stopping",)
    sentences = (
        f"{_LIMIT}: {_NEXT_STEP}",
        f"{_LIMIT}: {_KILLED}",
        f"{_LIMIT}: {_SENDING}",
        "Its time limit has passed: it is being stopped.",
    )
    fact_names = ("timeLimitSeconds", *STOP_FACTS)


class NotExitingReason(ActiveReason):
    """The container has not exited for a minute although it was killed."""

    code = "NOT_EXITING"
    labels = ("killed, does not exit",)
    sentences = (f"{{order}}. Its container has not exited although {_KILLED}",)
    more = ("Last resort of an administrator: `batchq force-fail`.",)
    fact_names = STOP_FACTS
