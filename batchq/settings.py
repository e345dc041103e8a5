"""Settings of `batchq serve`: flags, then BATCHQ_* variables, then the settings file, then the defaults here."""

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import platformdirs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.config import JsonDict

from batchq.domain.catalog import Network
from batchq.errors import StartImpossible

PREFIX = "BATCHQ_"
# Prefixes of variables that are not settings: the server URL of commands, the settings file, and secrets of jobs.
OTHER_VARIABLES = ("BATCHQ_URL", "BATCHQ_SETTINGS", "BATCHQ_SECRET_")
REGISTRY = r"^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._/-]+)?$"  # an image registry, with or without a path
#: A claim of Kubernetes, with or without a folder of its volume, or an absolute path.
CHECKPOINT_VOLUME = r"^(/[^/].*|[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*)$"
MIN_RETENTION = timedelta(minutes=15)


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError(f"{path} is not an absolute path")
    return path


HostPath = Annotated[Path, AfterValidator(_absolute)]


class Runtime(StrEnum):
    """Where containers run: on a Docker engine, a Kubernetes cluster, or in a simulation that starts no processes."""

    DOCKER = "docker"
    KUBERNETES = "kubernetes"
    SIMULATED = "simulated"


class Privileged(StrEnum):
    """How `privileged: true` is handled: allowed, dropped with a log line, or refused with an error."""

    ALLOW = "allow"
    DROP = "drop"
    REFUSE = "refuse"


class MissingHostPaths(StrEnum):
    """How a mounted host path that does not exist is handled: the start is refused, or the path created as a folder.

    The path of a mount that declares `create` is created in both cases.
    """

    REFUSE = "refuse"
    CREATE = "create"


class LogLevel(StrEnum):
    """The least severity of the records in the server's log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """How the server's log is written."""

    TEXT = "text"
    JSON = "json"


class Auth(StrEnum):
    """How requests are authenticated: not at all, or by AWS Signature Version 4 with a key of `batchq key`."""

    NONE = "none"
    SIGV4 = "sigv4"


def default_data() -> Path:
    return Path(platformdirs.user_data_dir("batchq"))


def _split(separator: str) -> BeforeValidator:
    """Accept a list, or its members with the separator between them, as flags and variables give it."""

    def members(value: object) -> object:
        return [member for member in value.split(separator) if member] if isinstance(value, str) else value

    return BeforeValidator(members)


Names = Annotated[tuple[str, ...], _split(",")]
HostPaths = Annotated[tuple[HostPath, ...], _split(":")]
Registries = Annotated[tuple[Annotated[str, Field(pattern=REGISTRY)], ...], _split(",")]


def setting(description: str, default: object = None, *, shown: str = "", **limits: Any) -> Any:  # noqa: ANN401 - as pydantic's Field
    """A field with its description. `shown`: the default in the help, if `default` does not say what applies."""
    extra: JsonDict | None = {"shown_default": shown} if shown else None
    if "default_factory" not in limits:
        limits["default"] = default
    return Field(description=description, json_schema_extra=extra, **limits)


def switch(description: str) -> Any:  # noqa: ANN401 - as pydantic's Field
    """A setting that is off by default."""
    return setting(description, default=False)


