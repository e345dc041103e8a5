"""What a refusal of a pod by the namespace means: pods of others may leave room later, or the pod never fits. Pure.

The API server names the quota with what the pod requests, what is in use and the limit, each as `NAME=QUANTITY,...`.
"""

import re
from http import HTTPStatus

from batchq.compute.kubernetes.nodes import quantity
from batchq.compute.kubernetes.rest import ApiReply
from batchq.errors import RuntimeUnknown, StartHadNoEffect

_EXCEEDED = re.compile(r"exceeded quota: \S+, requested: (\S*), used: \S*, limited: (\S*)")
_TERMINATING = "because it is being terminated"


def namespace_refusal(reply: ApiReply) -> RuntimeUnknown | None:
    """The refusal of a pod that is created once the namespace permits it; None: the reply is about the pod itself.

    That includes a pod that requests more than the whole quota.
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
