"""`batchq settings`, and the settings of a server by flags, variables and the settings file."""

import json
import os
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct
from pydantic import ValidationError

from batchq.cli.tables import add_form_flag, prints_json
from batchq.errors import StartImpossible, UsageError
from batchq.settings import Settings, flag_name, setting_variable, shown_default
from batchq.system.escapes import escape

SYSTEM_FILE = Path("/etc/batchq/server.toml")  # the settings file, if neither a flag nor a variable names one
FILE_VARIABLE = "BATCHQ_SETTINGS"
MAX_WIDTH = 60  # characters of a line before its comment; longer lines are not cut


def add_settings(command: ArgumentParser) -> None:
    """Print the settings that `batchq serve` with these flags would have, and where each comes from."""
    add_setting_flags(command)
    add_form_flag(command)


def add_setting_flags(command: ArgumentParser) -> None:
    """Add a flag for each setting of the server, and `--settings`."""
    command.add_argument(
        "--settings",
        type=Path,
        metavar="FILE",
        help=f"settings file, TOML, with the names of these flags ({SYSTEM_FILE})",
    )
    for name, field in Settings.model_fields.items():
        text = f"{field.description} ({shown_default(name)})".replace("%", "%%")
        if field.annotation is bool:
            command.add_argument(flag_name(name), action="store_true", default=None, help=text)
        elif isinstance(field.annotation, type) and issubclass(field.annotation, StrEnum):
            command.add_argument(flag_name(name), choices=[*field.annotation], help=text)
        else:
            command.add_argument(flag_name(name), help=text)


def settings_of(args: Namespace) -> Settings:
    """The settings by the flags that are given, variables and the settings file. Raises UsageError, StartImpossible."""
    return loaded_settings(args).settings


class Source(StrEnum):
    """Where the value of a setting comes from, in the order of precedence."""

    FLAG = "flag"
    VARIABLE = "variable"
    FILE = "file"
    DEFAULT = "default"


class LoadedSettings(Struct, frozen=True, kw_only=True):
    """The settings of a server with the source of each."""

    settings: Settings
    #: By the name of the field.
    sources: Mapping[str, Source]
    #: The settings file; None: there is none.
    file: Path | None


def loaded_settings(args: Namespace) -> LoadedSettings:
    """As `settings_of`, with the source of each setting."""
    file = _file_of(args)
    names = {name: setting_variable(name) for name in Settings.model_fields}
    by_source: Mapping[Source, Mapping[str, object]] = {
        Source.FLAG: {name: value for name, value in vars(args).items() if value is not None and name in names},
        Source.VARIABLE: {name: os.environ[variable] for name, variable in names.items() if variable in os.environ},
        Source.FILE: {} if file is None else _members(file),
    }
    sources = {name: next((at for at, given in by_source.items() if name in given), Source.DEFAULT) for name in names}
    given = {name: by_source[at][name] for name, at in sources.items() if at in by_source}
    settings = _valid(given, {name: _spelling(name, sources[name], file) for name in given})
    return LoadedSettings(settings=settings, sources=sources, file=file)


def _file_of(args: Namespace) -> Path | None:
    """The settings file; None: there is none."""
    named = getattr(args, "settings", None) or os.environ.get(FILE_VARIABLE)
    return Path(named) if named else SYSTEM_FILE if SYSTEM_FILE.exists() else None


def _spelling(name: str, source: Source, file: Path | None) -> str:
    """The name of a setting as the user wrote it."""
    if source is Source.VARIABLE:
        return setting_variable(name)
    return f"{name.replace('_', '-')} in {file}" if source is Source.FILE else flag_name(name)


def _valid(given: Mapping[str, object], spellings: Mapping[str, str]) -> Settings:
    """`spellings`: how errors name each given setting. Raises UsageError."""
    try:
        return Settings(**given)  # type: ignore[arg-type]
    except ValidationError as invalid:
        error = invalid.errors()[0]
        reason = error["msg"].removeprefix("Value error, ")
        raise UsageError(f"{spellings[str(error['loc'][0])]}: {reason}" if error["loc"] else reason) from None


def _members(file: Path) -> Mapping[str, Any]:
    """The members of a settings file, by the names of their fields. Raises StartImpossible."""
    try:
        members = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as why:
        raise StartImpossible(f"the settings in {file} cannot be used: {why}") from why
    for name in members:
        if name.replace("-", "_") not in Settings.model_fields or "_" in name:
            raise StartImpossible(f"{name} in {file} is not a setting of batchq; is it misspelt?")
    return {name.replace("-", "_"): value for name, value in members.items()}


def run_settings(args: Namespace) -> None:
    loaded = loaded_settings(args)
    values = loaded.settings.model_dump(mode="json")
    if prints_json(args):
        rows = {
            name.replace("_", "-"): {"value": values[name], "source": source} for name, source in loaded.sources.items()
        }
        print(json.dumps({"file": None if loaded.file is None else str(loaded.file), "settings": rows}, indent=2))
        return
    lines = [_line(name, values[name]) for name in Settings.model_fields]
    width = min(MAX_WIDTH, max(map(len, lines)))
    for line, source in zip(lines, loaded.sources.values(), strict=True):
        where = f"{source} {loaded.file}" if source is Source.FILE else source
        print(escape(f"{line:{width}}  # {where}"))


def _line(name: str, value: object) -> str:
    """A setting as a line of a settings file; a comment for one without a value."""
    key = name.replace("_", "-")
    return f"# {key} = {shown_default(name)}" if value is None else f"{key} = {json.dumps(value)}"
