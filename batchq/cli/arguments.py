"""Parsers of flag values, and the settings that flags and environment variables result in."""

import argparse
from argparse import ArgumentTypeError
from collections.abc import Callable

from pydantic import ValidationError
from pydantic_settings import SettingsError

from batchq.errors import Misused
from batchq.settings import Settings

NONE = "none"


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


def settings_of(args: argparse.Namespace) -> Settings:
    """The settings, from the flags that are given and the environment. Raises Misused."""
    given = {name: value for name, value in vars(args).items() if value is not None and name in Settings.model_fields}
    try:
        return Settings(**given)
    except ValidationError as invalid:
        raise Misused(_first_error(invalid)) from None
    except SettingsError as invalid:
        raise Misused(f'{invalid}: a list in an environment variable must be JSON, for example ["a", "b"]') from None


def _first_error(invalid: ValidationError) -> str:
    error = invalid.errors()[0]
    name = str(error["loc"][0]).replace("_", "-")
    return f"--{name}: {error['msg'].removeprefix('Value error, ')}"
