"""The reasons of jobs without an attempt under way, in the order of a job's life. Pure."""

from typing import ClassVar

from batchq.domain.enums import Status
from batchq.domain.explanation.explanation import Explanation, Texts
from batchq.domain.explanation.started_reasons import STOP_FACTS

ATTEMPT = "Attempt {attempt} of {attempts} ended with {outcome}."
ATTEMPT_FACTS = ("attempt", "attempts", "outcome")
PLACE = "Place in queue {jobQueue}: {place}."
PLACE_FACTS = ("jobQueue", "place", "ahead", "aheadVcpus", "placeIsAtLeast")
_HOLD_FACTS = ("user", "reason", "heldAt")
_CHILDREN_FACTS = ("size", "succeeded", "failed", "active", "queued", "unspawned")

_PENDING = (Status.SUBMITTED, Status.PENDING)
_QUEUED = (*_PENDING, Status.RUNNABLE)
_UNPLACED = (Status.RUNNABLE, Status.STARTING)


class SubmittedReason(Explanation):
    """The job was submitted, or its dependencies ended, and the next unit of work handles it."""

    code = "SUBMITTED"
    labels = ("just submitted",)
    statuses = _PENDING
    sentences = ("Submitted {age} ago; the scheduler handles it next.",)


class DependenciesReason(Explanation):
    """Jobs that the job depends on have not succeeded yet."""

    code = "DEPENDENCIES"
    labels = ("waits for {pending}",)
    statuses = _PENDING
    sentences = ("Waits for {pending}: {dependencies}.",)
    fact_names = ("pending", "total", "dependencies")


class GroupLimitReason(Explanation):
    """Other jobs of the job's group take all places that the group's `max-running` permits."""

    code = "GROUP_LIMIT"
    labels = ("waits for a place in its group",)
    statuses = _PENDING
    sentences = ("Waits for a place in its group {group}: at most {maxRunning} of the group run at the same time.",)
    fact_names = ("groupId", "groupName", "maxRunning")


class NotCreatedReason(Explanation):
    """The job is a child that its array has not created yet."""

    code = "NOT_CREATED"
    labels = ("not created yet",)
    statuses = _PENDING
    sentences = ("Not created yet: its array creates {size} in order, and {ahead} before it. The array: {array}",)
    fact_names = ("index", "size", "ahead", "array")


class ChildrenReason(Explanation):
    """The job is an array, and not all children have ended."""

    code = "CHILDREN"
    labels = ("{ended} of {size} ended",)
    statuses = (Status.PENDING,)
    sentences = ("{ended} of {size} have ended ({failed} failed), {active} active, {queued} waiting.",)
    more = ("{unspawned} not created yet.",)
    fact_names = _CHILDREN_FACTS


class ChildrenStoppingReason(Explanation):
    """The job is an array that was cancelled or terminated, and some children have not ended."""

    code = "CHILDREN_STOPPING"
    labels = ("stopping, {left} of {size} left",)
    statuses = (Status.PENDING,)
    sentences = ("{order}: {left} of {size} have not ended.",)
    fact_names = (*_CHILDREN_FACTS, *STOP_FACTS)


class ObstructedReason(Explanation):
    """A condition of the server keeps jobs from starting. `detail` may name what other users run."""

    statuses: ClassVar[tuple[Status, ...]] = _UNPLACED
    more: ClassVar[Texts] = ("Error: {detail}.",)
    fact_names: ClassVar[Texts] = ("detail",)


class StoreUnavailableReason(ObstructedReason):
    """The database refused a change within the last minute."""

    code = "STORE_UNAVAILABLE"
    labels = ("database unavailable",)
    statuses = (*_QUEUED, Status.STARTING)
    sentences = ("The server cannot save changes at present: jobs continue when its database accepts them again.",)


class SafeModeReason(ObstructedReason):
    """The server runs on a restored backup."""

    code = "SAFE_MODE"
    labels = ("safe mode",)
    sentences = (
        "The server runs on a restored backup: no job starts until an administrator runs `batchq leave-safe-mode`.",
    )


class EngineChangedReason(ObstructedReason):
    """The container engine that answers is not the one that jobs were placed on."""

    code = "ENGINE_CHANGED"
    labels = ("another container engine answers",)
    sentences = (
        (
            "The container engine that answers is not the one that jobs run on: no job starts until that one "
            "answers or an administrator runs `batchq leave-safe-mode --new-engine`."
        ),
    )


