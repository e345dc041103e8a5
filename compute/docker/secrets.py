"""Secrets, looked up when a container is made and kept nowhere.

A secret's `valueFrom` is looked for in the server's secrets file, a JSON object `{"<valueFrom>": "<value>"}` read anew
each time; and if it is not there, in the server's environment variable BATCHQ_SECRET_<NAME>, where NAME is the last
part of `valueFrom` (after the last `/` or `:`) with everything but letters, digits and `_` turned into `_`.
"""

import json
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from batchq.domain.container import Secret
from batchq.errors import StartRefused

PREFIX = "BATCHQ_SECRET_"


class Secrets(Struct, frozen=True, kw_only=True):
    file: Path | None
    environment: Mapping[str, str]

    def resolve(self, secrets: Sequence[Secret]) -> tuple[tuple[str, str], ...]:
        """Names and values. Raises StartRefused, with the text of AWS's agent and without any value."""
        if not secrets:
            return ()
        kept = self._read()
        return tuple((secret.name, self._value(secret.value_from, kept)) for secret in secrets)

    def known(self, secrets: Sequence[Secret]) -> tuple[str, ...]:
        """Their values, that nobody may be told; none where one cannot be had."""
        with suppress(StartRefused):
            return tuple(value for _, value in self.resolve(secrets))
        return ()

    def _value(self, value_from: str, kept: Mapping[str, object]) -> str:
        value = kept.get(value_from, self.environment.get(variable(value_from)))
        if not isinstance(value, str):
            raise _refused(f"there is no value for {value_from}")
        if "\0" in value:
            raise _refused(f"the value for {value_from} holds a NUL character")
        return value

    def _read(self) -> Mapping[str, object]:
        if self.file is None:
            return {}
        if everybody_reads(self.file):
            raise _refused("the secrets file can be read by everybody")
        try:
            kept = json.loads(self.file.read_bytes())
        except (OSError, ValueError) as error:
            raise _refused(f"the secrets file cannot be read ({type(error).__name__})") from None
        if not isinstance(kept, dict):
            raise _refused("the secrets file is no JSON object")
        return kept


NO_SECRETS = Secrets(file=None, environment={})


def everybody_reads(file: Path) -> bool:
    """Whether any user of this machine may read it: it keeps no secret then. One that is not there keeps all."""
    try:
        return bool(file.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def variable(value_from: str) -> str:
    """The environment variable of the server that may hold the secret."""
    return PREFIX + re.sub(r"\W", "_", re.split(r"[/:]", value_from)[-1], flags=re.ASCII)


def _refused(why: str) -> StartRefused:
    return StartRefused(f"ResourceInitializationError: unable to pull secrets or registry auth: {why}"[:1024])
