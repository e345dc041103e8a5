"""The texts of statusReason and container.reason: AWS's own, to the letter, where AWS has one. Clients compare them."""

from collections.abc import Iterable

EXITED = "Essential container in task exited"
NOT_STARTED = "Task failed to start"
CHILD_FAILED = "Array Child Job failed"
OVERRIDES_TOO_LONG = "Container Overrides length must be at most 8192"
BLOCKED_TOO_LONG = "Canceled by JobStateTimeLimit action due to reason: {reason}"
TOO_MANY_TAGS = "More than 50 tags to propagate: those of the job and of its definition together"
TIMED_OUT = "Job attempt duration exceeded timeout"
OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
DISAPPEARED = "Container disappeared"
HOST_TERMINATED = "Host EC2 (instance i-00000000000000000) terminated."  # users' rules look for `Host EC2*`
UNREADABLE = "The record of the job was damaged and could not be read"
UNKILLABLE = "terminating: the container has not exited, or the container engine does not answer"
TOO_MANY_VCPUS = (
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - CE(s) associated with the job queue cannot meet the CPU "
    "requirement of the job."
)
TOO_LARGE = (
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job resource requirement (vCPU/memory/GPU) is higher than that "
    "can be met by the CE(s) attached to the job queue."
)
ENGINE_AWAY = "SERVER:CONTAINER_ENGINE_UNAVAILABLE - The container engine does not answer. Jobs start when it does."
SAFE_MODE = (
    "SERVER:SAFE_MODE - The server runs on a restored backup. Jobs start when an administrator has run `batchq resume`."
)
NO_ENVIRONMENT = "ACTION_REQUIRED - CE(s) associated with the job queue are invalid."
KEPT_FOR_SHARES = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - The job waits for vCPUs that the computeReservation of the scheduling "
    "policy keeps for shares that are not active yet."
)


def dependency_failed(job_id: str) -> str:
    """AWS: the part before the colon. batchq names the job that was depended on."""
    return f"Dependent Job failed: {job_id}"


def no_room(*lacking: str) -> str:
    """Of the job that is the next to start: what there is not enough of, or what is kept for a job before it."""
    return f"CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - The job waits for {', '.join(lacking)}."


def at_limit(account: str) -> str:
    """Of the first job of a queue that may not start, however much room there is."""
    return (
        f"ACCOUNT_LIMIT:VCPUS - The job waits for vCPUs of those that account {account} may use: they are in use, or "
        "kept for a job before it."
    )


def too_many_vcpus(asked: int, most: int) -> str:
    """Both in thousandths of a vCPU; `most` is what the largest enabled compute environment of the queue has."""
    return f"{TOO_MANY_VCPUS} It asks for {asked / 1000:g} vCPUs, the largest CE has {most / 1000:g}."


def too_large(lacking: Iterable[tuple[str, int, int]]) -> str:
    """`lacking`: a unit, such as "MiB of memory", with how many of it the job asks for, and how many there are."""
    figures = (f"{asked} {unit} (there are {most})" for unit, asked, most in lacking)
    return f"{TOO_LARGE} It asks for {', '.join(figures)}."


def beyond_limit(account: str, asked: int, most: int) -> str:
    """Both in thousandths of a vCPU."""
    return (
        f"MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job needs more vCPUs than account {account} may use: "
        f"it asks for {asked / 1000:g}, the limit is {most / 1000:g}."
    )


def no_such_resource(name: str) -> str:
    return f"MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The consumable resource {name} of the job does not exist."


def too_many_units(name: str, asked: int, most: int) -> str:
    return (
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job needs more of the consumable resource "
        f"{name} than there is in all: it asks for {asked}, there are {most}."
    )


def of_exit(exit_code: int | None, *, host_lost: bool) -> str:
    """Of an end that nobody asked for. A success is one, whatever became of the host."""
    return HOST_TERMINATED if host_lost and exit_code != 0 else EXITED


def force_failed(reason: str, *, ordered: str | None) -> str:
    """With the reason of the order that its container did not follow, where there was one."""
    return f"Force-failed: {reason}" if ordered is None else f"Force-failed: {reason} (ordered to stop: {ordered})"


def code(reason: str) -> str:
    """What jobStateTimeLimitActions call a reason by: the part before the explanation."""
    return reason.partition(" - ")[0]
