"""Parsers of flag values, and the settings that flags and environment variables result in."""

import argparse
from argparse import ArgumentTypeError
from collections.abc import Callable

from pydantic import ValidationError
from pydantic_settings import SettingsError

from batchq.errors import Misused
from batchq.settings import Settings

NONE = "none"


def listed(text: str) -> list[str]:
    """Parse a list with commas; empty parts are dropped."""
    return [it.strip() for it in text.split(",") if it.strip()]


def yes(text: str) -> bool:
    """Parse `yes` or `no`."""
    if text.lower() not in {"yes", "no"}:
        raise ArgumentTypeError(f"{text!r} is neither yes nor no")
    return text.lower() == "yes"


def or_none(kind: Callable[[str], object]) -> Callable[[str], object]:
    """A parser that returns None for the word `none`, which removes a setting, and else calls `kind`."""

    def read(text: str) -> object:
        try:
            return None if text.lower() == NONE else kind(text)
        except ValueError:
            raise ArgumentTypeError(f"{text!r} is neither a number nor {NONE}") from None

    return read


def read(asked: argparse.Namespace) -> Settings:
    """The settings, from the flags that are given and the environment. Raises Misused."""
    given = {name: value for name, value in vars(asked).items() if value is not None and name in Settings.model_fields}
    try:
        return Settings(**given)
    except ValidationError as wrong:
        raise Misused(_first(wrong)) from None
    except SettingsError as wrong:
        raise Misused(f'{wrong}: a list in an environment variable must be JSON, for example ["a", "b"]') from None


def _first(wrong: ValidationError) -> str:
    error = wrong.errors()[0]
    name = str(error["loc"][0]).replace("_", "-")
    return f"--{name}: {error['msg'].removeprefix('Value error, ')}"
