"""Sends a signal to the first process of a container: `kill` runs in the container, over one WebSocket.

A signal of this kind is not a stop of the kubelet's, so any other stop may follow it.
"""

import json
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import aiohttp

from batchq.compute.kubernetes.rest import RestClient, translate_client_errors
from batchq.errors import RuntimeUnknown

STATUS_CHANNEL = 3
UNANSWERED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
#: Sends a signal to the first process of the container in which it runs. In a pod whose containers share their process
#: ids, process 1 is the pause container. The first process of a container has no parent there, and the others of the
#: same cgroup have one; a command that runs in the container has none either.
SIGNAL_FIRST_PROCESS = """own=$(cat /proc/self/cgroup); for path in /proc/[0-9]*; do pid=${{path#/proc/}}
[ $pid != $$ ] && [ "$(cat $path/cgroup 2>/dev/null)" = "$own" ] || continue
while read key value; do [ $key = PPid: ] && [ $value = 0 ] && kill -s {signal} $pid && sent=1; done < $path/status
done; [ -n "$sent" ] || exit 3"""
KILLED_CODES = frozenset({"137", "143"})  # the container ended while `kill` ran in it
NO_PROCESS_CODE = (
    "3"  # of SIGNAL_FIRST_PROCESS: the image has a shell, and the first process was not there at this moment
)


class Delivery(StrEnum):
    """The outcome of a signal."""

    DELIVERED = "DELIVERED"
    #: The image has neither a shell nor `kill`, or the process could not be signalled.
    IMPOSSIBLE = "IMPOSSIBLE"
    #: The container does not run any more, ended in the meantime, or its process was not found: an inspection shows it.
    ENDED = "ENDED"


async def send_signal(rest: RestClient, pod: str, container: str, signal: str, *, shares_pids: bool) -> Delivery:
    """Send the signal, as `SIGTERM`, to the first process of the container. Raises RuntimeUnknown.

    `shares_pids`: whether the containers of the pod share their process ids.
    """
    name = signal.removeprefix("SIG")
    command = ("sh", "-c", SIGNAL_FIRST_PROCESS.format(signal=name) if shares_pids else f"kill -s {name} 1")
    query = [("container", container), ("stdout", "true"), ("stderr", "true"), *(("command", text) for text in command)]
    with translate_client_errors(f"exec {pod}"):
        try:
            async with rest.exec(f"{rest.namespaced}/pods/{pod}/exec", query) as socket:
                async for message in socket:
                    content = message.data
                    if message.type is aiohttp.WSMsgType.BINARY and content and content[0] == STATUS_CHANNEL:
                        return delivery_of(json.loads(content[1:]))
        except aiohttp.WSServerHandshakeError as refused:
            if refused.status in UNANSWERED:
                raise
            return Delivery.IMPOSSIBLE if refused.status == HTTPStatus.FORBIDDEN else Delivery.ENDED
    raise RuntimeUnknown(f"exec {pod}: the connection ended without a status")


def delivery_of(status: dict[str, Any]) -> Delivery:
    """The meaning of the status of a command. Raises RuntimeUnknown."""
    if status.get("status") == "Success":
        return Delivery.DELIVERED
    message = str(status.get("message"))
    if status.get("reason") == "NonZeroExitCode":
        causes = (status.get("details") or {}).get("causes") or [{}]
        code = str(causes[0].get("message"))
        return Delivery.ENDED if code in {*KILLED_CODES, NO_PROCESS_CODE} else Delivery.IMPOSSIBLE
    if "executable file not found" in message or "no such file or directory" in message:
        return Delivery.IMPOSSIBLE
    raise RuntimeUnknown(f"exec: {message}"[:500])
