"""How values of filters are compared with columns: names without case, numbers, and times in milliseconds."""

from datetime import UTC, datetime, timedelta

ANY_REST = "*"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def folded(name: str) -> str:
    """The name without its case: equal for names that differ in nothing else."""
    return name.lower()


def number(text: str) -> int | None:
    """The whole number it says, if it says one that a database can hold."""
    if not (text.isascii() and text.isdigit()) or len(text) > len("9223372036854775807"):
        return None
    return min(int(text), 2**63 - 1)


def milliseconds(moment: datetime) -> int:
    """Since the epoch, whole ones, rounded down."""
    return (moment - EPOCH) // _MILLISECOND
