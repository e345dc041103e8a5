"""Decides whether a container ended because its host or its engine went down. Pure: docs/decisions/0014."""

from datetime import datetime

from batchq.ports.runtime import Inspection


def went_down(it: Inspection, before: datetime | None) -> bool:
    """Whether the container started before the time `before`, and failed.

    `before` is when the engine's present run began, as `lost_before` of the runtime returns it. None: the time is
    unknown, and every exit counts as the container's own.
    """
    if before is None or it.started_at is None or not may_be_lost(it):
        return False
    return it.started_at < before


def may_be_lost(it: Inspection) -> bool:
    """Whether the container failed: an exit with 0 is a success even if the host went down afterwards."""
    return it.exit_code not in {None, 0}
