"""The reasons of RUNNABLE jobs that do not fit, at present or ever. Pure."""

from typing import ClassVar

from batchq.domain.explanation.explanation import Texts
from batchq.domain.explanation.queued_reasons import ATTEMPT, ATTEMPT_FACTS, PLACE, PLACE_FACTS, RunnableReason

_HOLDERS = (
    "In use by {holders}.",
    "By its time limit {earliest} ends within {left}.",
    "By an order to stop it {stopping} ends within {left}.",
)


class TooManyVcpusReason(RunnableReason):
    """The job requests more vCPUs than any compute environment of its queue has."""

    code = "TOO_MANY_VCPUS"
    labels = ("never fits: requires {required}", "never fits: too many vCPUs")
    sentences = (
        "Cannot start: requires {required}, the largest compute environment of queue {jobQueue} has {limit}.",
        "Cannot start: requires more vCPUs than any compute environment of queue {jobQueue} has.",
    )
    more = ("Request less, or enlarge a compute environment.",)
    fact_names = ("jobQueue", "required", "limit")


class TooLargeReason(RunnableReason):
    """The job requests more memory or GPUs than the host has."""

    code = "TOO_LARGE"
    labels = ("never fits: requires {required}", "never fits: too large")
    sentences = (
        "Cannot start: requires {required}, jobs may use {limit} of this host.",
        "Cannot start: requires more memory or GPUs than this host has.",
    )
    fact_names = ("jobQueue", "requiredMemoryMiB", "memoryMiB", "requiredGpus", "gpus")


class NoMachineSelectedReason(RunnableReason):
    """No machine has the container engine and the labels that the environments of the queue select for the job."""

    code = "NO_MACHINE_SELECTED"
    labels = ("never fits: no machine selected",)
    sentences = (
        "Cannot start: no machine has the container engine and the labels of the environments of queue {jobQueue}.",
    )


class TooLargeForMachinesReason(RunnableReason):
    """The job requests more than one machine has, or a gang more than all machines can hold."""

    code = "TOO_LARGE_FOR_MACHINES"
    labels = ("never fits: requires {required}",)
    sentences = ("Cannot start: the machines, if they were idle, could not hold {required}.",)
    more = ("A node of a job runs on one machine.",)
    fact_names = ("jobQueue", "required", "machines")


class AboveAccountLimitReason(RunnableReason):
    """The job requests more vCPUs than its account may ever use."""

    code = "ABOVE_ACCOUNT_LIMIT"
    labels = ("never fits: above the account's limit",)
    sentences = (
        "Cannot start: requires {required}, {account} may use {limit}.",
        "Cannot start: requires more vCPUs than its account may use.",
    )
    fact_names = ("jobQueue", "account", "required", "limit")


class ResourceMissingReason(RunnableReason):
    """The job requires a consumable resource that does not exist."""

    code = "RESOURCE_MISSING"
    labels = ("consumable resource missing",)
    sentences = (
        "Cannot start: requires consumable resource {resource}, which does not exist.",
        "Cannot start: requires a consumable resource that does not exist.",
    )
    fact_names = ("jobQueue", "resource")


class TooManyUnitsReason(RunnableReason):
    """The job requires more units of a consumable resource than there are in all."""

    code = "TOO_MANY_UNITS"
    labels = ("never fits: too many units",)
    sentences = (
        "Cannot start: requires {required} of consumable resource {resource}, there are {limit} in all.",
        "Cannot start: requires more units of a consumable resource than there are in all.",
    )
    fact_names = ("jobQueue", "resource", "required", "limit")


class AccountLimitReason(RunnableReason):
    """The account of the job, or one above it, has no vCPUs of its limit left for the job."""

    code = "ACCOUNT_LIMIT"
    labels = ("account at its limit",)
    sentences = ("Requires {required}: {account} uses {used} of its {limit}.",)
    more = ("Jobs of other accounts are not delayed by that.", PLACE, ATTEMPT)
    fact_names = ("account", "required", "used", "limit", *PLACE_FACTS, *ATTEMPT_FACTS)


class ReservedForSharesReason(RunnableReason):
    """The computeReservation of the queue's policy keeps the vCPUs for shares without jobs."""

    code = "RESERVED_FOR_SHARES"
    labels = ("reserved for other shares",)
    sentences = (
        (
            "Requires {required}: computeReservation {reservation} of queue {jobQueue} keeps vCPUs for shares that "
            "have no jobs."
        ),
        "computeReservation of queue {jobQueue} keeps vCPUs for shares that have no jobs.",
    )
    more = (ATTEMPT,)
    fact_names = ("jobQueue", "required", "reservation", *ATTEMPT_FACTS)


class ReservedForOthersReason(RunnableReason):
    """Enough is free for the first job of a queue, but it is reserved for jobs of other queues before it."""

    code = "RESERVED_FOR_OTHERS"
    labels = ("1st in line, reserved for others",)
    sentences = ("First in queue {jobQueue}: requires {required}, which is reserved for {reservedFor}.",)
    more = (ATTEMPT,)
    fact_names = ("jobQueue", "required", "reservedFor", *ATTEMPT_FACTS)


class WaitsReason(RunnableReason):
    """The first job of a queue waits for some of one dimension."""

    more: ClassVar[Texts] = (*_HOLDERS, ATTEMPT)
    fact_names: ClassVar[Texts] = (
        "jobQueue",
        "required",
        "free",
        "limit",
        "heldBy",
        "holders",
        "endsBy",
        *ATTEMPT_FACTS,
    )


class WaitsForVcpusReason(WaitsReason):
    """The first job of a queue waits for vCPUs of a compute environment."""

    code = "WAITS_FOR_VCPUS"
    labels = ("1st in line, requires {required}",)
    sentences = ("First in queue {jobQueue}: requires {required}, {free} of {limit} are free in {computeEnvironment}.",)
    fact_names = (*WaitsReason.fact_names, "computeEnvironment")


class WaitsForMemoryReason(WaitsReason):
    """The first job of a queue waits for memory of the host."""

    code = "WAITS_FOR_MEMORY"
    labels = ("1st in line, requires {required}",)
    sentences = ("First in queue {jobQueue}: requires {required} of memory, {free} of {limit} are free.",)


class WaitsForGpusReason(WaitsReason):
    """The first job of a queue waits for GPUs of the host."""

    code = "WAITS_FOR_GPUS"
    labels = ("1st in line, requires {required}",)
    sentences = ("First in queue {jobQueue}: requires {required}, {free} of {limit} are free.",)


class WaitsForMachineReason(RunnableReason):
    """The first job of a queue waits for room on one machine. The free resources are spread over several."""

    code = "WAITS_FOR_MACHINE"
    labels = ("1st in line, requires {required}",)
    sentences = (
        (
            "First in queue {jobQueue}: requires {required}. That is free on {machines} together, and not on a single "
            "one for each node of the job."
        ),
        "First in queue {jobQueue}: requires {required}, and no machine is open for new jobs.",
    )
    more = ("{closed} of them are cordoned or do not answer.", ATTEMPT)
    fact_names = ("jobQueue", "required", "machines", "closed", *ATTEMPT_FACTS)


class WaitsForUnitsReason(WaitsReason):
    """The first job of a queue waits for units of a consumable resource."""

    code = "WAITS_FOR_UNITS"
    labels = ("1st in line, requires {required} of {resource}",)
    sentences = (
        (
            "First in queue {jobQueue}: requires {required} of consumable resource {resource}, {free} of {limit} are "
            "free."
        ),
    )
    fact_names = (*WaitsReason.fact_names, "resource")
