"""Times in the format of all dialects: whole milliseconds since 1970."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def milliseconds(moment: datetime) -> int:
    """AWS: fractions of a millisecond are cut off. `moment` is aware."""
    return (moment - _EPOCH) // _MILLISECOND
