"""The words for orders to stop or pause a job, for the command line and the web console. Pure."""

from collections.abc import Mapping
from typing import NamedTuple


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