class Settings(BaseModel):
    """The settings of a server. Frozen. Each is a flag, a variable and a key of the settings file."""

    model_config = ConfigDict(frozen=True, validate_default=True)

    host: str = setting(
        "address to listen on; one other than loopback requires `--auth sigv4` or `--insecure-no-auth`", "127.0.0.1"
    )
    port: int = setting("port to listen on; 0 selects a free one", 22824, ge=0, le=65535)
    socket: HostPath | None = setting("unix socket to listen on, for users of this machine, who need no keys")
    socket_group: str | None = setting(
        "group of the socket's file, whose members may connect", shown="the server's", min_length=1, max_length=64
    )
    socket_mode: str | None = setting(
        "octal mode of the socket's file", shown="0660 with a group, else 0600", pattern=r"^0?6[06][06]$"
    )
    no_tcp: bool = switch("listen on the socket only")
    auth: Auth = setting("`sigv4`: accept only requests that are signed with a key of `batchq key`", Auth.NONE)
    insecure_no_auth: bool = switch("listen beyond loopback without authentication")
    tls_cert: Path | None = setting("certificate for https, PEM, followed by its intermediate certificates")
    tls_key: Path | None = setting("private key of the certificate, PEM, without passphrase, not readable by others")
    allowed_hosts: Names = setting(
        "host names that clients may use beside localhost and `--host`, comma-separated", (), shown="none"
    )
    connections_per_address: int | None = setting(
        "open connections from one address; raise the number behind a reverse proxy",
        shown="half of all (128)",
        ge=1,
        le=100_000,
    )
    requests_per_second: float = setting(
        "requests of one user a second, on average, with `--auth sigv4`", 200.0, gt=0, le=1_000_000
    )
    data: Path = setting(
        "data directory, with the database and the logs",
        shown="the platform's user data directory",
        default_factory=default_data,
    )
    runtime: Runtime = setting("where containers run; `--kubernetes` selects its own", Runtime.DOCKER)
    docker: bool = switch("run containers on Docker, also beside a cluster of `--kubernetes`")
    kubernetes: str | None = setting(
        "run containers on a Kubernetes cluster: FILE or FILE#CONTEXT of a kubeconfig, or `in-cluster`",
        min_length=1,
        max_length=4096,
    )
    kubernetes_drain_grace: int = setting(
        "seconds between SIGTERM and SIGKILL when Kubernetes itself stops a pod", 1, ge=1, le=86400
    )
    kubernetes_refuse_drains: Names = setting(
        "environments whose pods no drain evicts, comma-separated", (), shown="none"
    )
    kubernetes_checkpoints: str | None = setting(
        "volume of `--checkpoints` for pods: CLAIM or CLAIM/FOLDER of a PersistentVolumeClaim, or a path of nodes",
        shown="none: jobs with checkpoints are refused",
        pattern=CHECKPOINT_VOLUME,
        max_length=4096,
    )
    kubernetes_follow: bool = switch("follow the log of each pod, so that no line of it is lost")
    kubernetes_unsupported: bool = switch("accept Kubernetes older than 1.30, for tests only")
    account_id: str = setting("account in ARNs", "123456789012", pattern=r"^\d{12}$")
    region: str = setting("region in ARNs of requests without a region", "us-east-1", pattern=r"^[a-z0-9-]{1,32}$")
    stop_grace: float = setting("seconds between SIGTERM and SIGKILL", 30.0, ge=0, le=86400, allow_inf_nan=False)
    min_timeout: int = setting("least `attemptDurationSeconds` of jobs that is accepted", 60, ge=1, le=60)
    privileged: Privileged = setting(
        "privileged containers and devices of the host; `drop` writes a log line", Privileged.ALLOW
    )
    volumes: HostPaths = setting("host paths that jobs may mount, with all below them, colon-separated", (Path("/"),))
    missing_host_paths: MissingHostPaths = setting(
        "a mounted host path that does not exist: refuse the start, except for jobs with the tag "
        "`batchq:create-host-paths: true`, or create a folder",
        MissingHostPaths.REFUSE,
    )
    registries: Registries | None = setting(
        "registries of jobs' images, with or without a path, comma-separated", shown="any"
    )
    network: Network = setting("network mode of compute environments without the tag `batchq:network`", Network.SHARED)
    container_runtime: str | None = setting(
        "OCI runtime of compute environments without the tag `batchq:container-runtime`",
        shown="the container engine's",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
    )
    engine_socket: bool = switch("let jobs mount the container engine's socket, which makes them root on this machine")
    exec_sessions: int = setting(
        "sessions of `batchq exec` at the same time; 0: commands in containers are refused", 16, ge=0
    )
    exec_idle: float = setting("seconds without input and output after which a session ends", 1800.0, gt=0, le=86400)
    secrets_file: Path | None = setting(
        "JSON object of secrets by their `valueFrom`, which every job may use",
        shown="the variables `BATCHQ_SECRET_<name>`",
    )
    prices: Path | None = setting("TOML file of prices, for the costs of jobs and budgets")
    s3_root: HostPath | None = setting("folder with a folder for each S3 bucket of SageMaker's training jobs")
    modelarts_config: Path | None = setting("TOML file with `obs_root` and `[[engines]]` of the ModelArts API")
    webhook_hosts: Names = setting(
        "hosts, as NAME or NAME:PORT, to which webhooks may connect though they are private, also by http", ()
    )
    retention_days: float = setting(
        "days for which finished jobs and their logs are kept; 0: for ever", 30.0, ge=0, le=36500, allow_inf_nan=False
    )
    audit_days: float = setting(
        "days for which audit records are kept; 0: for ever", 365.0, ge=0, le=36500, allow_inf_nan=False
    )
    checkpoints: HostPath | None = setting(
        "directory of the checkpoints of jobs", shown="beside `--data`, with `-checkpoints` after its name"
    )
    checkpoint_days: float = setting(
        "days for which checkpoints of finished jobs are kept; 0: for ever", 0.0, ge=0, le=36500, allow_inf_nan=False
    )
    min_free_mib: int = setting(
        "MiB of the data's disk that jobs, definitions and logs leave free; 0: no minimum, and no reserve",
        64,
        ge=0,
        le=2**30,
    )
    log_level: LogLevel = setting("least severity of the server's log on stderr", LogLevel.INFO)
    log_format: LogFormat = setting("format of the server's log: lines of text, or of JSON objects", LogFormat.TEXT)
    log_mib: int = setting("MiB of output stored for each container of an attempt; 0: all", 500, ge=0, le=2**30)
    metrics_token_file: Path | None = setting(
        "file with the token that Prometheus sends to `/metrics`, with `--auth sigv4`", shown="none: refused there"
    )
    survey_every: float = setting("seconds between two surveys of the runtime's containers", 10.0, gt=0, le=3600)

    @model_validator(mode="before")
    @classmethod
    def _select_runtime(cls, values: Any) -> Any:  # noqa: ANN401 - whatever the sources contain
        """Select the runtime `kubernetes` if a cluster is named."""
        if isinstance(values, dict) and values.get("kubernetes") is not None:
            return {"runtime": Runtime.KUBERNETES} | values
        return values

    @field_validator("kubernetes", mode="after")
    @classmethod
    def _check_runtime(cls, kubernetes: str | None, info: ValidationInfo) -> str | None:
        if (info.data.get("runtime") is Runtime.KUBERNETES) != (kubernetes is not None):
            raise ValueError("a cluster and the runtime kubernetes belong together")
        return kubernetes

    @property
    def retention(self) -> timedelta | None:
        """How long a finished job is stored; None: for ever.

        At least for the time in which a repeated SubmitJob is recognised.
        """
        return max(timedelta(days=self.retention_days), MIN_RETENTION) if self.retention_days else None

    @property
    def checkpoint_root(self) -> Path:
        """The directory of the checkpoint directories of jobs, as an absolute path."""
        data = self.data.absolute()
        return self.checkpoints or data.with_name(f"{data.name}-checkpoints")

    @property
    def private_paths(self) -> tuple[Path, ...]:
        """Paths of the server that no job may mount: its data, the checkpoints of all jobs, and files with secrets."""
        config = Path(platformdirs.user_config_dir("batchq"), "config.toml")  # may contain a secret access key
        files = (self.tls_key, self.tls_cert, self.secrets_file, self.metrics_token_file, self.socket)
        # os.path.exists is False for a home directory that cannot be searched, where Path.exists raises OSError.
        given = (*(path for path in files if path is not None), *((config,) if os.path.exists(config) else ()))  # noqa: PTH110
        # Files are not resolved: a symlink may change while the server runs, so each container's start follows it.
        return self.data.resolve(), self.checkpoint_root.resolve(), *(item.absolute() for item in given)

    @property
    def checkpoint_retention(self) -> timedelta | None:
        """How long checkpoints of finished jobs are stored; None: for ever."""
        return timedelta(days=self.checkpoint_days) if self.checkpoint_days else None

    @property
    def audit(self) -> timedelta | None:
        """How long audit records are stored; None: for ever."""
        return timedelta(days=self.audit_days) if self.audit_days else None

    @property
    def grace(self) -> timedelta:
        return timedelta(seconds=self.stop_grace)


