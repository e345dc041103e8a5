"""Texts of statusReason and container.reason: AWS's own where AWS has one, because clients compare them. Pure."""

from collections.abc import Iterable

EXITED = "Essential container in task exited"
NOT_STARTED = "Task failed to start"
CHILD_FAILED = "Array Child Job failed"
DEPENDENCY_FAILED = "Dependent Job failed"
OVERRIDES_TOO_LONG = "Container Overrides length must be at most 8192"
BLOCKED_TOO_LONG = "Canceled by JobStateTimeLimit action due to reason: {reason}"
TOO_MANY_TAGS = "More than 50 tags to propagate: those of the job and of its definition together"
TIMED_OUT = "Job attempt duration exceeded timeout"
OUT_OF_MEMORY = "OutOfMemoryError: Container killed due to memory usage"
#: The beginning of the reason that a program has written itself, so that the text is not taken for one of the server.
ALGORITHM_ERROR = "AlgorithmError: "
DISAPPEARED = "Container disappeared"
HOST_TERMINATED = "Host EC2 (instance i-00000000000000000) terminated."  # users' evaluateOnExit matches `Host EC2*`
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
    "SERVER:SAFE_MODE - The server runs on a restored backup. Jobs start when an administrator has run "
    "`batchq leave-safe-mode`."
)
QUEUE_DRAINED = "DRAINED - The job queue accepts jobs, and starts none until an operator ends the drain."
NO_MACHINE = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - The job waits for room on a machine: on each single one less vCPUs, "
    "memory or GPUs are free, or they are reserved for a job before it."
)
NO_MACHINE_SELECTED = (
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE - No machine has the container engine and the labels that the "
    "CE(s) attached to the job queue select for the job."
)
TOO_LARGE_FOR_MACHINES = f"{TOO_LARGE} No machine, or not enough machines, could hold"
NO_ENVIRONMENT = "ACTION_REQUIRED - CE(s) associated with the job queue are invalid."
KEPT_FOR_SHARES = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - The job waits for vCPUs that the computeReservation of the scheduling "
    "policy keeps for shares that are not active yet."
)


def dependency_failed(job_id: str) -> str:
    """AWS's text, followed by the id of the failed dependency."""
    return f"{DEPENDENCY_FAILED}: {job_id}"


def no_room(*lacking: str) -> str:
    """For the head of a queue: the resources that are in use, or reserved for a job before it."""
    return f"CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY - The job waits for {', '.join(lacking)}."


def at_limit(account: str) -> str:
    """For the first job of a queue that exceeds a vCPU limit of its account, however much capacity is free."""
    return (
        f"ACCOUNT_LIMIT:VCPUS - The job waits for vCPUs of those that account {account} may use: they are in use, or "
        "kept for a job before it."
    )


def too_many_vcpus(requested: int, most: int) -> str:
    """`requested` and `most`, that of the queue's largest enabled compute environment, in thousandths of a vCPU."""
    return f"{TOO_MANY_VCPUS} It asks for {requested / 1000:g} vCPUs, the largest CE has {most / 1000:g}."


def too_large(lacking: Iterable[tuple[str, int, int]]) -> str:
    """The status reason of a job that requests more than any compute environment of its queue has.

    `lacking`: a unit such as "MiB of memory", how many of it the job requests, and how many exist.
    """
    figures = (f"{requested} {unit} (there are {most})" for unit, requested, most in lacking)
    return f"{TOO_LARGE} It asks for {', '.join(figures)}."


def too_large_for_machines(nodes: str) -> str:
    """For a job that idle machines could not hold. `nodes`: what it requests."""
    return f"{TOO_LARGE_FOR_MACHINES} {nodes}."


def beyond_limit(account: str, requested: int, most: int) -> str:
    """For a job larger than a limit of its account: `requested` and `most` are in thousandths of a vCPU."""
    return (
        f"MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job needs more vCPUs than account {account} may use: "
        f"it asks for {requested / 1000:g}, the limit is {most / 1000:g}."
    )


def no_such_resource(name: str) -> str:
    """For a job that needs a consumable resource that does not exist."""
    return f"MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The consumable resource {name} of the job does not exist."


def too_many_units(name: str, requested: int, most: int) -> str:
    """For a job that needs more units of a consumable resource than exist."""
    return (
        "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - The job needs more of the consumable resource "
        f"{name} than there is in all: it asks for {requested}, there are {most}."
    )


def held(reason: str, *, paused: bool) -> str:
    """For a queued job that a user holds or has paused."""
    return f"PAUSED: {reason}" if paused else f"HELD: {reason}"


def of_exit(exit_code: int | None, *, host_lost: bool) -> str:
    """For an attempt without a stop order. Exit code 0 is a success even if the host went down."""
    return HOST_TERMINATED if host_lost and exit_code != 0 else EXITED


def force_failed(reason: str, *, ordered: str | None) -> str:
    """For a force-failed job. `ordered`: the reason of the stop order that had no effect; None: there was none."""
    return f"Force-failed: {reason}" if ordered is None else f"Force-failed: {reason} (ordered to stop: {ordered})"


def code(reason: str) -> str:
    """The part of a reason before the explanation: jobStateTimeLimitActions name reasons by it."""
    return reason.partition(" - ")[0]
