"""Whether containers ended because their host or their engine went down. Pure."""

from datetime import datetime

from batchq.ports.runtime import ContainerState, Inspection


def went_down(it: Inspection, before: datetime | None, *, made_at: datetime | None) -> bool:
    """Whether it failed, or was not even begun, with its host, and not by itself."""
    began = made_at if it.state is ContainerState.CREATED else it.started_at
    if before is None or began is None or not may_be_lost(it):
        return False
    return began < before


def may_be_lost(it: Inspection) -> bool:
    return it.state is ContainerState.CREATED or it.exit_code not in {None, 0}
