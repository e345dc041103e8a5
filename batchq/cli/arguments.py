"""Parsers of flag values: lists, durations, memory sizes and numbers. They raise ArgumentTypeError."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from math import ceil

from batchq.cli.times import parse_duration
from batchq.domain.quantities import count_of, is_vcpus, mib_of

NONE = "none"  # removes a setting


def parse_seconds(text: str) -> int:
    """Parse a duration into whole seconds, rounded up: `90m`, `1h30m`, `2d`; a number alone is seconds."""
    return ceil(parse_duration(text.strip().lower()).total_seconds())


def parse_mib(text: str) -> int:
    """Parse a memory size into MiB, rounded up: `512m`, `4g`, `1.5GiB`. A number without a unit is MiB."""
    size = mib_of(text)
    if size is None:
        raise ArgumentTypeError(f"{text!r} is not a memory size; examples: 512m, 4g")
    return size


def parse_vcpus(text: str) -> str:
    """Check a number of vCPUs with up to three decimals, and return it as AWS's requests have it: `2`, `0.25`."""
    if not is_vcpus(text):
        raise ArgumentTypeError(f"{text!r} is not a number of vCPUs; examples: 1, 0.5")
    return text


def parse_count(text: str) -> int:
    """Parse a whole number of at least 1."""
    number = count_of(text)
    if number is None:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


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
