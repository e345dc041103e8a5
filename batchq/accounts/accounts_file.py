"""Accounts and users: the file `accounts.json` in the data directory, mode 0600, written by commands and the API."""

import getpass
import os
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from batchq.domain.access.accounts import AccountName, Directory, UserName
from batchq.errors import Invalid, Unavailable
from batchq.private_file import PrivateFile

NAME = "accounts.json"
_PEOPLE = msgspec.json.Decoder(Directory)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}", re.ASCII)


def machine_user() -> UserName:
    """The name of the system user that runs this process; the number if the user has no name."""
    try:
        return UserName(getpass.getuser())
    except (KeyError, OSError):
        return UserName(str(os.geteuid()))


def user_name(said: str) -> UserName:
    """Validate the name of a new user. Raises Invalid."""
    return UserName(_checked(said, "user"))


def account_name(said: str) -> AccountName:
    """Validate the name of a new account. Raises Invalid."""
    return AccountName(_checked(said, "account"))


class AccountsFile:
    """The accounts and users of a data directory.

    Methods raise Unavailable if others may read the file, or it is unusable.
    """

    def __init__(self, data: Path) -> None:
        self._path = data / NAME
        self._file: PrivateFile[Directory] = PrivateFile(self._path, parse=self._parse, dump=_dump, empty=Directory())

    def now(self) -> Directory:
        """The present content of the file; the same object while the file is unchanged."""
        return self._file.now()

    def volumes(self) -> tuple[str, ...]:
        """The host paths of the container policies of all accounts."""
        allowances = (it.allowance for it in self.now().accounts.values() if it.allowance is not None)
        return tuple(path for it in allowances for path in it.volumes)

    def change(self, change: Callable[[Directory], Directory], *, first: Callable[[], None] | None = None) -> Directory:
        """Replace the directory by `change(directory)`, and return the new one. See `PrivateFile.change`."""
        return self._file.change(change, first=first)

    def _parse(self, content: bytes) -> Directory:
        try:
            return _PEOPLE.decode(content)
        except ValueError as why:
            raise Unavailable(f"{self._path} is not a valid file of accounts and users: {why}") from None


def _dump(people: Directory) -> bytes:
    return msgspec.json.format(msgspec.json.encode(people), indent=2)


def _checked(said: str, what: str) -> str:
    if _NAME.fullmatch(said) is None:
        raise Invalid(
            f"invalid {what} name: 1 to 64 letters, digits and _.@- are allowed, and . @ - not as the first character"
        )
    return said
