"""The effects that a change of an attempt's containers requires, and the containers that may be removed. Pure."""

from collections.abc import Iterator

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain.enums import AttemptContainerState
from batchq.domain.ids import Tag
from batchq.domain.job import AttemptContainer
from batchq.domain.lifecycle import escalation
from batchq.domain.lifecycle.container_rules import YET_TO_COME


def effects_of_change(
    tag: Tag, before: tuple[AttemptContainer, ...], after: tuple[AttemptContainer, ...]
) -> Iterator[do.Effect]:
    """The effects that a change of an attempt's containers requires. `tag`: the attempt's."""
    for old, new in zip(before, after, strict=True):
        effect = _effect(replace(tag, container_key=new.key), old, new)
        if effect is not None:
            yield effect
    gone = removable(before)
    for key in removable(after):
        if key not in gone:
            yield do.CleanUpContainer(tag=replace(tag, container_key=key))


def _effect(tag: Tag, old: AttemptContainer, new: AttemptContainer) -> do.Effect | None:
    """The effect that a change of one container requires; None: none.

    A container that runs although it was ordered to stop while it was starting gets its signal.
    """
    match new.state:
        case AttemptContainerState.STARTING if old.state is AttemptContainerState.WAITING:
            return do.StartContainer(tag=tag)
        case AttemptContainerState.STARTING if new.stop_ordered and not old.stop_ordered:
            return do.AbandonStart(tag=tag)
        case AttemptContainerState.RUNNING if new.stop_ordered:
            ran = old.state is AttemptContainerState.RUNNING
            return escalation.next_effect(tag, old if ran and old.stop_ordered else None, new)
        case AttemptContainerState.ENDED if old.state is AttemptContainerState.STARTING and new.started_at is not None:
            # It exited before its start was confirmed: a repeated start would run it twice.
            return do.AbandonStart(tag=tag)
        case _:
            return None


def removable(containers: tuple[AttemptContainer, ...]) -> tuple[str, ...]:
    """The keys of the ended containers that may be removed: none while any container of the attempt has yet to run.

    The volumes that containers share are removed with the attempt's last container, and a later container may read
    what an earlier one wrote.
    """
    return () if any(container.state in YET_TO_COME for container in containers) else ended_keys(containers)


def ended_keys(containers: tuple[AttemptContainer, ...]) -> tuple[str, ...]:
    """The keys of the containers that have ended, without those whose start was never requested."""
    return tuple(
        container.key
        for container in containers
        if container.state is AttemptContainerState.ENDED and container.start_requested_at is not None
    )
