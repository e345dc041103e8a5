"""The texts about orders to stop or pause jobs that the command line and the web console share. Pure.

Those of the outcomes of cancel and terminate have the values of `bulk_stop.Outcome` as keys. The command line reads the
values from responses, and imports no more than it needs.
"""

from collections.abc import Mapping
from typing import NamedTuple

#: Jobs, children of arrays among them, that are stopped without a confirmation.
WIDE = 20
DONE = {
    "CANCELLED": "cancelled",
    "TERMINATED": "terminated",
    "STOPPING": "stopping",
    "CONTAINER_STOPPING": "stopping this container",
    "NOT_RETRIED": "running on, not retried",
}
WOULD_BE_DONE = {
    "CANCELLED": "would be cancelled",
    "TERMINATED": "would be terminated",
    "STOPPING": "would be stopped",
    "CONTAINER_STOPPING": "this container would be stopped",
    "NOT_RETRIED": "would run on, not retried",
}
#: What follows for a job, in the words of README. `{signal}` and `{grace}` are those of the request.
CONSEQUENCES = {
    "CANCELLED": "FAILED at once, no container is created",
    "TERMINATED": "FAILED at once, no container is created",
    "STOPPING": "{signal}, SIGKILL after {grace}, FAILED whatever the exit code, never retried",
    "CONTAINER_STOPPING": "{signal}, SIGKILL after {grace}; the job and its other containers continue",
    "NOT_RETRIED": "the attempt continues and is the last one",
}
#: The consequence of a cancel for an array with children.
_ENDS_WITH_CHILDREN = "children that run continue and are not retried, FAILED when none is left"


def consequences_of_cancel() -> Mapping[str, str]:
    """CONSEQUENCES of a cancel."""
    return CONSEQUENCES | {"STOPPING": _ENDS_WITH_CHILDREN}


def consequences_of_terminate(
    *, signal: str | None, grace: int | None, checkpoint: bool, force: bool
) -> Mapping[str, str]:
    """CONSEQUENCES of a terminate. `signal`, `grace` (seconds): those of the request; None: those of each job."""
    if force:
        return {
            consequence: text.replace("{signal}, SIGKILL after {grace}", "SIGKILL")
            for consequence, text in CONSEQUENCES.items()
        }
    sent = f"{'final checkpoint, ' if checkpoint else ''}{signal or 'SIGTERM'}"
    after = "the grace period" if grace is None else f"{grace} s"
    return {outcome: text.format(signal=sent, grace=after) for outcome, text in CONSEQUENCES.items()}


def summary(
    counts: Mapping[str, int],
    texts: Mapping[str, str],
    consequences: Mapping[str, str],
    *,
    children: Mapping[str, int],
) -> list[str]:
    """`12 cancelled (FAILED at once, no container is created)` for each outcome. `texts`: DONE or WOULD_BE_DONE.

    `children`: how many children the arrays among the jobs have, by outcome.
    """
    return [
        f"{count} {outcome_text(outcome, texts)}{with_children(children.get(outcome, 0))}"
        + (f" ({consequences[outcome]})" if outcome in consequences else "")
        for outcome, count in counts.items()
    ]


def with_children(count: int) -> str:
    """` with 5,000 children`, as the end of a number of jobs; empty for 0."""
    return f" with {count:,} {'child' if count == 1 else 'children'}" if count else ""


def outcome_text(outcome: str, texts: Mapping[str, str]) -> str:
    """The text of an outcome: from `texts`, else the outcome's name in lower case."""
    return texts.get(outcome) or outcome.lower().replace("_", " ")


def node_note(*, cancels: bool, is_main: bool, is_waiting: bool) -> str:
    """Why an order for a node stops the whole job; empty if it stops the node alone."""
    if cancels:
        return "a node cannot be cancelled alone, so this is the whole job"
    if is_main:
        return "it is the main node, so the whole job ends"
    return "the job has not started, so the whole job ends" if is_waiting else ""


class OrderWords(NamedTuple):
    """The words for one kind of order."""

    #: What the order does to a running job, as `will not be retried`.
    effect: str
    #: What the user did, as `cancelled`.
    verb: str


#: By `StopKind`.
ORDER_WORDS: Mapping[str, OrderWords] = {
    "PAUSE": OrderWords(effect="pausing", verb="paused"),
    "CANCEL": OrderWords(effect="will not be retried", verb="cancelled"),
    "TERMINATE": OrderWords(effect="stopping", verb="terminated"),
    "TIMEOUT": OrderWords(effect="stopping", verb="timed out"),
    "FORCE_FAIL": OrderWords(effect="given up", verb="force-failed"),
}

#: What happened, by `StopProgress`. The order itself has no words: it is shown with its author and reason.
STEP_WORDS: Mapping[str, str] = {
    "CHECKPOINT_REQUESTED": "a final checkpoint was requested",
    "CHECKPOINT_SEEN": "final checkpoint",
    "SIGNALLED": "the stop signal was delivered",
    "FORCED": "forced",
    "KILLED": "SIGKILL was sent",
}
