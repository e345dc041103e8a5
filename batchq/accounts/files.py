"""The access keys, and the accounts and users, of a data directory: two JSON files of mode 0600.

The verification of a signature needs the secret itself, so it is stored, in a file of its own: backups of the
database, responses and logs never contain it, except the response to CreateKey. Commands and the API write the files,
and the server reads them again once they have changed.
"""

import getpass
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, Directory, UserName
from batchq.domain.enums import KeyState
from batchq.errors import Invalid, NotFound, Unavailable
from batchq.system.private_file import PrivateFile

KEYS_FILE = "keys.json"
ACCOUNTS_FILE = "accounts.json"
_DIRECTORY_DECODER = msgspec.json.Decoder(Directory)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}", re.ASCII)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class AccessKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An access key. A user may have several, so that a key can be replaced while the old one is still in use."""

    #: The access key id, as AWS names it.
    id: str
    #: The secret access key.
    secret: str
    user: UserName
    state: KeyState = KeyState.ACTIVE
    created_at: datetime


Keys = Mapping[str, AccessKey]
_KEYS_DECODER = msgspec.json.Decoder(tuple[AccessKey, ...])


def new_key(user: UserName, now: datetime) -> AccessKey:
    """A new key: an id of 20 letters and digits, and a secret of 240 random bits."""
    number = "".join(secrets.choice(_LETTERS) for _ in range(16))
    return AccessKey(id=f"BQIA{number}", secret=secrets.token_urlsafe(30), user=user, created_at=now)


class AccessKeyFile:
    """The keys of a data directory. Methods raise Unavailable if others may read the file, or it is unusable."""

    def __init__(self, data: Path) -> None:
        self._path = data / KEYS_FILE
        self._file: PrivateFile[Keys] = PrivateFile(
            self._path,
            parse=self._parse,
            dump=lambda keys: _indented(tuple(keys.values())),
            empty={},
            remedy=", and replace the keys",
        )

    def all(self) -> Sequence[AccessKey]:
        """All keys in the file at present."""
        return tuple(self._file.load().values())

    def find(self, key_id: str) -> AccessKey | None:
        """The ACTIVE key of this id, from the present content of the file; None for any other id."""
        key = self._file.load().get(key_id)
        return key if key is not None and key.state is KeyState.ACTIVE else None

    def user_of(self, key_id: str) -> UserName | None:
        """The user of an ACTIVE key; None for any other id."""
        key = self.find(key_id)
        return None if key is None else key.user

    def add(self, key: AccessKey) -> None:
        self._file.change(lambda keys: {**keys, key.id: key})

    def set_state(self, key_id: str, state: KeyState) -> None:
        """Enable or disable a key. Raises NotFound."""
        self._file.change(lambda keys: {**keys, key_id: replace(_existing(keys, key_id), state=state)})

    def delete(self, key_id: str) -> None:
        """Delete a key. Raises NotFound."""

        def without(keys: Keys) -> Keys:
            _existing(keys, key_id)
            return {each_id: key for each_id, key in keys.items() if each_id != key_id}

        self._file.change(without)

    def delete_keys_of(self, user: UserName) -> None:
        """Delete all keys of a user."""
        self._file.change(lambda keys: {key_id: key for key_id, key in keys.items() if key.user != user})

    def _parse(self, content: bytes) -> Keys:
        try:
            return {key.id: key for key in _KEYS_DECODER.decode(content)}
        except ValueError:  # its text may contain secrets of the file, so it is not passed on
            raise Unavailable(
                f"{self._path} is not a valid file of access keys: restore a copy, or delete it and create new keys"
            ) from None


def key_not_found(key_id: str) -> NotFound:
    return NotFound(f"there is no key {key_id}")


def _existing(keys: Keys, key_id: str) -> AccessKey:
    if key_id not in keys:
        raise key_not_found(key_id)
    return keys[key_id]


def machine_user() -> UserName:
    """The name of the system user that runs this process; the number if the user has no name."""
    try:
        return UserName(getpass.getuser())
    except (KeyError, OSError):
        return UserName(str(os.geteuid()))


def user_name(name: str) -> UserName:
    """Validate the name of a new user. Raises Invalid."""
    return UserName(_valid_name(name, "user"))


def account_name(name: str) -> AccountName:
    """Validate the name of a new account. Raises Invalid."""
    return AccountName(_valid_name(name, "account"))


class AccountsFile(PrivateFile[Directory]):
    """The accounts and users of a data directory.

    Methods raise Unavailable if others may read the file, or it is unusable.
    """

    def __init__(self, data: Path) -> None:
        path = data / ACCOUNTS_FILE
        super().__init__(path, parse=partial(_parse_directory, path), dump=_indented, empty=Directory())

    def volumes(self) -> tuple[str, ...]:
        """The host paths of the container policies of all accounts."""
        allowances = (account.allowance for account in self.load().accounts.values() if account.allowance is not None)
        return tuple(path for policy in allowances for path in policy.volumes)


def _parse_directory(path: Path, content: bytes) -> Directory:
    try:
        return _DIRECTORY_DECODER.decode(content)
    except ValueError as why:
        raise Unavailable(f"{path} is not a valid file of accounts and users: {why}") from None


def _indented(content: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=2)


def _valid_name(name: str, kind: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise Invalid(
            f"invalid {kind} name: 1 to 64 letters, digits and _.@- are allowed, and . @ - not as the first character"
        )
    return name
