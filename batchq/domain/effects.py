"""Effects: commands to the container engine, named in the imperative. Pure. Import as `do`: `do.StartContainer`.

Effects are executed after the changed job is saved. Each is idempotent and can be derived again from the stored job and
a survey of the container engine, so effects are not stored.
"""

from msgspec import Struct

from batchq.domain.ids import Tag


class StartContainer(Struct, frozen=True, kw_only=True):
    """Create the container if it does not exist, and start it once."""

    tag: Tag


class AbandonStart(Struct, frozen=True, kw_only=True):
    """Do not start the container, unless its start has been requested from the container engine already."""

    tag: Tag


class StopContainer(Struct, frozen=True, kw_only=True):
    """Send the signal of one stop step."""

    tag: Tag
    #: The index of the step. A step that a later one has replaced is not sent any more.
    step: int = 0
    #: The signal of the step; None: the image's StopSignal, or SIGTERM.
    signal: str | None = None


class KillContainer(Struct, frozen=True, kw_only=True):
    """Send SIGKILL."""

    tag: Tag


class InspectContainer(Struct, frozen=True, kw_only=True):
    """Inspect the container, and report its state as an event."""

    tag: Tag


class CleanUpContainer(Struct, frozen=True, kw_only=True):
    """Archive the container's log, kill it if it still runs, and remove it with its volumes."""

    tag: Tag


Effect = StartContainer | AbandonStart | StopContainer | KillContainer | InspectContainer | CleanUpContainer
