"""What can be asked of the outside: wishes, in the imperative. Used as `do.StartContainer`.

Each is idempotent and can be derived again from the stored job and a survey of the engine, so none is stored.
"""

from dataclasses import dataclass

from batchq.domain.names import Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class StartContainer:
    """Create it if it is not there, and start it once."""

    tag: Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class AbandonStart:
    """Do not start it, if the engine has not been asked yet."""

    tag: Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class StopContainer:
    """Send its stop signal: the image's StopSignal, or SIGTERM."""

    tag: Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class KillContainer:
    tag: Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectContainer:
    """Look at it, and report what is seen."""

    tag: Tag


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearAway:
    """Keep its log, kill it if it still runs, and remove it with its volumes."""

    tag: Tag


Effect = StartContainer | AbandonStart | StopContainer | KillContainer | InspectContainer | ClearAway
