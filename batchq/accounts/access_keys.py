"""Keys that batchq gives out for signing requests: `keys.json` beside the data, mode 0600, each key shown once.

Verifying a signature takes the secret itself, so it is kept, and in a file of its own: no backup of the database, no
answer and no log has it. The command line writes the file, the server reads it again as soon as it is another.
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
    ACTIVE = "ACTIVE"
    DISABLED = "DISABLED"


class AccessKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`id` is what clients call the access key id. A user may have several: so keys are changed with an overlap."""

    id: str
    secret: str
    user: UserName
    state: KeyState = KeyState.ACTIVE
    created_at: datetime


Keys = Mapping[str, AccessKey]
_KEYS = msgspec.json.Decoder(tuple[AccessKey, ...])


def new_key(user: UserName, now: datetime) -> AccessKey:
    """20 letters and digits, and a secret of 240 random bits."""
    number = "".join(secrets.choice(_LETTERS) for _ in range(16))
    return AccessKey(id=f"BQIA{number}", secret=secrets.token_urlsafe(30), user=user, created_at=now)


class AccessKeyFile:
    """The keys of a data directory. Raises Unavailable while others may read them, or the file cannot be used."""

    def __init__(self, data: Path) -> None:
        self._path = data / NAME
        self._file: PrivateFile[Keys] = PrivateFile(
            self._path, parse=self._parse, dump=_dump, empty={}, cure=", and give out new keys"
        )

    def all(self) -> Sequence[AccessKey]:
        """As they are now."""
        return tuple(self._file.now().values())

    def find(self, key_id: str) -> AccessKey | None:
        """An ACTIVE key. One that was disabled or deleted a moment ago is none any more."""
        key = self._file.now().get(key_id)
        return key if key is not None and key.state is KeyState.ACTIVE else None

    def user_of(self, key_id: str) -> UserName | None:
        key = self.find(key_id)
        return None if key is None else key.user

    def add(self, key: AccessKey) -> None:
        self._file.change(lambda keys: {**keys, key.id: key})

    def set_state(self, key_id: str, state: KeyState, *, first: Callable[[], None] | None = None) -> None:
        """`first` as for the file. Raises NotFound."""
        self._file.change(lambda keys: {**keys, key_id: replace(_known(keys, key_id), state=state)}, first=first)

    def delete(self, key_id: str, *, first: Callable[[], None] | None = None) -> None:
        """`first` as for the file. Raises NotFound."""

        def without(keys: Keys) -> Keys:
            _known(keys, key_id)
            return {it: key for it, key in keys.items() if it != key_id}

        self._file.change(without, first=first)

    def delete_of(self, user: UserName) -> None:
        """All that a user has."""
        self._file.change(lambda keys: {it: key for it, key in keys.items() if key.user != user})

    def _parse(self, content: bytes) -> Keys:
        try:
            return {key.id: key for key in _KEYS.decode(content)}
        except ValueError:  # the error's text may show the file's content
            raise Unavailable(
                f"what stands in {self._path} are no keys: put a copy back, or remove it and give out new ones"
            ) from None


def _dump(keys: Keys) -> bytes:
    return msgspec.json.format(msgspec.json.encode(tuple(keys.values())), indent=2)


def no_key(key_id: str) -> NotFound:
    return NotFound(f"there is no key {key_id}")


def _known(keys: Keys, key_id: str) -> AccessKey:
    if key_id not in keys:
        raise no_key(key_id)
    return keys[key_id]
