"""The session of `batchq exec`: a WebSocket to the server, and this terminal. Only this module imports asyncio."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from batchq.cli.http_client import Document, WebSocketRequest, call, to_answer, websocket_request
from batchq.errors import ServerUnavailable
from batchq.ports.responses.exec_command import ExecEndResponse

STDIN, STDOUT, STDERR = 0, 1, 2  # file descriptors, and the streams of output
CHUNK = 2**14  # bytes


def run_session(url: str, path: str, command: Sequence[str], *, has_terminal: bool) -> ExecEndResponse | None:
    """The end of a session; None: a signal ended this process before. Raises the errors of `call`."""
    with _raw_terminal(enabled=has_terminal):
        return asyncio.run(_run(url, path, command, has_terminal=has_terminal))


@contextmanager
def _raw_terminal(*, enabled: bool) -> Iterator[None]:
    """Pass each key to the command, Ctrl-C too. At the end of the context the terminal is always as before."""
    if not enabled:
        yield
        return
    import termios  # noqa: PLC0415 - other commands, and other systems, do not need it
    import tty  # noqa: PLC0415

    before = termios.tcgetattr(STDIN)
    try:
        tty.setraw(STDIN)
        yield
    finally:
        termios.tcsetattr(STDIN, termios.TCSADRAIN, before)


async def _run(url: str, path: str, command: Sequence[str], *, has_terminal: bool) -> ExecEndResponse | None:
    """The end of the session; None: a signal ended this process before."""
    task = asyncio.ensure_future(_connect(url, path, command, has_terminal=has_terminal))
    loop = asyncio.get_running_loop()
    with suppress(RuntimeError, NotImplementedError):  # only the main thread has signal handlers, and not on Windows
        for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            loop.add_signal_handler(number, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        if task.cancelled() and not (asyncio.current_task() or task).cancelling():
            return None
        raise


async def _connect(url: str, path: str, command: Sequence[str], *, has_terminal: bool) -> ExecEndResponse:
    import aiohttp  # noqa: PLC0415 - only this command needs it

    request = websocket_request(url, path)
    try:
        async with (
            aiohttp.ClientSession(connector=_connector(request), trust_env=request.uses_proxies) as client,
            client.ws_connect(request.url, headers=request.headers, ssl=request.tls or True) as socket,
        ):
            size = _terminal_size() if has_terminal else None
            await socket.send_json({"command": list(command), "terminal": size})
            return await _Session(socket, url, has_terminal=has_terminal).follow()
    except aiohttp.WSServerHandshakeError as refused:
        # The client has no body of the answer. The same request without an upgrade has the reason.
        await asyncio.to_thread(call, url, path, answer=Document)
        raise ServerUnavailable(f"the server at {url} refused the session: {refused.message}") from None
    except BrokenPipeError:  # the reader of the output has gone
        raise
    except (aiohttp.ClientError, OSError) as failure:
        raise ServerUnavailable(f"the connection to {url} failed: {failure}") from None


def _connector(request: WebSocketRequest) -> Any:  # noqa: ANN401 - a connector of aiohttp, or None for TCP
    from aiohttp import UnixConnector  # noqa: PLC0415 - only this command needs it

    return None if request.socket is None else UnixConnector(path=request.socket)


class _Session:
    """Passes stdin to the command, and its output to stdout and stderr."""

    def __init__(self, socket: Any, url: str, *, has_terminal: bool) -> None:  # noqa: ANN401 - a WebSocket of aiohttp
        self._socket = socket
        self._url = url
        self._has_terminal = has_terminal
        self._loop = asyncio.get_running_loop()
        #: Input for the server; None at its end.
        self._input: asyncio.Queue[str | bytes] = asyncio.Queue(maxsize=4)

    async def follow(self) -> ExecEndResponse:
        """Raises ServerUnavailable if the connection ends before the session."""
        if self._has_terminal:
            self._loop.add_signal_handler(signal.SIGWINCH, self._resize)
        Thread(target=self._read_input, daemon=True).start()
        sender = asyncio.create_task(self._send_input())
        try:
            async for message in self._socket:
                if isinstance(message.data, str):
                    return to_answer(json.loads(message.data), ExecEndResponse, url=self._url)
                _write(STDERR if message.data[0] == STDERR else STDOUT, message.data[1:])
        finally:
            sender.cancel()
            if self._has_terminal:
                self._loop.remove_signal_handler(signal.SIGWINCH)
        raise ServerUnavailable(f"the connection to {self._url} ended")

    async def _send_input(self) -> None:
        with suppress(ConnectionError):
            while True:
                content = await self._input.get()
                await (self._socket.send_str if isinstance(content, str) else self._socket.send_bytes)(content)

    def _read_input(self) -> None:
        """Read stdin in a thread: regular files cannot be awaited. The thread ends with the process at the latest."""
        with suppress(OSError, RuntimeError):  # stdin is closed; the session has ended
            while content := os.read(STDIN, CHUNK):
                asyncio.run_coroutine_threadsafe(self._input.put(content), self._loop).result()
            asyncio.run_coroutine_threadsafe(self._input.put(json.dumps({"end": True})), self._loop)

    def _resize(self) -> None:
        with suppress(asyncio.QueueFull):
            self._input.put_nowait(json.dumps({"resize": _terminal_size()}))


def _terminal_size() -> dict[str, int]:
    size = shutil.get_terminal_size()
    return {"rows": max(1, size.lines), "columns": max(1, size.columns)}


def _write(descriptor: int, content: bytes) -> None:
    """Write all bytes as they are. Raises BrokenPipeError if the reader has gone."""
    while content:
        content = content[os.write(descriptor, content) :]