class EngineUnavailableReason(ObstructedReason):
    """The container engine does not answer."""

    code = "ENGINE_UNAVAILABLE"
    labels = ("container engine unavailable",)
    sentences = (
        "The container engine has not answered for {length}: no job starts until it does.",
        "The container engine does not answer: no job starts until it does.",
    )


class HeldReason(Explanation):
    """A user holds the job."""

    code = "HELD"
    labels = ("held{by}",)
    statuses = _QUEUED
    sentences = ("Held{by} {age} ago, {reason}: it does not start until it is released.",)
    fact_names = _HOLD_FACTS


class PausedReason(Explanation):
    """A user has paused the job."""

    code = "PAUSED"
    labels = ("paused{by}",)
    statuses = _QUEUED
    sentences = ("Paused{by} {age} ago, {reason}: it does not start until it is resumed.",)
    more = (ATTEMPT,)
    fact_names = (*_HOLD_FACTS, *ATTEMPT_FACTS)


class RunnableReason(Explanation):
    """The job is RUNNABLE."""

    statuses = (Status.RUNNABLE,)


class StopPendingReason(RunnableReason):
    """A cancel or terminate of many jobs, or of the job's array, is about to be applied to it."""

    code = "STOP_PENDING"
    labels = ("stop ordered",)
    sentences = ("A stop order is about to be applied to it: it does not start.",)


class QueueDrainedReason(RunnableReason):
    """The queue of the job is drained: it accepts jobs, and starts none."""

    code = "QUEUE_DRAINED"
    labels = ("queue drained",)
    sentences = ("Queue {jobQueue} is drained: none of its jobs starts until an operator ends the drain.",)
    more = (ATTEMPT,)
    fact_names = ("jobQueue", *ATTEMPT_FACTS)


class BudgetExhaustedReason(RunnableReason):
    """The budget of the job's account, of one above it or of its queue is used up."""

    code = "BUDGET_EXHAUSTED"
    labels = ("budget used up",)
    sentences = (
        (
            "The budget of {budget} is used up: none of its jobs starts before {until} (UTC), unless an "
            "administrator raises it."
        ),
        "The budget of {budget} is used up: none of its jobs starts until an administrator raises it.",
    )
    fact_names = ("account", "jobQueue", "until")


class NoEnvironmentReason(RunnableReason):
    """No compute environment of the queue is enabled."""

    code = "NO_ENVIRONMENT"
    labels = ("no environment enabled",)
    sentences = ("No compute environment of queue {jobQueue} is enabled: {environments}.",)
    fact_names = ("jobQueue", "environments")


class RetryReason(RunnableReason):
    """An attempt failed, and the job waits in its queue for the next one."""

    code = "RETRY"
    labels = ("waits for attempt {next} of {attempts}", "waits for its next attempt")
    sentences = (
        "Waits for attempt {next} of {attempts}: attempt {attempt} ended with {outcome}.",
        "Waits for its next attempt.",
    )
    more = (PLACE, "Before it: {ahead} requesting {aheadVcpus}.")
    fact_names = (*PLACE_FACTS, *ATTEMPT_FACTS)


class ShareTurnReason(RunnableReason):
    """Other jobs of a fair-share queue are before the job."""

    code = "SHARE_TURN"
    labels = ("{place} in its share", "waits for its share")
    sentences = (
        "Place in share {shareIdentifier} of queue {jobQueue}: {place}; the shares take turns by their recent use.",
        "Waits for share {shareIdentifier} of queue {jobQueue}; the shares take turns by their recent use.",
    )
    more = ("Jobs of this share hold {shareVcpus}.",)
    fact_names = (*PLACE_FACTS, "shareIdentifier", "shareVcpus")


class InLineReason(RunnableReason):
    """Other jobs of the queue are before the job."""

    code = "IN_LINE"
    labels = ("{place} in line", "in line")
    sentences = (
        "Place in queue {jobQueue}: {place}, behind {ahead} requesting {aheadVcpus}.",
        "Waits in queue {jobQueue} behind other jobs.",
    )
    more = ("The first one waits for {lacking}.", "{startedRecently} started within the last {recentSeconds}.")
    fact_names = (*PLACE_FACTS, "lacking", "startedRecently", "recentSeconds")


class NextReason(RunnableReason):
    """The scheduler has not tried the job yet, or tries it again in the next unit of work."""

    code = "NEXT"
    labels = ("next in line",)
    sentences = ("Next in queue {jobQueue}: the scheduler tries to place it in the next unit of work.",)
    fact_names = ("jobQueue",)
