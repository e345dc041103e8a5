"""What can be asked of the outside: wishes, in the imperative. Used as `do.StartContainer`.

Each is idempotent and can be derived again from the stored job and a survey of the engine, so none is stored.
"""

from msgspec import Struct

from batchq.domain.ids import Tag


class StartContainer(Struct, frozen=True, kw_only=True):
    """Create it if it is not there, and start it once."""

    tag: Tag


class AbandonStart(Struct, frozen=True, kw_only=True):
    """Do not start it, if the engine has not been asked yet."""

    tag: Tag


class StopContainer(Struct, frozen=True, kw_only=True):
    """Send its stop signal: the image's StopSignal, or SIGTERM."""

    tag: Tag


class KillContainer(Struct, frozen=True, kw_only=True):
    tag: Tag


class InspectContainer(Struct, frozen=True, kw_only=True):
    """Look at it, and report what is seen."""

    tag: Tag


class CleanUpContainer(Struct, frozen=True, kw_only=True):
    """Keep its log, kill it if it still runs, and remove it with its volumes."""

    tag: Tag


Effect = StartContainer | AbandonStart | StopContainer | KillContainer | InspectContainer | CleanUpContainer
