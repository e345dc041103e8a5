"""Why the container of a pod does not start, by the messages of its kubelet and of the API server. Pure.

A message is about the job, which then fails, or about a failure of the node, after which the start is repeated.
"""

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from batchq.compute.kubernetes.pod_policy import MAX_REASON
from batchq.compute.kubernetes.rest import TOO_LARGE, ApiReply
from batchq.errors import ContainerRuntimeError, ImageUnavailable, RuntimeUnknown, StartHadNoEffect, StartRefused

#: The API server refused the pod for what the pod has: it would refuse the pod again.
REFUSED_STATUSES = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
)
#: The kubelet refused the pod before it began: another node may take it.
ADMISSION_REASONS = frozenset({"OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity", "UnexpectedAdmissionError"})
FORBIDDEN_REASONS = frozenset({"SysctlForbidden"})
#: A failure of the kubelet or of containerd, which one of them reports at the end of its message.
_INTERRUPTED = re.compile(
    r"(?:context canceled|context deadline exceeded|transport is closing|ttrpc: closed"
    r"|connection (?:refused|reset by peer)|error reading from server: EOF|transport: .*"
    r"|runc did not terminate succ?essfully(?:: (?:exit status \d+|signal: \w+))?"
    r"|failed to start shim: start failed: .*: signal: \w+)"
    r"(?:: (?:unknown|unavailable|canceled|deadline exceeded))?\W*$"
)
#: A containerd that did not finish a creation keeps the name until it starts again, or the folder of a snapshot.
_LEFT_BEHIND = ("failed to reserve container name ", "failed to create containerd container: failed to rename: ")
#: What precedes values of a job: a job could write the text of a failure there.
_OF_JOB = ('exec: "', 'mounting "', "chdir to cwd")
NOT_FOUND, NOT_EXECUTABLE, NOT_STARTED = 127, 126, 128  # exit codes of a program that cannot be started


def create_refusal(reply: ApiReply) -> ContainerRuntimeError:
    """The meaning of an error reply to the creation of a pod.

    A policy of the namespace (403) may allow the pod later. For its quotas see `namespace_refusal`.
    """
    text = f"CannotCreateContainerError: {reply.message}"[:MAX_REASON]
    if reply.status == HTTPStatus.FORBIDDEN:
        return StartRefused(text, certain=False)
    if reply.status in REFUSED_STATUSES or TOO_LARGE in reply.message:
        return StartRefused(text)
    return RuntimeUnknown(f"create: {reply.message}")


def mount_refusal(events: Mapping[str, Any]) -> StartRefused | None:
    """The refusal that events of a pod show whose volumes cannot be mounted; None: they show none."""
    failed = [item.get("message") or "" for item in events.get("items") or () if item.get("reason") == "FailedMount"]
    return refused_start("CannotCreateContainerError", failed[-1]) if failed else None


def admission_refusal(pod: Mapping[str, Any]) -> ContainerRuntimeError | None:
    """Why the kubelet refused the pod before it began; None: it did not."""
    status = pod.get("status") or {}
    reason, message = status.get("reason") or "", status.get("message") or ""
    if reason in ADMISSION_REASONS:
        return StartHadNoEffect(f"start: {message or reason}")
    if reason in FORBIDDEN_REASONS:
        return StartRefused(f"CannotCreateContainerError: {message or reason}"[:MAX_REASON], forbidden=True)
    return None


def initialization_refusal() -> StartRefused:
    """The refusal of a pod whose init container failed: an admission webhook added it, as batchq creates none."""
    return StartRefused("CannotStartContainerError: an init container of the cluster failed", certain=False)


def may_have_begun(message: str) -> bool:
    """Whether the host failed, and not while it created the container: then the program may have begun."""
    return _has_host_failed(message) and not message.startswith("failed to create")


def has_host_failed(refusal: ContainerRuntimeError | None) -> bool:
    """Whether the start was refused because the host failed."""
    return isinstance(refusal, StartRefused) and refusal.host_failed


def program_refusal(message: str) -> StartRefused:
    """The refusal of a container whose program did not start."""
    if _has_host_failed(message):
        return refused_start("CannotStartContainerError", message)
    if "no such file" in message or "not found" in message:
        code = NOT_FOUND
    else:
        code = NOT_EXECUTABLE if "permission denied" in message else NOT_STARTED
    return StartRefused(_reason("CannotStartContainerError", message), exit_code=code)


def refusal_of(why: str) -> ContainerRuntimeError:
    """The refusal with this reason, which a pod's annotation has."""
    if why.startswith("CannotPullContainerError"):
        return ImageUnavailable(why)
    host_failed = _has_host_failed(why.partition(": ")[2])
    return StartRefused(why, certain=not host_failed, host_failed=host_failed)


def _has_host_failed(message: str) -> bool:
    """Whether the kubelet or containerd ended or was too slow in the middle of a start."""
    if message.startswith(_LEFT_BEHIND):
        return True
    return _INTERRUPTED.search(message) is not None and not any(text in message for text in _OF_JOB)


def refused_start(kind: str, message: str) -> StartRefused:
    """The refusal of a start. It is certain unless the message is about a failure of the host."""
    host_failed = _has_host_failed(message)
    return StartRefused(_reason(kind, message), certain=not host_failed, host_failed=host_failed)


def _reason(kind: str, message: str) -> str:
    return f"{kind}: {' '.join(message.split())}"[:MAX_REASON]
