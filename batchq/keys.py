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
ROOT = 0
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
    """The keys of a data directory. Raises Unavailable while others may read them, or the file cannot be used."""

    def __init__(self, data: Path) -> None:
        self._path = data / NAME
        self._seen: tuple[int, ...] | None = None
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
            if _stamp(self._path.stat()) != self._seen:
                with self._path.open("rb") as file:  # which may be another by now: its own mode and stamp count
                    found = os.fstat(file.fileno())
                    _check_mode(self._path, found.st_mode)
                    self._keys, self._seen = _parse(self._path, file.read()), _stamp(found)
        except FileNotFoundError:
            self._seen, self._keys = None, {}
        except OSError as why:
            raise Unavailable(f"cannot read the keys in {self._path}: {why.strerror}") from None

    def _change(self, change: Callable[[dict[str, Key]], dict[str, Key]]) -> None:
        """Whole and durable, or not at all; of two who change it at once each finds what the other left."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self._path.with_suffix(".lock"), "a", opener=_private) as lock:
                flock(lock, LOCK_EX)
                self._refresh()
                self._put(_KEYS.dump_json(tuple(change(self._keys).values()), indent=2))
        except OSError as why:
            raise Unavailable(f"cannot write {self._path}: {why.strerror}") from None

    def _put(self, content: bytes) -> None:
        folder = self._path.parent
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=f".{NAME}.")  # nobody else's to read
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                _give_to_owner(descriptor, folder)
                os.fsync(descriptor)
            Path(name).replace(self._path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
        _sync(folder)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


def _give_to_owner(descriptor: int, folder: Path) -> None:
    """Root makes keys for the server of another, who must be able to read them."""
    owner = folder.stat()
    if os.geteuid() == ROOT != owner.st_uid:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    """Another when the file is another, or others may read it now."""
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode


def _known(keys: dict[str, Key], key_id: str) -> Key:
    if key_id not in keys:
        raise NotFound(f"there is no key {key_id}")
    return keys[key_id]


def _check_mode(path: Path, mode: int) -> None:
    if stat.S_IMODE(mode) & 0o077:
        raise Unavailable(f"others may read {path}: chmod 600 {path}, and give out new keys")


def _parse(path: Path, content: bytes) -> dict[str, Key]:
    try:
        return {key.id: key for key in _KEYS.validate_json(content)}
    except ValidationError:  # whose text may show what stands there
        raise Unavailable(
            f"what stands in {path} are no keys: put a copy back, or remove it and give out new ones"
        ) from None