def flag_name(name: str) -> str:
    """The flag of a field, as `--stop-grace`."""
    return f"--{name.replace('_', '-')}"


def setting_variable(name: str) -> str:
    """The environment variable of a field, as `BATCHQ_STOP_GRACE`."""
    return f"{PREFIX}{name.upper()}"


def shown_default(name: str) -> str:
    """The default of a field as text; `none` and `off` for settings that are not set."""
    field = Settings.model_fields[name]
    extra = field.json_schema_extra
    if isinstance(extra, dict):
        return str(extra["shown_default"])
    if field.default is None:
        return "none"
    return ("on" if field.default else "off") if isinstance(field.default, bool) else _shown(field.default)


#: Settings that name files with secrets.
_HIDDEN = {"secrets_file", "metrics_token_file", "tls_key"}


def shown_settings(settings: Settings) -> Mapping[str, str]:
    """The settings as text, by the names of their flags, without those that name files with secrets."""
    return {flag_name(name): _shown(getattr(settings, name)) for name in Settings.model_fields if name not in _HIDDEN}


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def check_variables(variables: Iterable[str]) -> None:
    """Raise StartImpossible for a BATCHQ_ variable that is not a setting: a misspelt one would be ignored silently."""
    known = set(map(setting_variable, Settings.model_fields))
    for name in sorted(variables):
        if name.startswith(PREFIX) and name not in known and not name.startswith(OTHER_VARIABLES):
            raise StartImpossible(f"{name} is not a setting of batchq; is it misspelt?")
