"""Quantities and times: the parsers of flag values, which raise ArgumentTypeError, and the formats of the output."""

import time
from argparse import ArgumentTypeError
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import TypeVar

from batchq.domain.quantities import count_of, is_vcpus, mib_of
from batchq.domain.times import EPOCH, duration_of

MINUTE, HOUR, DAY = 60, 3600, 86_400  # seconds
NONE = "none"  # removes a setting
Value = TypeVar("Value")


def now() -> datetime:
    """The wall time of this machine, aware, in its own time zone."""
    return datetime.now(UTC).astimezone()


def local_time(milliseconds: object) -> datetime | None:
    """The time of a response, in the local time zone; None if the member is absent or not a time."""
    if not isinstance(milliseconds, int | float):
        return None
    try:
        return (EPOCH + timedelta(milliseconds=milliseconds)).astimezone()
    except OverflowError:
        return None


def iso_text(at: datetime | None) -> str:
    """`2026-11-23T14:02:30+01:00`; empty for None."""
    return "" if at is None else at.isoformat(timespec="seconds")


def clock_time(at: datetime | None) -> str:
    """`2026-11-23 14:02:30 CET`; empty for None."""
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S %Z}"


def ago(at: datetime | None, present: datetime) -> str:
    """`3 min ago`; empty for None."""
    return "" if at is None else f"{format_duration(present - at)} ago"


def format_duration(length: timedelta) -> str:
    """A length of time in its largest unit, or in days and hours: `12 s`, `3 min`, `9 h`, `2 d 3 h`.

    A negative length, from a clock that differs from the server's, is 0.
    """
    seconds = max(0, int(length.total_seconds()))
    if seconds < MINUTE:
        return f"{seconds} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min"
    if seconds < DAY:
        return f"{seconds // HOUR} h"
    return f"{seconds // DAY} d {seconds % DAY // HOUR} h"


def format_long_duration(length: timedelta) -> str:
    """A length of time in its two largest units: `12 s`, `11 min 57 s`, `9 h 3 min`, `2 d 3 h`."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < MINUTE or seconds >= DAY:
        return format_duration(length)
    if seconds < HOUR:
        return f"{seconds // MINUTE} min {seconds % MINUTE} s"
    return f"{seconds // HOUR} h {seconds % HOUR // MINUTE} min"


def flag_parser(read: Callable[[str], Value | None], why: str) -> Callable[[str], Value]:
    """A parser of the values of a flag. `read` returns None for a text that is wrong; `why`: what is wrong with it."""

    def parse(text: str) -> Value:
        value = read(text)
        if value is None:
            raise ArgumentTypeError(f"{text!r} {why}")
        return value

    return parse


#: `90`, `90s`, `15m`, `1h30m`, `2d` or `1w`; a number alone is seconds.
parse_duration = flag_parser(duration_of, "is not a duration, for example 90s, 15m, 1h30m or 2d")
#: A memory size, into MiB, rounded up: `512m`, `4g`, `1.5GiB`. A number without a unit is MiB.
parse_mib = flag_parser(mib_of, "is not a memory size; examples: 512m, 4g")
#: A whole number of at least 1.
parse_count = flag_parser(count_of, "is not a whole number of at least 1")
#: A number of vCPUs with up to three decimals, as AWS's requests have it: `2`, `0.25`.
parse_vcpus = flag_parser(lambda text: text if is_vcpus(text) else None, "is not a number of vCPUs; examples: 1, 0.5")


def parse_time(text: str) -> datetime:
    """Parse a duration before now, as `1h`, or an ISO 8601 time, local without an offset. Raises ArgumentTypeError."""
    try:
        if not text.isdigit() and (length := duration_of(text)) is not None:
            return now() - length
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise ArgumentTypeError(f"{text!r} is neither a time, as 2026-11-23T18:30, nor a duration, as 1h") from None


def elapsed() -> float:
    """Seconds of a clock that is never set, for deadlines."""
    return time.monotonic()


def parse_seconds(text: str) -> int:
    """Parse a duration into whole seconds, rounded up: `90m`, `1h30m`, `2d`; a number alone is seconds."""
    return ceil(parse_duration(text.strip().lower()).total_seconds())


def comma_list(text: str) -> list[str]:
    """Parse a list with commas; empty parts are dropped."""
    return [part.strip() for part in text.split(",") if part.strip()]


yes_or_no = flag_parser(lambda text: {"yes": True, "no": False}.get(text.lower()), "is neither yes nor no")


def or_none(parse: Callable[[str], object]) -> Callable[[str], object]:
    """A parser that returns None for the word `none`, which removes a setting, and else calls `parse`."""

    def parse_or_none(text: str) -> object:
        try:
            return None if text.lower() == NONE else parse(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is neither a number nor {NONE}") from None

    return parse_or_none
