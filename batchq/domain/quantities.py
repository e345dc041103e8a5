"""Amounts as users write them: memory sizes, vCPUs and whole numbers. Pure."""

import re
from math import ceil

_MEMORY = re.compile(r"(\d+(?:\.\d+)?) ?([kmgt]?)(?:i?b)?", re.ASCII)
_KIB = {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}
_KIB_PER_MIB = 1024
_MAX_DIGITS = 12
_VCPU = re.compile(r"\d{1,6}(?:\.\d{1,3})?", re.ASCII)


def mib_of(text: str) -> int | None:
    """A memory size in MiB, rounded up: `512m`, `4g`, `1.5GiB`. Without a unit: MiB. None for any other text."""
    parts = _MEMORY.fullmatch(text.strip().lower())
    if parts is None or len(text) > _MAX_DIGITS:
        return None
    number, unit = parts.groups()
    return ceil(float(number) * _KIB[unit or "m"] / _KIB_PER_MIB) or None


def is_vcpus(text: str) -> bool:
    """Whether this is a number of vCPUs above 0 with up to three decimals."""
    return _VCPU.fullmatch(text) is not None and float(text) > 0


def count_of(text: str) -> int | None:
    """A whole number of at least 1; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) else None
