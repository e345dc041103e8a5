"""The messages of a session of ExecJob that are JSON."""

from msgspec import Struct


class ExecEndResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The last message of a session."""

    #: The exit code of the command; null if it has none, because the session ended before it.
    exit_code: int | None
    #: Why the session ended before the command; null: it did not.
    reason: str | None
