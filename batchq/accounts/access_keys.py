"""Access keys for signing requests: the file `keys.json` in the data directory, mode 0600.

The verification of a signature needs the secret itself, so it is stored, in a file of its own: backups of the
database, responses and logs never contain it, except the response to CreateKey. The command line writes the file, and
the server reads it again once it has changed.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import UserName
from batchq.errors import NotFound, Unavailable
from batchq.private_file import PrivateFile

NAME = "keys.json"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class KeyState(StrEnum):
    """Whether requests signed with a key are accepted."""

    ACTIVE = "ACTIVE"
    DISABLED = "DISABLED"


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
_KEYS = msgspec.json.Decoder(tuple[AccessKey, ...])


def new_key(user: UserName, now: datetime) -> AccessKey:
    """A new key: an id of 20 letters and digits, and a secret of 240 random bits."""
    number = "".join(secrets.choice(_LETTERS) for _ in range(16))
    return AccessKey(id=f"BQIA{number}", secret=secrets.token_urlsafe(30), user=user, created_at=now)


class AccessKeyFile:
    """The keys of a data directory. Methods raise Unavailable if others may read the file, or it is unusable."""

    def __init__(self, data: Path) -> None:
        self._path = data / NAME
        self._file: PrivateFile[Keys] = PrivateFile(
            self._path, parse=self._parse, dump=_dump, empty={}, cure=", and replace the keys"
        )

    def all(self) -> Sequence[AccessKey]:
        """All keys in the file at present."""
        return tuple(self._file.now().values())

    def find(self, key_id: str) -> AccessKey | None:
        """The ACTIVE key of this id, from the present content of the file; None for any other id."""
        key = self._file.now().get(key_id)
        return key if key is not None and key.state is KeyState.ACTIVE else None

    def user_of(self, key_id: str) -> UserName | None:
        """The user of an ACTIVE key; None for any other id."""
        key = self.find(key_id)
        return None if key is None else key.user

    def add(self, key: AccessKey) -> None:
        self._file.change(lambda keys: {**keys, key.id: key})

    def set_state(self, key_id: str, state: KeyState, *, first: Callable[[], None] | None = None) -> None:
        """Enable or disable a key. `first`: see `PrivateFile.change`. Raises NotFound."""
        self._file.change(lambda keys: {**keys, key_id: replace(_known(keys, key_id), state=state)}, first=first)

    def delete(self, key_id: str, *, first: Callable[[], None] | None = None) -> None:
        """Delete a key. `first`: see `PrivateFile.change`. Raises NotFound."""

        def without(keys: Keys) -> Keys:
            _known(keys, key_id)
            return {it: key for it, key in keys.items() if it != key_id}

        self._file.change(without, first=first)

    def delete_of(self, user: UserName) -> None:
        """Delete all keys of a user."""
        self._file.change(lambda keys: {it: key for it, key in keys.items() if key.user != user})

    def _parse(self, content: bytes) -> Keys:
        try:
            return {key.id: key for key in _KEYS.decode(content)}
        except ValueError:  # its text may contain secrets of the file, so it is not passed on
            raise Unavailable(
                f"{self._path} is not a valid file of access keys: restore a copy, or delete it and create new keys"
            ) from None


def _dump(keys: Keys) -> bytes:
    return msgspec.json.format(msgspec.json.encode(tuple(keys.values())), indent=2)


def no_key(key_id: str) -> NotFound:
    return NotFound(f"there is no key {key_id}")


def _known(keys: Keys, key_id: str) -> AccessKey:
    if key_id not in keys:
        raise no_key(key_id)
    return keys[key_id]
