"""Times as numbers: milliseconds, as the APIs and the store have them, and microseconds. Pure. All times are aware."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)


def milliseconds(at: datetime) -> int:
    """Whole milliseconds since the epoch, rounded down. AWS: fractions are cut off."""
    return (at - EPOCH) // _MILLISECOND


def optional_milliseconds(at: datetime | None) -> int | None:
    """As `milliseconds`; None for None."""
    return None if at is None else milliseconds(at)


def microseconds(at: datetime) -> int:
    """Microseconds since the epoch."""
    return (at - EPOCH) // _MICROSECOND


def from_microseconds(number: int) -> datetime:
    """The time at this number of microseconds since the epoch."""
    return EPOCH + timedelta(microseconds=number)
