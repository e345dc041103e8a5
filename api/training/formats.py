"""Texts of the training dialect: times, durations and memory sizes."""

import re
from datetime import UTC, datetime, timedelta

_LENGTH = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,9})s)?", re.ASCII)
_MEMORY = re.compile(r"(\d{1,9}(?:\.\d{1,3})?) ?([MGT])i?B?", re.ASCII)
_STEP = 1024
_MIB = {"M": 1, "G": 1024, "T": 1024**2}


def rfc3339(moment: datetime) -> str:
    """`2026-03-02T09:14:05.120Z`; `moment` is aware."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


def optional_rfc3339(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def length_text(length: timedelta) -> str:
    """`2h 15m`, `45m`, `0m`: whole minutes."""
    hours, minutes = divmod(int(length.total_seconds()) // 60, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m"


def parse_length(text: str) -> timedelta | None:
    """Parse `6h`, `90m`, `1h30m`, `2d` or `45s`; None for another text."""
    parts = _LENGTH.fullmatch(text)
    if parts is None or not text:
        return None
    days, hours, minutes, seconds = (int(it or 0) for it in parts.groups())
    return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


def parse_memory(text: str) -> int | None:
    """Parse `8GB`, `8GiB` or `512MB` into MiB, in powers of 1024; None for another text, and for less than 1 MiB."""
    parts = _MEMORY.fullmatch(text)
    return None if parts is None else int(float(parts[1]) * _MIB[parts[2]]) or None


def memory_text(mib: int) -> str:
    """`8GB`, or `512MB` for an amount that is not whole GiB."""
    return f"{mib // 1024}GB" if mib % 1024 == 0 else f"{mib}MB"


def size_text(size_bytes: int) -> str:
    """`512 B`, `1.4 MB`: in the largest unit, in powers of 1024."""
    size, unit = float(size_bytes), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if size < _STEP:
            break
        size, unit = size / _STEP, larger
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
