"""What the engine tells of a container, read into ours. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from batchq.domain.job import Tag
from batchq.errors import EngineUnknown
from batchq.values import ContainerState, Found
from compute.docker_spec import tag_of

STATES = {
    "created": ContainerState.CREATED,
    "running": ContainerState.RUNNING,
    "paused": ContainerState.RUNNING,
    "restarting": ContainerState.RUNNING,
    "stopping": ContainerState.RUNNING,
    "exited": ContainerState.EXITED,
    "stopped": ContainerState.EXITED,
    "removing": ContainerState.GOING,
    "dead": ContainerState.GOING,
}


def member(answer: object, *path: str) -> Any:  # noqa: ANN401 - JSON may be anything
    """What stands at a path of the engine's answer. Raises EngineUnknown where the answer has no such thing."""
    it = answer
    for name in path:
        if not isinstance(it, Mapping) or name not in it:
            raise EngineUnknown(f"the engine's answer has no {'.'.join(path)}")
        it = it[name]
    return it


def labels_of(inspected: object) -> Mapping[str, str]:
    return member(inspected, "Config", "Labels") or {}


def state_of(word: object) -> ContainerState:
    """The engine's word for a state, as it stands in a list."""
    if not isinstance(word, str) or word not in STATES:
        raise EngineUnknown(f"the engine calls a container's state {word!r}")
    return STATES[word]


def found(tag: Tag, inspected: Mapping[str, Any]) -> Found:
    """Raises EngineUnknown where the answer is not one of an engine."""
    try:
        return _found(tag, inspected["State"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EngineUnknown(f"inspect: an answer that cannot be read: {error!r}") from error


def surveyed(rows: object, instance: str) -> dict[str, Found]:
    """The containers of an instance in a list, by their ids."""
    if not isinstance(rows, list):
        raise EngineUnknown("the engine's list of containers is none")
    tags = ((row, tag_of(member(row, "Labels") or {}, instance)) for row in rows)
    return {str(member(row, "Id")): Found(tag=tag, state=state_of(member(row, "State"))) for row, tag in tags if tag}


def _found(tag: Tag, state: Mapping[str, Any]) -> Found:
    started_at = time(state["StartedAt"])
    if started_at is None:
        # Its exit code means nothing: a container that never ran has 0.
        now = state_of(state["Status"])
        return Found(tag=tag, state=ContainerState.CREATED if now is ContainerState.EXITED else now)
    if state_of(state["Status"]) is not ContainerState.EXITED:
        return Found(tag=tag, state=state_of(state["Status"]), started_at=started_at)
    return Found(
        tag=tag,
        state=ContainerState.EXITED,
        started_at=started_at,
        # The engine stamps the end of a fast container before its beginning.
        stopped_at=max(started_at, time(state["FinishedAt"]) or started_at),
        exit_code=int(state["ExitCode"]),
        out_of_memory=bool(state["OOMKilled"]),
    )


def time(stamp: str) -> datetime | None:
    """Go's zero time is None. Nanoseconds are cut to microseconds."""
    at = datetime.fromisoformat(stamp).astimezone(UTC)
    return None if at.year == 1 else at
