"""What a pod shows about one of its containers: running, ended and how, never ran, or not able to start. Pure.

Container states are believed, not phases: the phase follows a second after the end, and Kubernetes 1.20 reports a
terminal phase while a container still runs. A terminal phase only means that a container that is still `waiting` will
not run. The order of the rules matters; each was measured on Kubernetes 1.20 and 1.36.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from batchq.compute.kubernetes.pod_names import (
    DELETED_FOR,
    FINALIZER,
    HELD_IMAGE,
    ContainerMark,
    has_held_image,
    mark_of,
    name_in_pod,
    run_of,
    withdrawal_of,
)
from batchq.compute.kubernetes.pod_policy import MAX_REASON
from batchq.compute.kubernetes.pods import is_being_deleted, is_bound, is_confirmed_deletion, is_shared
from batchq.compute.kubernetes.start_refusals import (
    admission_refusal,
    has_host_failed,
    initialization_refusal,
    may_have_begun,
    program_refusal,
    refusal_of,
    refused_start,
)
from batchq.domain.ids import Tag
from batchq.errors import ContainerRuntimeError, ImageUnavailable, RuntimeUnknown
from batchq.ports.runtime import ContainerState, Inspection

IMAGE_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
#: The node or an administrator ended the pod.
HOST_REASONS = frozenset({"Evicted", "NodeLost", "Preempting", "Terminated", "NodeShutdown"})
KILLED = 137
WHOLE_SECOND = timedelta(seconds=1)  # Kubernetes cuts times to whole seconds
#: Why batchq deletes a bound pod: the beginning of the annotation DELETED_FOR.
STOP, REMOVE, WITHDRAW = "stop", "remove", "withdraw: "


class SeenRun(Struct, frozen=True, kw_only=True):
    """What earlier readings of the same pod have shown. The pod itself may show it no longer."""

    #: The id of the first container that was seen.
    container_id: str
    started_at: datetime
    #: The end that was reported first, so that all reports of the end are equal; None: no end was seen.
    stopped_at: datetime | None = None


class PodState(Struct, frozen=True, kw_only=True):
    """A container of a pod."""

    inspection: Inspection
    #: The id of the container; None: no container of the pod has been created.
    container_id: str | None = None
    #: What a bound pod waits for before its container runs, for users; None: it does not wait.
    waits_for: str | None = None
    #: Why the container does not start; None: nothing prevents it. StartRefused, ImageUnavailable, StartHadNoEffect.
    #: With `waits_for` the kubelet repeats the start by itself, or has not confirmed that the start was withdrawn.
    refusal: ContainerRuntimeError | None = None
    #: Whether the container never ran and never will. Another pod may replace one whose containers are all spent.
    is_spent: bool = False
    #: Whether its node created the container a second time, after it may have run: it must be killed at once.
    ran_twice: bool = False

    @property
    def state(self) -> ContainerState:
        return self.inspection.state

    @property
    def has_run(self) -> bool:
        return self.state in (ContainerState.RUNNING, ContainerState.EXITED)


def read_pod(pod: Mapping[str, Any], tag: Tag, *, seen: SeenRun | None, now: datetime, is_old: bool) -> PodState:
    """The state of the tag's container. `seen` is the run that was seen before; None: no run was seen.

    `is_old`: whether the server is older than 1.30, so that not every deleted pod ends in a terminal phase.
    """
    if not is_bound(pod):
        return _never_ran(tag, state=ContainerState.GOING if is_being_deleted(pod) else ContainerState.CREATED)
    container, mark = container_status(pod, tag), mark_of(pod, name_in_pod(tag))
    state = container.get("state") or {}
    if "running" not in state and is_removed(pod):
        return _never_ran(tag, state=ContainerState.GOING)
    if mark in (ContainerMark.HELD, ContainerMark.CREATED):
        return _held(pod, tag, will_not_run=_will_not_run(pod, is_old=is_old))
    container_id = container.get("containerID")
    withdrawal, end = _withdrawn_by_image(pod, tag), state.get("terminated") or {}
    if withdrawal is not None and not container_id and not end.get("containerID") and "running" not in state:
        return _withdrawn(pod, tag, withdrawal, now=now, is_old=is_old)
    if container_id and (container.get("restartCount") or (seen is not None and container_id != seen.container_id)):
        # A kubelet starts a container again whose first start containerd has not stored before it was killed.
        first = seen or SeenRun(container_id=container_id, started_at=accepted_at(pod))
        return replace(_lost(tag, first.started_at, first, now), ran_twice=True)
    if "running" in state:
        started = _started_at(pod, state["running"], seen, now)
        return PodState(inspection=_running(tag, started, pod), container_id=container_id)
    # A container that was killed by its image may be reported as waiting for that image, with its end beside.
    if not end and (mark is not None or withdrawal is not None):
        end = (container.get("lastState") or {}).get("terminated") or {}
    if end:
        return _terminated(pod, tag, end, seen=seen, now=now)
    return _waiting(pod, tag, container, seen=seen, now=now, is_old=is_old)


def seen_run(state: PodState) -> SeenRun | None:
    """What the state adds to the knowledge of its pod; None: its container has not run."""
    found = state.inspection
    if not state.has_run or found.started_at is None or state.container_id is None:
        return None
    return SeenRun(container_id=state.container_id, started_at=found.started_at, stopped_at=found.stopped_at)


def annotated_run(pod: Mapping[str, Any], tag: Tag) -> SeenRun | None:
    """The first run that a survey of this or an earlier server saw and wrote into the pod; None: none did."""
    container_id, _, at = (run_of(pod, name_in_pod(tag)) or "").partition(" ")
    started = utc_of(at) if at else None
    return None if started is None else SeenRun(container_id=container_id, started_at=started)


def container_status(pod: Mapping[str, Any], tag: Tag) -> Mapping[str, Any]:
    """The status of the tag's container; empty if the kubelet has not reported one."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    name = name_in_pod(tag)
    return next((status for status in statuses if status.get("name") == name), {})


