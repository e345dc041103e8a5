"""What the server gives to containers: its policy for the machine, and the values of secrets."""

import json
import re
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from batchq.domain.container import Secret
from batchq.errors import StartRefused
from batchq.settings import MissingHostPaths, Privileged

PREFIX = "BATCHQ_SECRET_"


class ServerPolicy(Struct, frozen=True, kw_only=True):
    """What the containers of this server may use of its machine, whatever their accounts permit."""

    #: How privileged containers and host devices are handled.
    privileged: Privileged
    #: Host paths that a container may mount, with all paths below them.
    volumes: tuple[Path, ...]
    #: Host paths that are never mounted, with all that contains them or lies below them.
    private: tuple[Path, ...] = ()
    missing_host_paths: MissingHostPaths = MissingHostPaths.REFUSE
    #: Returns the host paths that accounts may mount, whose contents their jobs can change.
    given: Callable[[], Iterable[str]] = tuple
    #: The registries of this server's jobs, each with or without a path; None: any.
    registries: tuple[str, ...] | None = None
    #: The OCI runtime of a launch that names none; None: the engine's default.
    oci_runtime: str | None = None
    #: Whether a container may mount the engine's socket, with which it controls the machine as root.
    engine_socket: bool = False
    #: The path of the engine's socket; None: the engine is not reached by a unix socket.
    socket: Path | None = None
    #: The maximum number of processes and threads of a container: a quarter of Linux's lowest default of `pid_max`.
    pids: int = 8192


STRICT_POLICY = ServerPolicy(privileged=Privileged.REFUSE, volumes=())


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
