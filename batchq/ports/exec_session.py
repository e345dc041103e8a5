"""A command that runs in a container beside the container's program, and the session of its client."""

from enum import IntEnum
from typing import Protocol

from msgspec import Struct


class TerminalSize(Struct, frozen=True, kw_only=True):
    """The size of a terminal, in characters."""

    rows: int
    columns: int


class ExecCommand(Struct, frozen=True, kw_only=True):
    """What to run in a container, as the container's user and in its working directory."""

    command: tuple[str, ...]
    #: The size of its terminal; None: it has none.
    terminal: TerminalSize | None = None


class OutputStream(IntEnum):
    """Where a command writes to. A command with a terminal writes all to STDOUT."""

    STDOUT = 1
    STDERR = 2


class ExecOutput(Struct, frozen=True):
    """Bytes that a command wrote."""

    stream: OutputStream
    content: bytes


class ExecSession(Protocol):
    """A command that runs in a container. It ends with the container, and changes neither its state nor its log.

    Every method but `close` may raise RuntimeUnknown.
    """

    async def read(self) -> ExecOutput | None:
        """The next output; None once the command or its container has ended. May be cancelled, and called again."""

    async def write(self, content: bytes) -> None:
        """Send input. Input for a command that has ended is dropped."""

    async def end_input(self) -> None:
        """Let the command read the end of its input."""

    async def resize(self, size: TerminalSize) -> None:
        """Change the size of the terminal. Without effect on a command that has none, or has ended."""

    async def exit_code(self) -> int | None:
        """The exit code, once `read` has returned None. None: unknown, as of a command whose container was removed."""

    async def close(self) -> None:
        """End the session, and the command if it still runs and its image has a shell. Raises no error."""
