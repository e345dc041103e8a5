"""Sends a signal to the first process of a container: `kill` runs in the container, over one WebSocket.

A signal of this kind is not a stop of the kubelet's, so any other stop may follow it.
"""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import aiohttp

from batchq.compute.kubernetes.rest import MAX_ERROR_TEXT, RestClient
from batchq.errors import RuntimeUnknown, RuntimeUnreachable

STATUS_CHANNEL = 3
UNANSWERED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
#: Sends a signal to the first process of the container in which it runs. In a pod whose containers share their process
#: ids, process 1 is the pause container. The first process of a container has no parent there, and the others of the
#: same cgroup have one; a command that runs in the container has none either. No program but the shell is needed: an
#: image may have no `cat`, and a busy container may have no room for another process.
SIGNAL_FIRST_PROCESS = """groups() {{ found=; while read -r line; do found="$found $line"; done 2>/dev/null < $1/cgroup
}}; groups /proc/self; own=$found; [ -n "$own" ] || exit 4
for path in /proc/[0-9]*; do pid=${{path#/proc/}}; parent=; [ $pid != $$ ] || continue
while read -r key number; do [ "$key" != PPid: ] || {{ parent=$number; break; }}; done 2>/dev/null < $path/status
[ "$parent" = 0 ] && groups $path && [ "$found" = "$own" ] && kill -s {signal} $pid && sent=1
done; [ -n "$sent" ] || exit 3"""
KILLED_CODES = frozenset({"137", "143"})  # the container ended while `kill` ran in it
NO_PROCESS_CODE = "3"  # of SIGNAL_FIRST_PROCESS: the first process was not there at this moment
SHELL_NAMES = ('"sh"', "/sh:")  # in the error of a node, which also misses other files while it is busy
COMMAND_TIMEOUT = 30.0  # seconds from the request until the status of the command

log = logging.getLogger(__name__)


class Delivery(StrEnum):
    """The outcome of a signal."""

    DELIVERED = "DELIVERED"
    #: The image has neither a shell nor `kill`, or the process could not be signalled.
    IMPOSSIBLE = "IMPOSSIBLE"
    #: The node did not run the command, or the command did not find the process. The container may have ended: an
    #: inspection shows it.
    FAILED = "FAILED"


async def send_signal(rest: RestClient, pod: str, container: str, signal: str, *, shares_pids: bool) -> Delivery:
    """Send the signal, as `SIGTERM`, to the first process of the container. Raises RuntimeUnknown.

    `shares_pids`: whether the containers of the pod share their process ids.
    """
    name = signal.removeprefix("SIG")
    command = ("sh", "-c", SIGNAL_FIRST_PROCESS.format(signal=name) if shares_pids else f"kill -s {name} 1")
    query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", text) for text in command)]
    path = f"{rest.namespaced}/pods/{pod}/exec"
    with _translated(f"exec {pod}"):
        try:
            # A node that is cut off after the handshake sends nothing any more.
            async with asyncio.timeout(COMMAND_TIMEOUT), rest.exec(path, query) as socket:
                async for message in socket:
                    content = message.data
                    if message.type is aiohttp.WSMsgType.BINARY and content and content[0] == STATUS_CHANNEL:
                        return delivery_of(json.loads(content[1:]))
        except aiohttp.WSServerHandshakeError as refused:
            if refused.status in UNANSWERED:
                raise
            return Delivery.IMPOSSIBLE if refused.status == HTTPStatus.FORBIDDEN else Delivery.FAILED
    raise RuntimeUnknown(f"exec {pod}: the connection ended without a status")


def delivery_of(status: dict[str, Any]) -> Delivery:
    """The meaning of the status of a command."""
    if status.get("status") == "Success":
        return Delivery.DELIVERED
    message = str(status.get("message"))
    if status.get("reason") == "NonZeroExitCode":
        causes = (status.get("details") or {}).get("causes") or [{}]
        is_open = str(causes[0].get("message")) in {*KILLED_CODES, NO_PROCESS_CODE}
        return Delivery.FAILED if is_open else Delivery.IMPOSSIBLE
    is_shell_absent = "no such file or directory" in message and any(name in message for name in SHELL_NAMES)
    if is_shell_absent or "executable file not found" in message:
        return Delivery.IMPOSSIBLE
    log.warning("the node did not run a command: %s", message[:MAX_ERROR_TEXT])
    return Delivery.FAILED


@contextmanager
def _translated(call: str) -> Iterator[None]:
    """Raise RuntimeUnreachable if no connection was made, and RuntimeUnknown for any other error of the connection."""
    try:
        yield
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        raise RuntimeUnreachable(f"{call}: {error}") from error
    except (aiohttp.ClientError, OSError) as error:  # also a timeout
        raise RuntimeUnknown(f"{call}: {str(error) or type(error).__name__}") from error
