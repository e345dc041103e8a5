"""Whose request is being carried out: set where it comes in, asked where what it changes is saved.

It goes with the task that carries a request out, and with what that begins, so no method on the way has to hand it on,
and none can forget to. What the engine does unasked is nobody's act.
"""

from contextvars import ContextVar

from batchq.domain.acts import Act, act
from batchq.domain.people import Caller

_ACTING: ContextVar[Caller | None] = ContextVar("acting", default=None)


def begin(caller: Caller) -> None:
    """What this task does from now on, he does."""
    _ACTING.set(caller)


def acting() -> Caller | None:
    """None where nobody asked."""
    return _ACTING.get()


def act_about(about: str) -> Act | None:
    """What whoever acts does to this, None where nobody asked."""
    caller = acting()
    return None if caller is None else act(caller, at=caller.asked_at, about=about)