def is_removed(pod: Mapping[str, Any]) -> bool:
    """Whether batchq has removed the pod, which exists until its container has ended and its node confirms it.

    A server that ended in the middle of a removal has left a pod that nothing deletes: that one is removed again.
    """
    is_released = FINALIZER not in (pod["metadata"].get("finalizers") or ())
    return _deleted_for(pod) == REMOVE and is_released and is_being_deleted(pod)


def withdrawn_for(pod: Mapping[str, Any]) -> str | None:
    """Why batchq has withdrawn the pod during its start; None: it has not."""
    why = _deleted_for(pod)
    return why.removeprefix(WITHDRAW) if why.startswith(WITHDRAW) else None


def accepted_at(pod: Mapping[str, Any]) -> datetime:
    """When the kubelet accepted the pod, or else when the pod was created. Raises RuntimeUnknown.

    The clock of a node may be behind the API server's, which is the clock of the creation.
    """
    created = utc_of(pod["metadata"].get("creationTimestamp"))
    if created is None:
        raise RuntimeUnknown("invalid reply: a pod without a creation time")
    return max(created, utc_of((pod.get("status") or {}).get("startTime")) or created)


def _will_not_run(pod: Mapping[str, Any], *, is_old: bool) -> bool:
    """Whether a container of the pod that still waits will not run.

    A person who deletes a pod with a grace of 0 confirms nothing: its node may be about to start the container.
    """
    return _is_over(pod) or (is_old and is_confirmed_deletion(pod))


def _held(pod: Mapping[str, Any], tag: Tag, *, will_not_run: bool) -> PodState:
    """The state of a container whose start was not requested: it never ran."""
    if will_not_run:
        return _never_ran(tag, is_spent=True, refusal=_withdrawal(pod) or admission_refusal(pod))
    return _never_ran(tag)


def _withdrawn_by_image(pod: Mapping[str, Any], tag: Tag) -> ContainerRuntimeError | None:
    """Why batchq has withdrawn the start of the container, which got the held image then; None: it has not."""
    name = name_in_pod(tag)
    if mark_of(pod, name) is not None:
        return refusal_of(withdrawal_of(pod, name)) if mark_of(pod, name) == ContainerMark.WITHDRAWN else None
    return _withdrawal(pod) if has_held_image(pod, name) else None


def _withdrawn(
    pod: Mapping[str, Any], tag: Tag, refusal: ContainerRuntimeError, *, now: datetime, is_old: bool
) -> PodState:
    """The state of a container that has the held image after its start was withdrawn, and has not run until now.

    Its node handles one version of a pod after the other. So once it waits for the held image, it will not run. A
    kubelet of 1.20 shows the same of a container that ran until another client deleted the pod.
    """
    if is_old and is_confirmed_deletion(pod) and not _is_over(pod):
        return _lost(tag, accepted_at(pod), None, now)
    if _is_over(pod) or container_status(pod, tag).get("image") == HELD_IMAGE:
        return _never_ran(tag, is_spent=True, refusal=refusal)
    waits_for = f"node {pod['spec']['nodeName']} has not confirmed that the container cannot start"
    return _never_ran(tag, waits_for=waits_for, refusal=None if is_shared(pod) else refusal)


