"""Keys that batchq gives out for signing requests: `keys.json` beside the data, mode 0600, each key shown once.

Verifying a signature takes the secret itself, so it is kept, and in a file of its own: no backup of the database, no
answer and no log has it. The command line writes the file, the server reads it again as soon as it is another.
"""

import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from fcntl import LOCK_EX, flock
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from batchq.errors import Invalid, NotFound, Unavailable

NAME = "keys.json"
PRIVATE = 0o600
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


class KeyState(StrEnum):
    ACTIVE = "ACTIVE"
    DISABLED = "DISABLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """`id` is what clients call the access key id. A user may have several: so keys are changed with an overlap."""

    id: str
    secret: str
    user: str
    state: KeyState = KeyState.ACTIVE
    created_at: datetime


_KEYS = TypeAdapter(tuple[Key, ...])


def new_key(user: str, now: datetime) -> Key:
    """20 letters and digits, and a secret of 240 random bits. Raises Invalid."""
    if not user.isprintable() or not 1 <= len(user) <= 64:  # noqa: PLR2004 - AWS's longest name of a user
        raise Invalid("a user's name has 1 to 64 printable characters")
    number = "".join(secrets.choice(_LETTERS) for _ in range(16))
    return Key(id=f"BQIA{number}", secret=secrets.token_urlsafe(30), user=user, created_at=now)


class KeyFile:
    """The keys of a data directory. Raises Unavailable while others may read the file, or nobody can."""

    def __init__(self, data: Path) -> None:
        self._path = data / NAME
        self._seen: tuple[int, int, int] | None = None
        self._keys: dict[str, Key] = {}

    def all(self) -> Sequence[Key]:
        """As they are now; reading them again costs a look at the file."""
        self._refresh()
        return tuple(self._keys.values())

    def find(self, key_id: str) -> Key | None:
        """An ACTIVE key. One that was disabled or deleted a moment ago is none any more."""
        self._refresh()
        key = self._keys.get(key_id)
        return key if key is not None and key.state is KeyState.ACTIVE else None

    def add(self, key: Key) -> None:
        self._change(lambda keys: keys | {key.id: key})

    def set_state(self, key_id: str, state: KeyState) -> None:
        """Raises NotFound."""
        self._change(lambda keys: keys | {key_id: replace(_known(keys, key_id), state=state)})

    def delete(self, key_id: str) -> None:
        """Raises NotFound."""
        self._change(lambda keys: {it: key for it, key in keys.items() if key is not _known(keys, key_id)})

    def _refresh(self) -> None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._seen, self._keys = None, {}
            return
        seen = found.st_ino, found.st_mtime_ns, found.st_size
        if seen != self._seen:
            self._keys, self._seen = _read(self._path, found.st_mode), seen

    def _change(self, change: Callable[[dict[str, Key]], dict[str, Key]]) -> None:
        """Whole and durable, or not at all; of two who change it at once each finds what the other left."""
        folder = self._path.parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("a") as lock:
            flock(lock, LOCK_EX)
            self._refresh()
            content = _KEYS.dump_json(tuple(change(self._keys).values()), indent=2)
            descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{NAME}.")  # nobody else's to read
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)


def _known(keys: dict[str, Key], key_id: str) -> Key:
    if key_id not in keys:
        raise NotFound(f"there is no key {key_id}")
    return keys[key_id]


def _read(path: Path, mode: int) -> dict[str, Key]:
    if stat.S_IMODE(mode) & 0o077:
        raise Unavailable(f"others may read {path}: chmod 600 {path}, and give out new keys")
    try:
        return {key.id: key for key in _KEYS.validate_json(path.read_bytes())}
    except (OSError, ValidationError) as why:
        raise Unavailable(f"cannot read the keys in {path}: {str(why).splitlines()[0]}") from None
