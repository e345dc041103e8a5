"""Parsers of flag values: lists, durations, memory sizes and numbers. They raise ArgumentTypeError."""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from math import ceil

from batchq.cli.times import parse_duration

NONE = "none"  # removes a setting
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([kmgt]?)(?:i?b)?", re.ASCII)
_KIB = {"k": 1, "m": 1024, "g": 1024**2, "t": 1024**3}
_KIB_PER_MIB = 1024
_MAX_DIGITS = 12
_VCPU = re.compile(r"\d{1,6}(?:\.\d{1,3})?", re.ASCII)


def parse_seconds(text: str) -> int:
    """Parse a duration into whole seconds, rounded up: `90m`, `1h30m`, `2d`; a number alone is seconds."""
    return ceil(parse_duration(text.strip().lower()).total_seconds())


def parse_mib(text: str) -> int:
    """Parse a memory size into MiB, rounded up: `512m`, `4g`, `1.5GiB`. A number without a unit is MiB."""
    parts = _MEMORY.fullmatch(text.strip().lower())
    size = 0 if parts is None or len(text) > _MAX_DIGITS else ceil(_kib(*parts.groups()) / _KIB_PER_MIB)
    if size < 1:
        raise ArgumentTypeError(f"{text!r} is not a memory size; examples: 512m, 4g")
    return size


def _kib(number: str, unit: str) -> float:
    return float(number) * _KIB[unit or "m"]


def parse_vcpus(text: str) -> str:
    """Check a number of vCPUs with up to three decimals, and return it as AWS's requests have it: `2`, `0.25`."""
    if not _VCPU.fullmatch(text) or float(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a number of vCPUs; examples: 1, 0.5")
    return text


def parse_count(text: str) -> int:
    """Parse a whole number of at least 1."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text)):
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def comma_list(text: str) -> list[str]:
    """Parse a list with commas; empty parts are dropped."""
    return [it.strip() for it in text.split(",") if it.strip()]


def yes_or_no(text: str) -> bool:
    """Parse `yes` or `no`."""
    if text.lower() not in {"yes", "no"}:
        raise ArgumentTypeError(f"{text!r} is neither yes nor no")
    return text.lower() == "yes"


def or_none(parse: Callable[[str], object]) -> Callable[[str], object]:
    """A parser that returns None for the word `none`, which removes a setting, and else calls `parse`."""

    def parse_or_none(text: str) -> object:
        try:
            return None if text.lower() == NONE else parse(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is neither a number nor {NONE}") from None

    return parse_or_none
