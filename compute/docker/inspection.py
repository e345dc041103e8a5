"""Parses the engine's replies about containers. Pure."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from signal import Signals
from typing import TypeVar

from batchq.compute.docker.create_request import tag_of
from batchq.domain.ids import Tag
from batchq.errors import RuntimeUnknown
from batchq.ports.runtime import ContainerState, Created, Inspection

#: The signals of Linux, by name without `SIG` and by number, without 32 and 33, which glibc uses itself.
_SIGNALS = frozenset(
    {
        *(name.removeprefix("SIG") for name in Signals.__members__),
        *(f"RTMIN+{number}" for number in range(1, 16)),
        *(f"RTMAX-{number}" for number in range(1, 15)),
        *map(str, (*range(1, 32), *range(34, 65))),
    }
)
MAX_ERROR_TEXT = 200  # characters of an error text, which quotes the reply
STATES = {
    "created": ContainerState.CREATED,
    "running": ContainerState.RUNNING,
    "paused": ContainerState.RUNNING,
    "restarting": ContainerState.RUNNING,
    "stopping": ContainerState.RUNNING,
    "exited": ContainerState.EXITED,
    "stopped": ContainerState.EXITED,
    "dead": ContainerState.EXITED,  # it has ended, and its removal has failed; another removal can succeed
    "removing": ContainerState.GOING,
}


T = TypeVar("T")


def member(reply: object, *path: str, of: type[T]) -> T:
    """The value at a path of nested objects in a reply. Raises RuntimeUnknown if it is missing or of another type.

    With `of=object` a missing value is None.
    """
    value = reply
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, of):
        raise RuntimeUnknown(f"invalid engine response: {'.'.join(path)} is {value!r}"[:MAX_ERROR_TEXT])
    return value


def labels_of(described: object, *path: str) -> Mapping[str, str]:
    """The labels at a path of a reply; empty if they are null or missing."""
    labels = member(described, *path, of=object)
    return labels if isinstance(labels, dict) else {}


def reply_rows(reply: object, kind: str) -> list[object]:
    """The reply to a request for a list of objects of this kind. Raises RuntimeUnknown if it is not a list."""
    if not isinstance(reply, list):
        raise RuntimeUnknown(f"invalid engine response: the list of {kind} is not a list")
    return reply


def state_of(name: object) -> ContainerState | None:
    """The state for the engine's name of it in a list of containers; None: unknown."""
    return STATES.get(name) if isinstance(name, str) else None


def state_in(state: Mapping[str, object]) -> ContainerState:
    """The state in the `State` of an inspection; for an unknown name it is derived from the process id and the times.

    Raises RuntimeUnknown.
    """
    known = state_of(state.get("Status"))
    if known is not None:
        return known
    name = member(state, "Status", of=str)
    if member(state, "Pid", of=int) > 0:
        return ContainerState.RUNNING
    if time_of(state, "StartedAt") is None:
        return ContainerState.CREATED
    if time_of(state, "FinishedAt") is None:
        raise RuntimeUnknown(f"unknown container state {name!r} in the engine's response")
    return ContainerState.EXITED


def parse_inspection(tag: Tag, inspected: object) -> Inspection:
    """Parse an inspection. Raises RuntimeUnknown for a malformed or contradictory reply."""
    state = member(inspected, "State", of=dict)
    now, started_at = state_in(state), time_of(state, "StartedAt")
    if started_at is None and now is ContainerState.RUNNING:
        raise RuntimeUnknown(f"the engine reports a running container without a start time: {tag}")
    if started_at is None:
        # The exit code has no meaning: a container that never ran has 0.
        return Inspection(tag=tag, state=ContainerState.CREATED if now is ContainerState.EXITED else now)
    if now is not ContainerState.EXITED:
        return Inspection(tag=tag, state=now, started_at=started_at)
    return Inspection(
        tag=tag,
        state=ContainerState.EXITED,
        started_at=started_at,
        # For a short container the engine can report an end before the start.
        stopped_at=max(started_at, time_of(state, "FinishedAt") or started_at),
        exit_code=member(state, "ExitCode", of=int),
        out_of_memory=state.get("OOMKilled") is True,
    )


def state_of_container(tag: Tag, inspected: object | None) -> ContainerState | None:
    """The state in an inspection; None: there is no such container. Raises RuntimeUnknown."""
    return None if inspected is None else parse_inspection(tag, inspected).state


def tag_in(inspected: object, instance: str) -> Tag | None:
    """The tag of the inspected container; None: not a container of a job, or not of this instance."""
    return tag_of(labels_of(inspected, "Config", "Labels"), instance)


def parse_created(tag: Tag, inspected: object) -> Created:
    """The result of `create` for an existing container."""
    return Created(container_id=member(inspected, "Id", of=str), state=parse_inspection(tag, inspected).state)


def stop_signal(inspected: object) -> str:
    """The stop signal of the image. SIGTERM if the image has none, or one that does not exist, as for `docker stop`.

    The engine does not validate the signal of an image, and refuses to send an unknown one.
    """
    own = member(inspected, "Config", of=dict).get("StopSignal")
    return own if isinstance(own, str) and own.upper().removeprefix("SIG") in _SIGNALS else "SIGTERM"


def address_of(inspected: object) -> str | None:
    """The IP address on the first network that has one; None: no network has one."""
    networks = member(inspected, "NetworkSettings", "Networks", of=dict)
    addresses = (member(network, "IPAddress", of=object) for network in networks.values())
    return next((address for address in addresses if isinstance(address, str) and address), None)


def parse_survey(
    rows: object, instance: str, inspect_state: Callable[[str, Tag], ContainerState]
) -> dict[str, Inspection]:
    """The containers of an instance in the engine's list, by id.

    `inspect_state` returns the state of a container if its name in the list is unknown.
    """
    tags = ((row, tag_of(labels_of(row, "Labels"), instance)) for row in reply_rows(rows, "containers"))
    ours = ((member(row, "Id", of=str), row, tag) for row, tag in tags if tag is not None)
    return {
        container_id: Inspection(
            tag=tag, state=state_of(member(row, "State", of=object)) or inspect_state(container_id, tag)
        )
        for container_id, row, tag in ours
    }


def time_of(state: object, name: str) -> datetime | None:
    """Parse a time, in UTC, cut to microseconds. Go's zero time (the year 1) is None. Raises RuntimeUnknown."""
    text = member(state, name, of=str)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise RuntimeUnknown(f"invalid engine response: {name} is not a time: {text!r}") from error
    return None if at.year == 1 else at.astimezone(UTC)
