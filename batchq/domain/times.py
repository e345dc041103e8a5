"""Times as numbers and as text: milliseconds, as the APIs and the store have them, microseconds, and `1h30m`. Pure.

All times are aware.
"""

import re
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = 253_402_300_799_999  # milliseconds: the last of the year 9999
MILLISECOND = timedelta(milliseconds=1)
MICROSECOND = timedelta(microseconds=1)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}  # seconds
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhdw]?)", re.ASCII)
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,3})?[smhdw])+|\d{1,9}", re.ASCII)


def milliseconds(at: datetime) -> int:
    """Whole milliseconds since the epoch, rounded down. AWS: fractions are cut off."""
    return (at - EPOCH) // MILLISECOND


def optional_milliseconds(at: datetime | None) -> int | None:
    """As `milliseconds`; None for None."""
    return None if at is None else milliseconds(at)


def microseconds(at: datetime) -> int:
    """Microseconds since the epoch."""
    return (at - EPOCH) // MICROSECOND


def from_microseconds(number: int) -> datetime:
    """The time at this number of microseconds since the epoch."""
    return EPOCH + timedelta(microseconds=number)


def rfc3339(at: datetime) -> str:
    """`2026-03-02T09:14:05.120Z`."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def optional_rfc3339(at: datetime | None) -> str | None:
    """As `rfc3339`; None for None."""
    return None if at is None else rfc3339(at)


def duration_of(text: str) -> timedelta | None:
    """The duration `90`, `90s`, `15m`, `1h30m`, `2d` or `1w`; a number alone is seconds. None for any other text."""
    if _DURATION.fullmatch(text) is None:
        return None
    try:
        return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    except OverflowError:
        return None
