"""The stored value of a hold. Pure. `lifecycle.holds` has the rules that change it."""

from datetime import datetime

from msgspec import Struct

from batchq.domain.access.accounts import UserName


class Hold(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a job is not placed although it could be: a user holds it until it is released."""

    #: The caller's reason.
    reason: str
    #: The user who holds the job; empty: the server itself.
    user: UserName = UserName("")
    #: When the request was accepted.
    held_at: datetime
    #: Whether the job was paused, and is to be resumed.
    paused: bool = False
