"""The rows of the table for jobs without an attempt under way. Pure."""

from collections.abc import Mapping

from batchq.domain.enums import Status
from batchq.domain.explanation.codes import QUEUED, STOP_FACTS, UNPLACED, Code, Row

_ATTEMPT = "Attempt {attempt} of {attempts} ended with {outcome}."
_RETRY_FACTS = ("attempt", "attempts", "outcome")
_HOLDERS = (
    "In use by {holders}.",
    "By its time limit {earliest} ends within {left}.",
    "By an order to stop it {stopping} ends within {left}.",
)
_CAPACITY_FACTS = ("jobQueue", "required", "free", "limit", "heldBy", "holders", "endsBy", *_RETRY_FACTS)
_PLACE = "Place in queue {queue}: {place}."
_PLACE_FACTS = ("jobQueue", "place", "ahead", "aheadVcpus", "placeIsAtLeast")
_HOLD_FACTS = ("user", "reason", "heldAt")

QUEUED_ROWS: Mapping[Code, Row] = {
    Code.SUBMITTED: Row(
        statuses=(Status.SUBMITTED, Status.PENDING),
        applies="The job was submitted, or its dependencies ended, and the next unit of work handles it.",
        sentences=("Submitted {age} ago; the scheduler handles it next.",),
    ),
    Code.DEPENDENCIES: Row(
        statuses=(Status.SUBMITTED, Status.PENDING),
        applies="Jobs that the job depends on have not succeeded yet.",
        sentences=("Waits for {pending}: {dependencies}.",),
        facts=("pending", "total", "dependencies"),
    ),
    Code.NOT_CREATED: Row(
        statuses=(Status.SUBMITTED, Status.PENDING),
        applies="The job is a child that its array has not created yet.",
        sentences=(
            "Not created yet: its array creates {children} in order, and {ahead} before it. The array: {array}",
        ),
        facts=("index", "size", "ahead", "array"),
    ),
    Code.CHILDREN: Row(
        statuses=(Status.PENDING,),
        applies="The job is an array, and not all children have ended.",
        sentences=("{ended} of {children} have ended ({failed} failed), {active} active, {queued} waiting.",),
        more=("{unspawned} not created yet.",),
        facts=("size", "succeeded", "failed", "active", "queued", "unspawned"),
    ),
    Code.CHILDREN_STOPPING: Row(
        statuses=(Status.PENDING,),
        applies="The job is an array that was cancelled or terminated, and some children have not ended.",
        sentences=("{order}: {left} of {children} have not ended.",),
        facts=("size", "succeeded", "failed", "active", "queued", "unspawned", *STOP_FACTS),
    ),
    Code.STORE_UNAVAILABLE: Row(
        statuses=(*QUEUED, Status.STARTING),
        applies="The database refused a change within the last minute.",
        sentences=("The server cannot save changes at present: jobs continue when its database accepts them again.",),
        more=("Error: {detail}.",),
        facts=("detail",),
    ),
    Code.SAFE_MODE: Row(
        statuses=UNPLACED,
        applies="The server runs on a restored backup.",
        sentences=(
            "The server runs on a restored backup: no job starts until an administrator runs `batchq leave-safe-mode`.",
        ),
    ),
    Code.ENGINE_CHANGED: Row(
        statuses=UNPLACED,
        applies="The container engine that answers is not the one that jobs were placed on.",
        sentences=(
            (
                "The container engine that answers is not the one that jobs run on: no job starts until that one "
                "answers or an administrator runs `batchq leave-safe-mode --new-engine`."
            ),
        ),
    ),
    Code.ENGINE_UNAVAILABLE: Row(
        statuses=UNPLACED,
        applies="The container engine does not answer.",
        sentences=(
            "The container engine has not answered for {length}: no job starts until it does.",
            "The container engine does not answer: no job starts until it does.",
        ),
        more=("Error: {detail}.",),
        facts=("detail",),
    ),
    Code.HELD: Row(
        statuses=QUEUED,
        applies="A user holds the job.",
        sentences=("Held{by} {age} ago, {reason}: it does not start until it is released.",),
        facts=_HOLD_FACTS,
    ),
    Code.PAUSED: Row(
        statuses=QUEUED,
        applies="A user has paused the job.",
        sentences=("Paused{by} {age} ago, {reason}: it does not start until it is resumed.",),
        more=(_ATTEMPT,),
        facts=(*_HOLD_FACTS, *_RETRY_FACTS),
    ),
    Code.STOP_PENDING: Row(
        statuses=(Status.RUNNABLE,),
        applies="A cancel or terminate of many jobs, or of the job's array, is about to be applied to it.",
        sentences=("A stop order is about to be applied to it: it does not start.",),
    ),
    Code.QUEUE_DRAINED: Row(
        statuses=(Status.RUNNABLE,),
        applies="The queue of the job is drained: it accepts jobs, and starts none.",
        sentences=("Queue {queue} is drained: none of its jobs starts until an operator ends the drain.",),
        more=(_ATTEMPT,),
        facts=("jobQueue", *_RETRY_FACTS),
    ),
    Code.BUDGET_EXHAUSTED: Row(
        statuses=(Status.RUNNABLE,),
        applies="The budget of the job's account, of one above it or of its queue is used up.",
        sentences=(
            (
                "The budget of {budget} is used up: none of its jobs starts before {until} (UTC), unless an "
                "administrator raises it."
            ),
            "The budget of {budget} is used up: none of its jobs starts until an administrator raises it.",
        ),
        facts=("account", "jobQueue", "until"),
    ),
    Code.NO_ENVIRONMENT: Row(
        statuses=(Status.RUNNABLE,),
        applies="No compute environment of the queue is enabled.",
        sentences=("No compute environment of queue {queue} is enabled: {environments}.",),
        facts=("jobQueue", "environments"),
    ),
    Code.TOO_MANY_VCPUS: Row(
        statuses=(Status.RUNNABLE,),
        applies="The job requests more vCPUs than any compute environment of its queue has.",
        sentences=(
            "Cannot start: requires {required}, the largest compute environment of queue {queue} has {limit}.",
            "Cannot start: requires more vCPUs than any compute environment of queue {queue} has.",
        ),
        more=("Request less, or enlarge a compute environment.",),
        facts=("jobQueue", "required", "limit"),
    ),
    Code.TOO_LARGE: Row(
        statuses=(Status.RUNNABLE,),
        applies="The job requests more memory or GPUs than the host has.",
        sentences=(
            "Cannot start: requires {required}, jobs may use {limit} of this host.",
            "Cannot start: requires more memory or GPUs than this host has.",
        ),
        facts=("jobQueue", "requiredMemoryMiB", "memoryMiB", "requiredGpus", "gpus"),
    ),
    Code.ABOVE_ACCOUNT_LIMIT: Row(
        statuses=(Status.RUNNABLE,),
        applies="The job requests more vCPUs than its account may ever use.",
        sentences=(
            "Cannot start: requires {required}, {account} may use {limit}.",
            "Cannot start: requires more vCPUs than its account may use.",
        ),
        facts=("jobQueue", "account", "required", "limit"),
    ),
    Code.RESOURCE_MISSING: Row(
        statuses=(Status.RUNNABLE,),
        applies="The job requires a consumable resource that does not exist.",
        sentences=(
            "Cannot start: requires consumable resource {resource}, which does not exist.",
            "Cannot start: requires a consumable resource that does not exist.",
        ),
        facts=("jobQueue", "resource"),
    ),
    Code.TOO_MANY_UNITS: Row(
        statuses=(Status.RUNNABLE,),
        applies="The job requires more units of a consumable resource than there are in all.",
        sentences=(
            "Cannot start: requires {required} of consumable resource {resource}, there are {limit} in all.",
            "Cannot start: requires more units of a consumable resource than there are in all.",
        ),
        facts=("jobQueue", "resource", "required", "limit"),
    ),
    Code.ACCOUNT_LIMIT: Row(
        statuses=(Status.RUNNABLE,),
        applies="The account of the job, or one above it, has no vCPUs of its limit left for the job.",
        sentences=("Requires {required}: {account} uses {used} of its {limit}.",),
        more=("Jobs of other accounts are not delayed by that.", _PLACE, _ATTEMPT),
        facts=("account", "required", "used", "limit", *_PLACE_FACTS, *_RETRY_FACTS),
    ),
    Code.RESERVED_FOR_SHARES: Row(
        statuses=(Status.RUNNABLE,),
        applies="The computeReservation of the queue's policy keeps the vCPUs for shares without jobs.",
        sentences=(
            (
                "Requires {required}: computeReservation {reservation} of queue {queue} keeps vCPUs for shares that "
                "have no jobs."
            ),
            "computeReservation of queue {queue} keeps vCPUs for shares that have no jobs.",
        ),
        more=(_ATTEMPT,),
        facts=("jobQueue", "required", "reservation", *_RETRY_FACTS),
    ),
    Code.RESERVED_FOR_OTHERS: Row(
        statuses=(Status.RUNNABLE,),
        applies="Enough is free for the first job of a queue, but it is reserved for jobs of other queues before it.",
        sentences=("First in queue {queue}: requires {required}, which is reserved for {heads}.",),
        more=(_ATTEMPT,),
        facts=("jobQueue", "required", "reservedFor", *_RETRY_FACTS),
    ),
    Code.WAITS_FOR_VCPUS: Row(
        statuses=(Status.RUNNABLE,),
        applies="The first job of a queue waits for vCPUs of a compute environment.",
        sentences=("First in queue {queue}: requires {required}, {free} of {limit} are free in {environment}.",),
        more=(*_HOLDERS, _ATTEMPT),
        facts=(*_CAPACITY_FACTS, "computeEnvironment"),
    ),
    Code.WAITS_FOR_MEMORY: Row(
        statuses=(Status.RUNNABLE,),
        applies="The first job of a queue waits for memory of the host.",
        sentences=("First in queue {queue}: requires {required} of memory, {free} of {limit} are free.",),
        more=(*_HOLDERS, _ATTEMPT),
        facts=_CAPACITY_FACTS,
    ),
    Code.WAITS_FOR_GPUS: Row(
        statuses=(Status.RUNNABLE,),
        applies="The first job of a queue waits for GPUs of the host.",
        sentences=("First in queue {queue}: requires {required}, {free} of {limit} are free.",),
        more=(*_HOLDERS, _ATTEMPT),
        facts=_CAPACITY_FACTS,
    ),
    Code.WAITS_FOR_UNITS: Row(
        statuses=(Status.RUNNABLE,),
        applies="The first job of a queue waits for units of a consumable resource.",
        sentences=(
            (
                "First in queue {queue}: requires {required} of consumable resource {resource}, {free} of {limit} are "
                "free."
            ),
        ),
        more=(*_HOLDERS, _ATTEMPT),
        facts=(*_CAPACITY_FACTS, "resource"),
    ),
    Code.RETRY: Row(
        statuses=(Status.RUNNABLE,),
        applies="An attempt failed, and the job waits in its queue for the next one.",
        sentences=(
            "Waits for attempt {next} of {attempts}: attempt {attempt} ended with {outcome}.",
            "Waits for its next attempt.",
        ),
        more=(_PLACE, "Before it: {count} requesting {vcpus}."),
        facts=(*_PLACE_FACTS, *_RETRY_FACTS),
    ),
    Code.SHARE_TURN: Row(
        statuses=(Status.RUNNABLE,),
        applies="Other jobs of a fair-share queue are before the job.",
        sentences=(
            "Place in share {share} of queue {queue}: {place}; the shares take turns by their recent use.",
            "Waits for share {share} of queue {queue}; the shares take turns by their recent use.",
        ),
        more=("Jobs of this share hold {used}.",),
        facts=(*_PLACE_FACTS, "shareIdentifier", "shareVcpus"),
    ),
    Code.IN_LINE: Row(
        statuses=(Status.RUNNABLE,),
        applies="Other jobs of the queue are before the job.",
        sentences=(
            "Place in queue {queue}: {place}, behind {count} requesting {vcpus}.",
            "Waits in queue {queue} behind other jobs.",
        ),
        more=("The first one waits for {lacking}.", "{started} started within the last {period}."),
        facts=(*_PLACE_FACTS, "lacking", "startedRecently", "recentSeconds"),
    ),
    Code.NEXT: Row(
        statuses=(Status.RUNNABLE,),
        applies="The scheduler has not tried the job yet, or tries it again in the next unit of work.",
        sentences=("Next in queue {queue}: the scheduler tries to place it in the next unit of work.",),
        facts=("jobQueue",),
    ),
}
