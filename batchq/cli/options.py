"""What was said by flags and variables, as the settings that a command goes by."""

import argparse

from pydantic import ValidationError
from pydantic_settings import SettingsError

from batchq.errors import Misused
from batchq.settings import Settings


def read(asked: argparse.Namespace) -> Settings:
    """Settings from the flags that were given, whatever the command. Raises Misused."""
    given = {name: value for name, value in vars(asked).items() if value is not None and name in Settings.model_fields}
    try:
        return Settings(**given)
    except ValidationError as wrong:
        raise Misused(_first(wrong)) from None
    except SettingsError as wrong:
        raise Misused(f'{wrong}: a variable that is a list is JSON, as ["a", "b"]') from None


def _first(wrong: ValidationError) -> str:
    error = wrong.errors()[0]
    name = str(error["loc"][0]).replace("_", "-")
    return f"--{name}: {error['msg'].removeprefix('Value error, ')}"
