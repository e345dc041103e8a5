"""When a container began and ended, by our clock. The engine's is another, which may be set while containers run."""

from datetime import datetime, timedelta

from batchq.domain.events import ContainerExited

NOTHING = timedelta()


def began(told: datetime, *, asked: datetime | None, now: datetime) -> datetime:
    """As the engine told, but after its start was asked for and not in the future: timeouts count from it."""
    return min(told + _set_back(told, asked, now), now)


def lasted(told: ContainerExited, *, asked: datetime | None, now: datetime) -> tuple[datetime, datetime]:
    """Its beginning and its end: as far apart as the engine told, never less than nothing."""
    set_back = _set_back(told.started_at, asked, now)
    return told.started_at + set_back, max(told.stopped_at, told.started_at) + set_back


def _set_back(told: datetime, asked: datetime | None, now: datetime) -> timedelta:
    """How far the engine's clock is behind, as far as can be known; where our own was set back, it cannot."""
    return NOTHING if asked is None or asked > now else max(asked - told, NOTHING)
