"""Every error raised on purpose, one tree. The docstring is the meaning."""


class BatchqError(Exception):
    """Something batchq knows about went wrong."""


class Invalid(BatchqError):
    """The caller asked for something that cannot be; nothing was changed. The message is for the caller."""


class Misused(Invalid):
    """A flag, a variable or a file of the command line says what cannot be; nobody was asked for anything."""


class NotFound(Invalid):
    """The caller named something that is not there."""


class Forbidden(Invalid):
    """The caller may know of it, and may not do that."""


class NotSupported(Invalid):
    """A feature of AWS that this server does not have."""


class TooOften(BatchqError):
    """More requests in a short time than may be; nothing was changed. It may be sent again, later."""


class Unavailable(BatchqError):
    """The request was good and could not be carried out now; nothing was changed. It may be sent again."""


class Outdated(BatchqError):
    """Too much has changed since the data for this decision was read; nothing was changed. Read it again."""


class ServerUnavailable(Unavailable):
    """A command got no answer from a server, or none that it can use now."""


class DiskFull(Unavailable):
    """The data's disk has so little room left that it is kept for what is under way."""


class StoreFailed(Unavailable):
    """The database did not take a write or answer a read (disk full, input/output error, locked)."""


class StoreLost(StoreFailed):
    """The database is gone for good: its file was removed or replaced, or nobody serves it any more."""


class Unreadable(StoreFailed):
    """Rows of jobs make no jobs. `orders` name them; the others of what was asked for were not looked at in vain."""

    def __init__(self, orders: tuple[int, ...]) -> None:
        super().__init__(f"the rows of {len(orders)} jobs cannot be read")
        self.orders = orders


class Conflict(StoreFailed):
    """A row was not at the version that the write expected: somebody else writes to this database."""


class StoreRefused(BatchqError):
    """The data cannot be opened: locked by another server, damaged, or of a newer schema."""


class StartImpossible(Misused):
    """The settings do not let the server start."""


class IllegalTransition(BatchqError):
    """An event met a job in a status where it can never happen. The message carries the job's recent history."""


class EngineError(BatchqError):
    """The container engine did not do what it was asked."""


class EngineUnknown(EngineError):
    """No answer, or none that tells: the call may have been carried out, or may be later. Look, and ask again."""


class EngineUnreachable(EngineUnknown):
    """No connection to the engine: the call was not sent, and has no effect."""


class LogRefused(EngineUnknown):
    """The engine answers, and refuses to read the log of a container: again and again, if nothing changes."""


class ContainerGone(EngineError):
    """The engine has no such container, or it no longer runs. To a stop, kill or remove this is success."""


class StartInterrupted(EngineError):
    """The engine, or the runtime below it, ended in the start of a container: its program may have run.

    Starting the container again could run the program twice.
    """


class ImageMissing(EngineError):
    """The image is not on this machine; it can be pulled."""


class ImageUnavailable(EngineError):
    """The image cannot be pulled. The message is the attempt's reason, `CannotPullContainerError: ...`."""


class NameTaken(EngineError):
    """A container that is not ours has the name of ours. It is neither adopted nor touched."""


class StartRefused(EngineError):
    """The engine would not create or start the container, and said why; the message is the attempt's reason.

    `certain` is false where the same start may work a moment later (port or device in use, runtime trouble).
    `forbidden`: the job may not have what it asks for, and another attempt would ask for the same.
    `host_failed`: the host could not do it, for a cause that no job can choose; never together with `certain`.
    """

    def __init__(
        self,
        reason: str,
        *,
        exit_code: int | None = None,
        certain: bool = True,
        forbidden: bool = False,
        host_failed: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code
        self.certain = certain
        self.forbidden = forbidden
        self.host_failed = host_failed
