"""The config files of commands: the server, the access key and defaults, where neither flags nor variables give them.

url = "https://batch.lab.example:22824"  # or unix:///run/batchq/batchq.sock
key_id = "BQ..."                         # printed by `batchq key create`
secret = "..."
profile = "lab"                          # instead of key_id and secret: a profile in ~/.aws/credentials
region = "us-east-1"
ca_bundle = "lab.pem"                    # absolute, or relative to this file's folder

[defaults]
queue = "gpu"                            # of `batchq submit` and `batchq run`
definition = "align"                     # job definition of `batchq submit` and `batchq run`
columns = "job,name,state,why"           # of `batchq list`

A flag takes precedence over a variable, a variable over the user's file (or the file of `--config`, which is read in
its place), and that over the system-wide file. Key id and secret always come from one place.
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from configparser import Error, RawConfigParser
from pathlib import Path

import platformdirs

from batchq.errors import UsageError

URL = "BATCHQ_URL"
BUNDLE = "AWS_CA_BUNDLE"
REGION = "AWS_DEFAULT_REGION"
KEY, SECRET = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
CREDENTIALS = "AWS_SHARED_CREDENTIALS_FILE"
SYSTEM_FILE = Path("/etc/batchq/config.toml")
VARIABLES = {"url": URL, "ca_bundle": BUNDLE, "region": REGION, "key_id": KEY, "secret": SECRET}
MEMBERS = {*VARIABLES, "profile"}
DEFAULTS = "defaults"  # the table of defaults
DEFAULT_MEMBERS = {"queue", "definition", "columns"}


def default_file() -> Path:
    """The user's config file, which is read if `--config` names none."""
    return Path(platformdirs.user_config_dir("batchq")) / "config.toml"


def load(named: Path | None) -> None:
    """Set the environment variables that the files' members stand for, where they are not set. Raises UsageError.

    If either variable of the key is set, neither is taken from a file. A missing file is an error only if `--config`
    names it.
    """
    for file in _files(named):
        members = _members_of(file)
        has_key = os.environ.get(KEY) or os.environ.get(SECRET)
        for member, variable in VARIABLES.items():
            if member in members and not os.environ.get(variable) and not (has_key and variable in {KEY, SECRET}):
                os.environ[variable] = members[member]


def defaults(named: Path | None) -> Mapping[str, str]:
    """The members of the files' tables `defaults`; the user's file takes precedence. Raises UsageError."""
    found: dict[str, str] = {}
    for file in _files(named):
        found = dict(_defaults_of(file)) | found
    return found


def _files(named: Path | None) -> list[Path]:
    """The files to read, in the order of their precedence."""
    own = named or default_file()
    return [path for path in (own, SYSTEM_FILE) if path == named or _exists(path)]


def _exists(file: Path) -> bool:
    """Whether the file exists. Raises UsageError if a directory of its path cannot be searched."""
    try:
        return file.exists()
    except OSError as why:
        raise UsageError(f"cannot read the config file {file}: {why.strerror}") from None


def _members_of(file: Path) -> Mapping[str, str]:
    """The validated members, with the keys of the profile, and the path of `ca_bundle` made absolute."""
    content = _read(file)
    for member, value in content.items():
        _check(file, member, value)
    members = {member: str(value) for member, value in content.items() if member != DEFAULTS}
    if ("key_id" in members) != ("secret" in members) or ("profile" in members and "secret" in members):
        raise UsageError(f"{file}: give either key_id and secret, or profile")
    if "profile" in members:
        members |= _key_of_profile(members.pop("profile"), file)
    if "ca_bundle" in members:
        members["ca_bundle"] = str(file.absolute().parent / Path(members["ca_bundle"]).expanduser())
    return members


def _check(file: Path, member: str, value: object) -> None:
    if member == DEFAULTS:
        _check_defaults(file, value)
    elif member not in MEMBERS:
        raise UsageError(f"{file}: unknown member {member}; the members are {', '.join(sorted({*MEMBERS, DEFAULTS}))}")
    elif not isinstance(value, str) or not value or "\0" in value:
        raise UsageError(f"{file}: {member} must be a string that is not empty")


def _check_defaults(file: Path, table: object) -> None:
    if not isinstance(table, dict):
        raise UsageError(f"{file}: {DEFAULTS} must be a table: [{DEFAULTS}]")
    for member, value in table.items():
        if member not in DEFAULT_MEMBERS:
            known = ", ".join(sorted(DEFAULT_MEMBERS))
            raise UsageError(f"{file}: unknown member {member} of [{DEFAULTS}]; the members are {known}")
        if not isinstance(value, str) or not value or "\0" in value:
            raise UsageError(f"{file}: {member} of [{DEFAULTS}] must be a string that is not empty")


def _defaults_of(file: Path) -> Mapping[str, str]:
    table = _read(file).get(DEFAULTS, {})
    _check_defaults(file, table)
    return table if isinstance(table, dict) else {}


def _read(file: Path) -> Mapping[str, object]:
    try:
        with file.open("rb") as opened:
            content = tomllib.load(opened)
            mode = os.fstat(opened.fileno()).st_mode
    except OSError as why:
        raise UsageError(f"cannot read the config file {file}: {why.strerror}") from None
    except (ValueError, RecursionError) as why:  # TOMLDecodeError is a ValueError, and quotes no values
        raise UsageError(f"{file} is not valid TOML: {why}") from None
    if "secret" in content and stat.S_IMODE(mode) & 0o077 and stat.S_ISREG(mode):
        raise UsageError(f"other users can read the secret in {file}: chmod 600 {file}")
    return content


def _key_of_profile(profile: str, file: Path) -> Mapping[str, str]:
    """The key of a profile in the shared credentials file of AWS's tools."""
    path = Path(os.environ.get(CREDENTIALS) or "~/.aws/credentials").expanduser()
    credentials = RawConfigParser()
    try:
        credentials.read_string(path.read_text())
        return {"key_id": credentials.get(profile, KEY), "secret": credentials.get(profile, SECRET)}
    except (OSError, ValueError, Error):
        raise UsageError(f"{file}: profile {profile} has no key in {path}") from None
