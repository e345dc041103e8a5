"""ExecJob: a command in the container of a running job, over a WebSocket."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from http import HTTPStatus
from typing import Annotated

from aiohttp import WSMsgType, web
from pydantic import Field

from batchq.api.http.http import (
    HttpRefusal,
    InvalidMember,
    RequestBody,
    RequestQuery,
    Text,
    Word,
    parse,
    struct_to_json,
)
from batchq.api.operations.operation_table import OperationTable, missing_is_404
from batchq.api.operations.operations import JOB, Call, CallLimit
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission
from batchq.errors import BatchqError
from batchq.ports.exec_session import ExecCommand, ExecSession, TerminalSize
from batchq.ports.responses.exec_command import ExecEndResponse
from batchq.services.exec_sessions import ExecService, ExecTarget

MAX_OF_USER = 8  # sessions of one user at the same time
MAX_MESSAGE = 2**16  # bytes of one message of the client
FIRST_TIMEOUT = 10.0  # seconds until the first message of the client
HEARTBEAT = 20.0  # seconds between two pings: a client that does not answer them is gone
LAST_OUTPUT = 2.0  # seconds for the output that is left when the session must end

Count = Annotated[int, Field(ge=1, le=10_000)]


class ExecJobQuery(RequestQuery):
    """Where the command is run."""

    #: The name of the container, for a job with several.
    container: Word | None = None


class TerminalMessage(RequestBody):
    """The size of the client's terminal, in characters."""

    rows: Count
    columns: Count


class ExecMessage(RequestBody):
    """The first message of a client."""

    #: The program and its arguments.
    command: Annotated[list[Text], Field(min_length=1, max_length=1000)]
    #: Null: the command has no terminal.
    terminal: TerminalMessage | None = None


class ControlMessage(RequestBody):
    """A later text message of a client."""

    #: The new size of the terminal.
    resize: TerminalMessage | None = None
    #: Whether the input has ended.
    end: bool = False


operations = OperationTable(failed=missing_is_404)


@operations.add(
    "ExecJob", "GET", f"{JOB}/exec", Permission.SELF, limit=CallLimit(at_once=MAX_OF_USER), answer=ExecEndResponse
)
async def exec_job(parts: Parts, call: Call[ExecJobQuery]) -> web.StreamResponse:
    """Runs a command in the container of a running job, over a WebSocket.

    The first message of the client is text, `{"command": ["sh"], "terminal": {"rows": 24, "columns": 80}}`; without
    `terminal` the command has none. Then binary messages are input, and text messages are `{"resize": {"rows": 24,
    "columns": 80}}` or `{"end": true}`, the end of the input. A binary message of the server is output behind a byte
    that is 1 for stdout and 2 for stderr. The last message is text, the answer of this operation. The session ends with
    the command, with the container of the job, when the client disconnects, and after a time without input and output.
    The state of the job and its log do not change.
    """
    sessions = parts.state(ExecService)
    target = await sessions.target(call.job_id, container=call.input.container, caller=call.caller)
    socket = web.WebSocketResponse(heartbeat=HEARTBEAT, max_msg_size=MAX_MESSAGE, compress=False)
    if call.http.method != "GET" or not socket.can_prepare(call.http).ok:
        raise HttpRefusal("ExecJob is a WebSocket: the request must ask for an upgrade.", status=HTTPStatus.BAD_REQUEST)
    await socket.prepare(call.http)
    with suppress(ConnectionError):
        end = await _run(sessions, call, target, socket)
        await socket.send_str(struct_to_json(end).decode())
        await socket.close()
    return socket


async def _run(
    sessions: ExecService, call: Call[ExecJobQuery], target: ExecTarget, socket: web.WebSocketResponse
) -> ExecEndResponse:
    """Carry out a session whose WebSocket is open. Its errors become the reason of its end."""
    try:
        command = await _first_message(socket)
        async with sessions.session(target, command, caller=call.caller) as session:
            pump = _Pump(socket, session, idle=sessions.limits.idle)
            return await pump.run(sessions.wait_for_end(target, caller=call.caller))
    except BatchqError as why:
        return ExecEndResponse(exit_code=None, reason=str(why))


async def _first_message(socket: web.WebSocketResponse) -> ExecCommand:
    """Raises InvalidMember."""
    try:
        message = await socket.receive(FIRST_TIMEOUT)
    except TimeoutError:
        raise InvalidMember("The first message did not arrive in time.", member="") from None
    if message.type is not WSMsgType.TEXT:
        raise InvalidMember("The first message is not JSON.", member="")
    given = parse(ExecMessage, message.data.encode())
    size = None if given.terminal is None else _size(given.terminal)
    return ExecCommand(command=tuple(given.command), terminal=size)


def _size(message: TerminalMessage) -> TerminalSize:
    return TerminalSize(rows=message.rows, columns=message.columns)


class _Pump:
    """Passes the input and the output of a command, until one of the two sides ends."""

    def __init__(self, socket: web.WebSocketResponse, session: ExecSession, *, idle: float) -> None:
        self._socket = socket
        self._session = session
        self._idle = idle
        self._used_at = asyncio.get_running_loop().time()
        self._input_has_ended = False

    async def run(self, must_end: Coroutine[None, None, str]) -> ExecEndResponse:
        """Returns the last message. `must_end` returns why the session ends before its command."""
        output = asyncio.create_task(self._pass_output(), name="exec output")
        client = asyncio.create_task(self._pass_input(), name="exec input")
        others = [client, *(asyncio.create_task(each, name="exec end") for each in (self._wait_idle(), must_end))]
        try:
            done, _ = await asyncio.wait([output, *others], return_when=asyncio.FIRST_COMPLETED)
            if output not in done and client not in done:
                await asyncio.wait([output], timeout=LAST_OUTPUT)
            if output.done():
                output.result()
                return ExecEndResponse(exit_code=await self._session.exit_code(), reason=None)
            return ExecEndResponse(exit_code=None, reason=next(each.result() for each in others if each in done))
        finally:
            for task in (output, *others):
                task.cancel()
            await asyncio.gather(output, *others, return_exceptions=True)

    async def _pass_output(self) -> None:
        while (output := await self._session.read()) is not None:
            self._use()
            await self._socket.send_bytes(bytes([output.stream]) + output.content)

    async def _pass_input(self) -> str:
        """Returns once the client has gone. Raises InvalidMember for input after its end, and for invalid messages."""
        async for message in self._socket:
            self._use()
            if message.type is WSMsgType.BINARY and self._input_has_ended:
                raise InvalidMember("A message with input arrived after the end of the input.", member="")
            if message.type is WSMsgType.BINARY:
                await self._session.write(message.data)
            elif message.type is WSMsgType.TEXT:
                await self._control(parse(ControlMessage, message.data.encode()))
        return "the client has gone"

    async def _control(self, message: ControlMessage) -> None:
        if message.resize is not None:
            await self._session.resize(_size(message.resize))
        if message.end and not self._input_has_ended:
            self._input_has_ended = True
            await self._session.end_input()

    async def _wait_idle(self) -> str:
        """Returns once there was no input and output for the time `idle`."""
        loop = asyncio.get_running_loop()
        while (left := self._used_at + self._idle - loop.time()) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await loop.create_future()
        return f"there was no input and output for {self._idle:g} s"

    def _use(self) -> None:
        self._used_at = asyncio.get_running_loop().time()
