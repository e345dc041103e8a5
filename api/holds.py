"""Holds in responses, in every dialect."""

from msgspec import Struct

from batchq.api.http import milliseconds
from batchq.domain.hold import Hold
from batchq.ports.history import HoldChange


class HoldAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Why a job is held: it does not start until it is released or resumed."""

    #: The caller's reason.
    reason: str
    #: The user who holds it; absent for the server itself.
    user: str | None = None
    #: Milliseconds since 1970.
    held_at: int
    #: Whether it was paused. A STARTING or RUNNING job with a hold is being paused.
    paused: bool = False


class HoldChangeAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An entry of a job's history: the job was held or released."""

    #: The hold; absent if the job was released.
    held: HoldAnswer | None = None
    #: The user who released or resumed it; absent for a hold, and for the server itself.
    released_by: str | None = None


def hold_answer(hold: Hold | None) -> HoldAnswer | None:
    """None for a job that is not held."""
    if hold is None:
        return None
    return HoldAnswer(
        reason=hold.reason, user=hold.user or None, held_at=milliseconds(hold.held_at), paused=hold.paused
    )


def hold_change_answer(change: HoldChange | None) -> HoldChangeAnswer | None:
    """None for an entry that is not about a hold."""
    if change is None:
        return None
    return HoldChangeAnswer(held=hold_answer(change.hold), released_by=change.released_by or None)
