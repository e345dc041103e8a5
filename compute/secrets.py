"""The values of secrets, which the server resolves for each container and does not store."""

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
    """The server's sources of secrets. Their values are read for each container, and not stored.

    The value of `valueFrom` is taken from the server's secrets file, a JSON object `{"<valueFrom>": "<value>"}`; or
    else from the server's environment variable BATCHQ_SECRET_<NAME>. NAME is the last part of `valueFrom` (after the
    last `/` or `:`), with `_` for everything but letters, digits and `_`.
    """

    #: The secrets file; None: there is none.
    file: Path | None
    #: The server's environment variables.
    environment: Mapping[str, str]

    def resolve(self, secrets: Sequence[Secret]) -> tuple[tuple[str, str], ...]:
        """The names and values. Raises StartRefused, with the text of AWS's agent and without any value."""
        if not secrets:
            return ()
        values = self._read()
        return tuple((secret.name, self._value(secret.value_from, values)) for secret in secrets)

    def resolved_values(self, secrets: Sequence[Secret]) -> tuple[str, ...]:
        """The values, which are to be removed from messages; empty if any of them cannot be resolved."""
        with suppress(StartRefused):
            return tuple(value for _, value in self.resolve(secrets))
        return ()

    def _value(self, value_from: str, values: Mapping[str, object]) -> str:
        value = values.get(value_from, self.environment.get(environment_variable(value_from)))
        if not isinstance(value, str):
            raise _refused(f"no value for {value_from}")
        if "\0" in value:
            raise _refused(f"the value for {value_from} contains a NUL character")
        return value

    def _read(self) -> Mapping[str, object]:
        if self.file is None:
            return {}
        if is_world_readable(self.file):
            raise _refused("the secrets file can be read by every user of the machine")
        try:
            values = json.loads(self.file.read_bytes())
        except (OSError, ValueError) as error:
            raise _refused(f"the secrets file cannot be read ({type(error).__name__})") from None
        if not isinstance(values, dict):
            raise _refused("the secrets file is not a JSON object")
        return values


NO_SECRETS = Secrets(file=None, environment={})


def is_world_readable(file: Path) -> bool:
    """Whether every user of the machine may read the file; False if it does not exist."""
    try:
        return bool(file.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


def environment_variable(value_from: str) -> str:
    """The name of the server's environment variable for the secret."""
    return PREFIX + re.sub(r"\W", "_", re.split(r"[/:]", value_from)[-1], flags=re.ASCII)


def _refused(why: str) -> StartRefused:
    return StartRefused(f"ResourceInitializationError: unable to pull secrets or registry auth: {why}"[:1024])
