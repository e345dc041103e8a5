"""The config file of commands: the server and the access key, where neither flags nor variables give them.

url = "https://batch.lab.example:22824"
key_id = "BQ..."                         # printed by `batchq key create`
secret = "..."
profile = "lab"                          # instead of key_id and secret: a profile in ~/.aws/credentials
region = "us-east-1"
ca_bundle = "lab.pem"                    # absolute, or relative to this file's folder
"""

import os
import stat
import tomllib
from collections.abc import Mapping
from configparser import Error, RawConfigParser
from pathlib import Path

import platformdirs

from batchq.errors import Misused

URL = "BATCHQ_URL"
BUNDLE = "AWS_CA_BUNDLE"
REGION = "AWS_DEFAULT_REGION"
KEY, SECRET = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
CREDENTIALS = "AWS_SHARED_CREDENTIALS_FILE"

VARIABLES = {"url": URL, "ca_bundle": BUNDLE, "region": REGION, "key_id": KEY, "secret": SECRET}
MEMBERS = {*VARIABLES, "profile"}


def default_file() -> Path:
    """The config file that is read if `--config` names none."""
    return Path(platformdirs.user_config_dir("batchq")) / "config.toml"


def load(named: Path | None) -> None:
    """Set the environment variables that the file's members stand for, where they are not set. Raises Misused.

    Key id and secret always come from one place: if either variable is set, neither is taken from the file. A missing
    file is an error only if `--config` names it.
    """
    file = named or default_file()
    if named is None and not file.exists():
        return
    members = _members_of(file)
    has_key = os.environ.get(KEY) or os.environ.get(SECRET)
    for member, variable in VARIABLES.items():
        if member in members and not os.environ.get(variable) and not (has_key and variable in {KEY, SECRET}):
            os.environ[variable] = members[member]


def _members_of(file: Path) -> Mapping[str, str]:
    """The validated members, with the keys of the profile, and the path of `ca_bundle` made absolute."""
    content = _read(file)
    for member, value in content.items():
        if member not in MEMBERS:
            raise Misused(f"{file}: unknown member {member}; the members are {', '.join(sorted(MEMBERS))}")
        if not isinstance(value, str) or not value or "\0" in value:
            raise Misused(f"{file}: {member} must be a string that is not empty")
    members = {member: str(value) for member, value in content.items()}
    if ("key_id" in members) != ("secret" in members) or ("profile" in members and "secret" in members):
        raise Misused(f"{file}: give either key_id and secret, or profile")
    if "profile" in members:
        members |= _key_of_profile(members.pop("profile"), file)
    if "ca_bundle" in members:
        members["ca_bundle"] = str(file.absolute().parent / Path(members["ca_bundle"]).expanduser())
    return members


def _read(file: Path) -> Mapping[str, object]:
    try:
        with file.open("rb") as opened:
            content = tomllib.load(opened)
            mode = os.fstat(opened.fileno()).st_mode
    except OSError as why:
        raise Misused(f"cannot read {file}: {why.strerror}") from None
    except (ValueError, RecursionError) as why:  # TOMLDecodeError is a ValueError, and quotes no values
        raise Misused(f"{file} is not valid TOML: {why}") from None
    if "secret" in content and stat.S_IMODE(mode) & 0o077 and stat.S_ISREG(mode):
        raise Misused(f"other users can read the secret in {file}: chmod 600 {file}")
    return content


def _key_of_profile(profile: str, file: Path) -> Mapping[str, str]:
    """The key of a profile in the shared credentials file of AWS's tools."""
    path = Path(os.environ.get(CREDENTIALS) or "~/.aws/credentials").expanduser()
    credentials = RawConfigParser()
    try:
        credentials.read_string(path.read_text())
        return {"key_id": credentials.get(profile, KEY), "secret": credentials.get(profile, SECRET)}
    except (OSError, ValueError, Error):
        raise Misused(f"{file}: profile {profile} has no key in {path}") from None
