"""Commands in running containers: the engine's exec, over one connection of its own to the engine's unix socket.

The engine never ends such a command when its client goes. So each command has an id in its environment, and `close`
runs a shell in the container that signals the processes with this id. The calls about a command have threads of their
own, and do not count for the silence of its container: a session never delays the stop of a job.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar
from uuid import uuid4

from docker.errors import APIError, NotFound

from batchq.compute.docker.client import Client
from batchq.compute.docker.errors import CONFLICT, message_of
from batchq.compute.docker.log_reader import HEADER
from batchq.compute.docker.podman import is_not_running
from batchq.errors import ContainerGone, ContainerRuntimeError, ExecRefused, RuntimeUnreachable
from batchq.ports.exec_session import ExecCommand, ExecOutput, OutputStream, TerminalSize

VARIABLE = "BATCHQ_EXEC"  # the environment variable with the id of a session
#: Ends the processes of a session: SIGHUP, as of a terminal that is closed, then SIGKILL.
END_PROCESSES = """signal() { for path in /proc/[0-9]*; do case "$(cat $path/environ 2>/dev/null | tr '\\0' '\\n')" in
*%s*) kill -s $1 ${path#/proc/};; esac; done; }; signal HUP; sleep 1; signal KILL"""
CHUNK = 2**16  # bytes
MAX_HEAD = 2**14  # bytes of the head of a response
START_TIMEOUT = 30.0  # seconds until the engine has answered the request that starts a command
EXIT_POLLS, EXIT_PAUSE = 20, 0.1  # the engine may report the exit after the end of the output; the pause in seconds
SWITCHING_PROTOCOLS, OK = 101, 200

Result = TypeVar("Result")
#: Runs a call in a thread with a client.
RunCall = Callable[[Callable[[Client], Result]], Awaitable[Result]]


class PreparedCommand(NamedTuple):
    """A command that the engine knows and has not started."""

    id: str
    container_id: str
    #: The value of VARIABLE.
    session: str
    api_version: str


def prepare_exec(client: Client, container_id: str, command: ExecCommand) -> PreparedCommand:
    """Make a command known to the engine. Raises ContainerGone; ExecRefused."""
    session = uuid4().hex
    try:
        made = client.exec_create(
            container_id,
            list(command.command),
            stdin=True,
            tty=command.terminal is not None,
            environment={VARIABLE: session},
        )
    except NotFound as error:
        raise ContainerGone(message_of(error)) from error
    except APIError as error:
        if error.status_code == CONFLICT or is_not_running(message_of(error)):  # it has ended, or is paused
            raise ContainerGone(message_of(error)) from error
        raise
    return PreparedCommand(made["Id"], container_id, session, str(client.api_version))


async def open_session(
    socket: str, prepared: PreparedCommand, command: ExecCommand, run: RunCall[object]
) -> "DockerExecSession":
    """Start the command, and connect to its input and output. Raises ContainerGone; ExecRefused; RuntimeUnknown."""
    try:
        async with asyncio.timeout(START_TIMEOUT):
            reader, writer = await asyncio.open_unix_connection(socket, limit=MAX_HEAD)
            try:
                await _start(reader, writer, prepared, has_terminal=command.terminal is not None)
            except BaseException:
                writer.close()
                raise
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise RuntimeUnreachable(f"exec: {error}") from error
    session = DockerExecSession(reader, writer, prepared, run, has_terminal=command.terminal is not None)
    if command.terminal is not None:
        try:
            await session.resize(command.terminal)
        except BaseException:
            await session.close()  # or the command would run as long as its container
            raise
    return session


async def _start(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, prepared: PreparedCommand, *, has_terminal: bool
) -> None:
    body = json.dumps({"Detach": False, "Tty": has_terminal})
    head = (
        f"POST /v{prepared.api_version}/exec/{prepared.id}/start HTTP/1.1",
        "Host: docker",
        "Content-Type: application/json",
        "Connection: Upgrade",
        "Upgrade: tcp",
        f"Content-Length: {len(body)}",
    )
    writer.write("\r\n".join((*head, "", body)).encode())
    response = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status = response.split(" ", 2)[1]
    if status in {str(SWITCHING_PROTOCOLS), str(OK)}:
        return
    text = (await reader.read(MAX_HEAD)).decode(errors="replace")
    why = f"exec: the engine answered {status}: {' '.join(text.split())[:500]}"
    raise ContainerGone(why) if status in {"404", "409"} else ExecRefused(why)


class DockerExecSession:
    """The session of a command that the engine runs."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        prepared: PreparedCommand,
        run: RunCall[object],
        *,
        has_terminal: bool,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._prepared = prepared
        self._run = run
        self._has_terminal = has_terminal
        #: The bytes of frames that were received in part.
        self._received = bytearray()
        self._has_ended = False

    async def read(self) -> ExecOutput | None:
        while True:
            output = self._next_output()
            if output is not None:
                return output
            try:
                received = await self._reader.read(CHUNK)
            except OSError:
                received = b""
            if not received:
                self._has_ended = True
                return None
            self._received += received

    def _next_output(self) -> ExecOutput | None:
        """The output that was received; None until a frame is complete. The stream of a terminal has no frames."""
        if self._has_terminal:
            content, self._received = bytes(self._received), bytearray()
            return ExecOutput(OutputStream.STDOUT, content) if content else None
        while len(self._received) >= HEADER.size:
            stream, length = HEADER.unpack_from(self._received)
            if len(self._received) < HEADER.size + length:
                return None
            content = bytes(self._received[HEADER.size : HEADER.size + length])
            del self._received[: HEADER.size + length]
            if content:
                return ExecOutput(
                    OutputStream.STDERR if stream == OutputStream.STDERR else OutputStream.STDOUT, content
                )
        return None

    async def write(self, content: bytes) -> None:
        with suppress(OSError):
            self._writer.write(content)
            await self._writer.drain()

    async def end_input(self) -> None:
        with suppress(OSError):
            self._writer.write_eof()

    async def resize(self, size: TerminalSize) -> None:
        def call(client: Client) -> None:
            with suppress(APIError):  # the command has ended
                client.exec_resize(self._prepared.id, height=size.rows, width=size.columns)

        if self._has_terminal:
            await self._run(call)

    async def exit_code(self) -> int | None:
        for _ in range(EXIT_POLLS):
            state = await self._run(self._inspect)
            if state is None:
                return None
            if isinstance(state, int):
                return state
            await asyncio.sleep(EXIT_PAUSE)  # noqa: TID251 - the engine reports no event of the exit
        return None

    def _inspect(self, client: Client) -> int | str | None:
        """The exit code; `running`; None: the engine does not know the command any more."""
        try:
            state = client.exec_inspect(self._prepared.id)
        except NotFound:
            return None
        code = state.get("ExitCode")
        return "running" if state.get("Running") or not isinstance(code, int) else code

    async def close(self) -> None:
        self._writer.close()
        if self._has_ended:
            return
        with suppress(ContainerRuntimeError):
            await self._run(self._end_processes)

    def _end_processes(self, client: Client) -> None:
        if self._inspect(client) != "running":
            return
        text = END_PROCESSES % f"{VARIABLE}={self._prepared.session}"
        with suppress(APIError):  # the container has ended, or the image has no shell
            made = client.exec_create(self._prepared.container_id, ["sh", "-c", text])
            client.exec_start(made["Id"], detach=True)
