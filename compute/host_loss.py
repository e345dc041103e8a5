"""Decides whether a container ended because its host or its engine went down. Pure: docs/decisions/0014."""

from datetime import datetime

from batchq.ports.runtime import Inspection


def ended_with_host(inspection: Inspection, before: datetime | None) -> bool:
    """Whether the container started before the time `before`, and failed.

    `before` is when the engine's present run began, as `lost_before` of the runtime returns it. None: the time is
    unknown, and every exit counts as the container's own.
    """
    if before is None or inspection.started_at is None or not failed(inspection):
        return False
    return inspection.started_at < before


def failed(inspection: Inspection) -> bool:
    """Whether the container failed: an exit with 0 is a success even if the host went down afterwards."""
    return inspection.exit_code not in {None, 0}
