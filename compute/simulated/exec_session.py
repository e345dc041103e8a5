"""A command in a simulated container, which follows the container's script."""

import asyncio

from batchq.compute.simulated.container import KILLED
from batchq.compute.simulated.script import Script
from batchq.ports.exec_session import ExecOutput, OutputStream, TerminalSize


class SimulatedExecSession:
    """The session of a command. It ends with the command's script, with its container, or when it is closed."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._outputs: asyncio.Queue[ExecOutput | None] = asyncio.Queue()
        #: None while the command runs.
        self._exit_code: int | None = None
        for line in script.exec_output:
            self._outputs.put_nowait(ExecOutput(OutputStream.STDOUT, f"{line}\n".encode()))
        if not script.exec_echoes:
            self._end(script.exec_exit_code)

    async def read(self) -> ExecOutput | None:
        output = await self._outputs.get()
        if output is None:
            self._outputs.put_nowait(None)
        return output

    async def write(self, content: bytes) -> None:
        if self._exit_code is None:
            self._outputs.put_nowait(ExecOutput(OutputStream.STDOUT, content))

    async def end_input(self) -> None:
        self._end(self._script.exec_exit_code)

    async def resize(self, size: TerminalSize) -> None:
        """Write the size, as a program does that handles SIGWINCH."""
        await self.write(f"{size.rows}x{size.columns}\n".encode())

    async def exit_code(self) -> int | None:
        return self._exit_code

    async def close(self) -> None:
        self.container_ended()

    def container_ended(self) -> None:
        """End the command as a kill does, unless it has ended."""
        self._end(KILLED)

    def _end(self, exit_code: int) -> None:
        if self._exit_code is None:
            self._exit_code = exit_code
            self._outputs.put_nowait(None)
