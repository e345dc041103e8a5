"""What flags say: lists between commas, yes and no, numbers, and `none`."""

from argparse import ArgumentTypeError
from collections.abc import Callable

NONE = "none"


def listed(text: str) -> list[str]:
    """Empty for an empty text."""
    return [it.strip() for it in text.split(",") if it.strip()]


def yes(text: str) -> bool:
    if text.lower() not in {"yes", "no"}:
        raise ArgumentTypeError("yes or no")
    return text.lower() == "yes"


def or_none(kind: Callable[[str], object]) -> Callable[[str], object]:
    """Of a flag that takes back what was said by the word `none`."""

    def read(text: str) -> object:
        try:
            return None if text.lower() == NONE else kind(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is no number, and not {NONE}") from None

    return read