def _waiting(
    pod: Mapping[str, Any],
    tag: Tag,
    container: Mapping[str, Any],
    *,
    seen: SeenRun | None,
    now: datetime,
    is_old: bool,
) -> PodState:
    status, waiting = pod.get("status") or {}, (container.get("state") or {}).get("waiting") or {}
    reason, message = waiting.get("reason") or "", waiting.get("message") or ""
    is_over, node = _is_over(pod), pod["spec"]["nodeName"]
    if seen is not None or container.get("restartCount"):
        started = seen.started_at if seen is not None else accepted_at(pod)
        if not is_over:
            return PodState(inspection=_running(tag, started, pod), container_id=_id_of(seen))
        return _lost(tag, started, seen, now, host_lost=_deleted_for(pod) != STOP)
    if is_over and not status.get("containerStatuses"):
        return _not_admitted(pod, tag, now)
    if is_over and not _deleted_for(pod) and _is_disrupted(pod):
        return _lost(tag, accepted_at(pod), None, now)  # its node was deleted, and may run the container after all
    if is_over and reason == "PodInitializing" and not _deleted_for(pod):
        return _never_ran(tag, is_spent=True, refusal=initialization_refusal())
    if _will_not_run(pod, is_old=is_old):
        refusal = _withdrawal(pod)
        if not is_over and (refusal is None or has_host_failed(refusal)):
            # A kubelet of 1.20 does not report whether a start succeeded before the deletion.
            return _lost(tag, accepted_at(pod), None, now, host_lost=_deleted_for(pod) != STOP)
        return _never_ran(tag, is_spent=True, refusal=refusal)
    if reason in IMAGE_REASONS and HELD_IMAGE not in (container.get("image"), *message.split('"')):
        text = f"CannotPullContainerError: {message or reason}"[:MAX_REASON]
        return _never_ran(tag, refusal=ImageUnavailable(text))
    if reason in CONFIG_REASONS:
        refusal = refused_start("CannotCreateContainerError", message or reason)
        repeats = f"node {node} repeats the creation of the container: {message}" if refusal.host_failed else None
        return _never_ran(tag, refusal=refusal, waits_for=repeats)
    return _never_ran(tag, waits_for=f"node {node} pulls the image and creates the container")


def refused_again(pod: Mapping[str, Any], tag: Tag, now: datetime) -> PodState:
    """The state of a container whose pod its kubelet had accepted, and refused after a restart: it may have run."""
    return _lost(tag, accepted_at(pod), None, now)


def lost_with_node(pod: Mapping[str, Any], tag: Tag, state: PodState, now: datetime) -> PodState:
    """The state of a container whose node has left the cluster. `state`: what the pod still shows."""
    if state.is_spent or state.state in (ContainerState.EXITED, ContainerState.GOING):
        return state
    if is_removed(pod):
        return _never_ran(tag, state=ContainerState.GOING)
    if mark_of(pod, name_in_pod(tag)) in (ContainerMark.HELD, ContainerMark.CREATED):
        return _never_ran(tag, is_spent=True)
    lost = _lost(tag, state.inspection.started_at or accepted_at(pod), None, now)
    return replace(lost, container_id=state.container_id)


def _not_admitted(pod: Mapping[str, Any], tag: Tag, now: datetime) -> PodState:
    """The state of a pod that ended without a container."""
    refusal = admission_refusal(pod)
    if refusal is not None:
        return _never_ran(tag, is_spent=True, refusal=refusal)
    if _deleted_for(pod):
        return _never_ran(tag, is_spent=True, refusal=_withdrawal(pod))
    return _lost(tag, accepted_at(pod), None, now)


def _terminated(
    pod: Mapping[str, Any], tag: Tag, end: Mapping[str, Any], *, seen: SeenRun | None, now: datetime
) -> PodState:
    reason, code, message = end.get("reason") or "", int(end.get("exitCode") or 0), end.get("message") or ""
    if reason == "StartError" and not may_have_begun(message):
        return _never_ran(tag, is_spent=True, refusal=program_refusal(message))
    if reason == "StartError" or (reason != "ContainerStatusUnknown" and utc_of(end.get("startedAt")) is None):
        # A kubelet that was killed during the start reports a container that it has not seen running as an exit with 0.
        # A containerd that was killed then reports the program's exit code, or that of a runc that did not start it.
        lost = _lost(tag, accepted_at(pod), seen, now)
        return replace(lost, container_id=lost.container_id or end.get("containerID"))
    if reason == "ContainerStatusUnknown" and not end.get("containerID") and seen is None:
        if withdrawn_for(pod) is not None:
            return _never_ran(tag, is_spent=True, refusal=_withdrawal(pod))
        if _deleted_for(pod):
            return _exited(tag, accepted_at(pod), KILLED, now)
    started, finished = _started_at(pod, end, seen, now), utc_of(end.get("finishedAt"))
    stopped = now if finished is None else min(finished + WHOLE_SECOND + _clock_offset(pod, end), now)
    exited = _exited(tag, started, code, seen.stopped_at if seen is not None and seen.stopped_at else stopped)
    return replace(
        exited,
        container_id=end.get("containerID"),
        inspection=replace(
            exited.inspection,
            out_of_memory=reason == "OOMKilled",
            host_lost=code != 0 and _ended_by_host(pod, reason),
        ),
    )


