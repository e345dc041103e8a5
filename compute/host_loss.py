"""Whether containers ended because their host or their engine went down. Pure."""

from datetime import datetime

from batchq.ports.runtime import Inspection


def went_down(it: Inspection, before: datetime | None) -> bool:
    """Whether it failed with its host, and not by itself."""
    if before is None or it.started_at is None or not may_be_lost(it):
        return False
    return it.started_at < before


def may_be_lost(it: Inspection) -> bool:
    return it.exit_code not in {None, 0}
