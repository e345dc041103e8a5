"""All errors that batchq raises on purpose, in one tree. A class's docstring is its meaning."""


class BatchqError(Exception):
    """The base of all errors that batchq raises on purpose."""


class Invalid(BatchqError):
    """The request is invalid; nothing was changed. The message is shown to the caller."""


class UsageError(Invalid):
    """A flag, an environment variable or a file of the command line is invalid; no change was requested."""


class NotFound(Invalid):
    """The named resource does not exist, or the caller may not see it."""


class DefinitionNotFound(NotFound):
    """The job definition of a new job does not exist, is not ACTIVE, or the caller may not use it."""


class LimitExceeded(Invalid):
    """An account would exceed one of its limits."""


class Forbidden(Invalid):
    """The caller lacks the permission for this operation, but may know that the resource exists."""


class StateChanged(Invalid):
    """The state of a job is no longer the one that the request expects; nothing was changed."""


class NotSupported(Invalid):
    """A feature of AWS that this server does not have."""


class Throttled(BatchqError):
    """A rate or concurrency limit is exceeded; nothing was changed. The request may be repeated later."""


class Unavailable(BatchqError):
    """A valid request cannot be carried out at present; nothing was changed. It may be repeated."""


class StaleRead(BatchqError):
    """Too many jobs have changed since the data for this decision was read; nothing was changed. Read it again."""


class ServerUnavailable(Unavailable):
    """A command got no response from a server, or a response that it cannot use."""


class DiskFull(Unavailable):
    """The free space on the data's disk is below the minimum, and is reserved for jobs that run already."""


class StoreFailed(Unavailable):
    """A read or write of the database failed (disk full, input/output error, locked)."""


class StoreLost(StoreFailed):
    """The server can never use its database again: it is damaged, removed or replaced, or its thread has ended."""


class Unreadable(StoreFailed):
    """Rows of the jobs table cannot be decoded."""

    def __init__(self, sequences: tuple[int, ...]) -> None:
        super().__init__(f"the rows of {len(sequences)} jobs cannot be read")
        #: Column `sequence` of every undecodable row of the query, which read all its rows before it failed.
        self.sequences = sequences


class Conflict(StoreFailed):
    """A row is missing, duplicate or not at the version a write expected: another process wrote to the database."""


class StoreRefused(BatchqError):
    """The data directory cannot be opened: locked by another server, damaged, or of a newer schema."""


class StartImpossible(UsageError):
    """The server cannot start with these settings."""


class IllegalTransition(BatchqError):
    """An event cannot occur in the job's status. The message contains the job's recent history."""


class ContainerRuntimeError(BatchqError):
    """The container engine did not carry out a call."""


class RuntimeUnknown(ContainerRuntimeError):
    """The outcome of a call is not known: it may have been carried out, or may be later. Inspect, then repeat it."""


class RuntimeUnreachable(RuntimeUnknown):
    """The call was not sent, and has no effect: no connection to the container engine, or no answer before the call."""


class StartHadNoEffect(RuntimeUnknown):
    """The container engine refused a start before the program ran, for a reason that ends. A repetition may succeed."""


class StartUnderWay(RuntimeUnknown):
    """The container engine has accepted a start and carries it out: it may pull the image. The message is for users."""


class LogRefused(RuntimeUnknown):
    """The container engine refuses to read the log of a container. A repeated call may be refused in the same way."""


class ExecRefused(ContainerRuntimeError):
    """The container engine does not run the command in the container. The message is for users."""


class ContainerGone(ContainerRuntimeError):
    """The container engine has no such container, or it no longer runs. For a stop, kill or remove this is success."""


class ContainerUnusable(ContainerRuntimeError):
    """The container of a launch never ran and can never start: its network or its open folders are gone."""


class StartInterrupted(ContainerRuntimeError):
    """The container engine, or the runtime below it, ended during the start of a container: its program may have run.

    Starting the container again could run the program twice.
    """


class ImageMissing(ContainerRuntimeError):
    """The image is not on this machine; it can be pulled."""


class ImageUnavailable(ContainerRuntimeError):
    """The image cannot be pulled. The message is the attempt's reason, `CannotPullContainerError: ...`."""


class NameTaken(ContainerRuntimeError):
    """The name of a container or network is taken by one that this server did not create, and does not touch."""


class StartRefused(ContainerRuntimeError):
    """The container engine refused to create or start the container, or batchq's own checks did before the call."""

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
        #: The reason of the attempt, as `CannotStartContainerError: ...`.
        self.reason = reason
        #: The exit code that the container engine set for a failed start; None if it set none.
        self.exit_code = exit_code
        #: False if the same start may succeed a moment later (port or device in use, failure of the runtime).
        self.certain = certain
        #: The job lacks a permission, so another attempt would be refused in the same way.
        self.forbidden = forbidden
        #: The host failed, for a cause that no job can choose; never together with `certain`.
        self.host_failed = host_failed
