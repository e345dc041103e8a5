"""The time stamps of RFC 3339 that container engines put before each line of output."""

import re
from datetime import datetime
from functools import lru_cache

STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")
DIGITS = 9
SECOND = 1_000_000_000


def stamp_nanoseconds(stamp: re.Match[bytes]) -> int:
    """The time of a match of STAMP, in nanoseconds since the epoch."""
    second, fraction, zone = stamp.groups(b"")
    return int(_seconds(second + zone)) * SECOND + int(fraction.ljust(DIGITS, b"0"))


@lru_cache(maxsize=16)
def _seconds(stamp: bytes) -> int:
    return round(datetime.fromisoformat(stamp.decode()).timestamp())
