"""Decides whether a pod that its namespace refuses may be created later, once other pods have left room. Pure.

The API server names the quota, what the pod requests, what is in use and the limit, each as `NAME=QUANTITY,...`.
"""

import re
from http import HTTPStatus

from batchq.compute.kubernetes.nodes import quantity
from batchq.compute.kubernetes.rest import ApiReply
from batchq.errors import RuntimeUnknown, StartHadNoEffect

_EXCEEDED = re.compile(r"exceeded quota: \S+, requested: (\S*), used: \S*, limited: (\S*)")
_TERMINATING = "because it is being terminated"


def namespace_refusal(reply: ApiReply) -> RuntimeUnknown | None:
    """The error of a pod that can be created later; None if the reply is not such a refusal.

    A pod that requests more than the whole quota can never be created: None. A namespace that is being terminated
    permits no pod, but one with the same name may.
    """
    if reply.status != HTTPStatus.FORBIDDEN:
        return None
    message = str(reply.body.get("message"))
    exceeded = _EXCEEDED.search(message)
    if exceeded is None:
        return RuntimeUnknown(f"create: {reply.message}") if _TERMINATING in message else None
    requested, limits = map(_amounts, exceeded.groups())
    if any(quantity(requested[name]) > quantity(limits[name]) for name in requested.keys() & limits.keys()):
        return None
    return StartHadNoEffect(f"create: {reply.message}")


def _amounts(text: str) -> dict[str, str]:
    return {name: amount for name, _, amount in (part.partition("=") for part in text.split(","))}
