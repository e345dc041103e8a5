"""Conversion of filter values for comparison with columns: names in lower case, numbers, times in milliseconds."""

from datetime import UTC, datetime, timedelta

ANY_REST = "*"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def folded(name: str) -> str:
    """The name in lower case, for case-insensitive comparison."""
    return name.lower()


def number(text: str) -> int | None:
    """The non-negative integer in the text, at most the greatest that SQLite stores; None for any other text."""
    if not (text.isascii() and text.isdigit()) or len(text) > len("9223372036854775807"):
        return None
    return min(int(text), 2**63 - 1)


def milliseconds(moment: datetime) -> int:
    """The time in whole milliseconds since the epoch, rounded down."""
    return (moment - EPOCH) // _MILLISECOND