def _ended_by_host(pod: Mapping[str, Any], reason: str) -> bool:
    """Whether the node, an administrator or another client ended a container that failed."""
    status = pod.get("status") or {}
    return (
        reason == "Unknown"
        or (reason == "ContainerStatusUnknown" and _deleted_for(pod) != STOP)
        or status.get("reason") in HOST_REASONS
        or _is_disrupted(pod)
        or (is_being_deleted(pod) and not _deleted_for(pod))
    )


def _started_at(pod: Mapping[str, Any], state: Mapping[str, Any], seen: SeenRun | None, now: datetime) -> datetime:
    """The start of the container: at most a second late, never before it, and equal in all reports."""
    if seen is not None:
        return seen.started_at
    started = utc_of(state.get("startedAt"))
    return accepted_at(pod) if started is None else min(started + WHOLE_SECOND + _clock_offset(pod, state), now)


def _clock_offset(pod: Mapping[str, Any], state: Mapping[str, Any]) -> timedelta:
    """How much the node's clock is behind at least: no container starts before its pod was created."""
    created, started = utc_of(pod["metadata"].get("creationTimestamp")), utc_of(state.get("startedAt"))
    if created is None or started is None:
        return timedelta(0)
    return max(timedelta(0), created - started - WHOLE_SECOND)


def _is_disrupted(pod: Mapping[str, Any]) -> bool:
    """Whether Kubernetes has marked the pod as ended by a drain, an eviction or the deletion of its node."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        condition.get("type") == "DisruptionTarget" and condition.get("status") == "True" for condition in conditions
    )


def _lost(tag: Tag, started: datetime, seen: SeenRun | None, now: datetime, *, host_lost: bool = True) -> PodState:
    """A container whose end is not known. `host_lost`: False: batchq has deleted its pod to stop it."""
    stopped = seen.stopped_at if seen is not None and seen.stopped_at is not None else now
    exited = _exited(tag, started, KILLED, stopped)
    return replace(exited, container_id=_id_of(seen), inspection=replace(exited.inspection, host_lost=host_lost))


def _id_of(seen: SeenRun | None) -> str | None:
    return None if seen is None else seen.container_id


def _exited(tag: Tag, started: datetime, code: int, stopped: datetime) -> PodState:
    found = Inspection(
        tag=tag,
        state=ContainerState.EXITED,
        started_at=started,
        stopped_at=max(started, stopped),
        exit_code=code,
    )
    return PodState(inspection=found)


def _running(tag: Tag, started: datetime, pod: Mapping[str, Any]) -> Inspection:
    address = (pod.get("status") or {}).get("podIP") if tag.container_key else None
    return Inspection(tag=tag, state=ContainerState.RUNNING, started_at=started, address=address)


def _never_ran(
    tag: Tag,
    *,
    state: ContainerState = ContainerState.CREATED,
    waits_for: str | None = None,
    refusal: ContainerRuntimeError | None = None,
    is_spent: bool = False,
) -> PodState:
    inspection = Inspection(tag=tag, state=state)
    return PodState(inspection=inspection, waits_for=waits_for, refusal=refusal, is_spent=is_spent)


def _withdrawal(pod: Mapping[str, Any]) -> ContainerRuntimeError | None:
    """The refusal for which batchq has withdrawn the pod; None: it has not."""
    why = withdrawn_for(pod)
    return None if why is None else refusal_of(why)


def _is_over(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _deleted_for(pod: Mapping[str, Any]) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(DELETED_FOR) or "")


def utc_of(text: object) -> datetime | None:
    """A time of the API, UTC; None for null and for the start of the epoch, which stands for no time."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text).astimezone(UTC)
    except ValueError as error:
        raise RuntimeUnknown(f"invalid reply: {text!r} is not a time") from error
    return None if at.timestamp() == 0 else at
