"""Settings of `batchq serve`: flags take precedence over BATCHQ_* variables, and these over the defaults here."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import platformdirs
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from batchq.domain.catalog import Network
from batchq.domain.prices import Prices, prices_of
from batchq.errors import Invalid, StartImpossible

PREFIX = "BATCHQ_"
# Prefixes of variables that are not settings: the server URL of commands, and secrets of jobs.
OTHER_VARIABLES = ("BATCHQ_URL", "BATCHQ_SECRET_")
REGISTRY = r"^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._/-]+)?$"  # an image registry, with or without a path
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

    A mount with `create` is created in both cases.
    """

    REFUSE = "refuse"
    CREATE = "create"


class LogLevel(StrEnum):
    """The least severity of the records in the server's log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Auth(StrEnum):
    """How requests are authenticated: not at all, or by AWS Signature Version 4 with a key of `batchq key`."""

    NONE = "none"
    SIGV4 = "sigv4"


def default_data() -> Path:
    return Path(platformdirs.user_data_dir("batchq"))


class Settings(BaseSettings):
    """The settings of a server. Frozen."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    #: The address to listen on.
    host: str = "127.0.0.1"
    #: The port to listen on; 0: a free one.
    port: Annotated[int, Field(ge=0, le=65535)] = 22824
    #: The path of a unix socket to listen on; None: none.
    socket: HostPath | None = None
    #: The group of the socket's file; None: that of the process.
    socket_group: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    #: The octal mode of the socket's file; None: 0660 with a group, else 0600.
    socket_mode: Annotated[str, Field(pattern=r"^0?6[06][06]$")] | None = None
    #: Whether to listen on the unix socket only.
    no_tcp: bool = False
    #: The directory of the database and the logs.
    data: Path = Field(default_factory=default_data)
    runtime: Runtime = Runtime.DOCKER
    #: The cluster of the runtime `kubernetes`: FILE or FILE#CONTEXT of a kubeconfig, or `in-cluster`; None: no cluster.
    kubernetes: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    #: Seconds between SIGTERM and SIGKILL when Kubernetes itself stops a pod, as for the drain of a node.
    kubernetes_drain_grace: Annotated[int, Field(ge=1, le=86400)] = 1
    #: Whether a Kubernetes server of an unsupported version is accepted, for tests only.
    kubernetes_unsupported: bool = False
    #: The account in ARNs.
    account_id: Annotated[str, Field(pattern=r"^\d{12}$")] = "123456789012"
    #: The region in ARNs of requests that name none.
    region: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,32}$")] = "us-east-1"
    #: Seconds between SIGTERM and SIGKILL.
    stop_grace: Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)] = 30.0
    #: The least `attemptDurationSeconds` that is accepted.
    min_timeout: Annotated[int, Field(ge=1, le=60)] = 60
    auth: Auth = Auth.NONE
    #: Requests that one user may make a second, on average; only with `auth` sigv4.
    requests_per_second: Annotated[float, Field(gt=0, le=1_000_000)] = 200.0
    #: Open connections from one address; None: half of all.
    connections_per_address: Annotated[int, Field(ge=1, le=100_000)] | None = None
    #: MiB of the data's disk that jobs, definitions and logs leave free; 0: no minimum, and no reserve (decision 0033).
    min_free_mib: Annotated[int, Field(ge=0, le=2**30)] = 64
    #: Of the server's own log, on stderr: `info` has a line for the end of each job.
    log_level: LogLevel = LogLevel.INFO
    log_mib: Annotated[int, Field(ge=0, le=2**30, description="MiB of output stored for each container; 0: all.")] = 500
    #: Days for which finished jobs and their logs are stored; 0: for ever.
    retention_days: Annotated[float, Field(ge=0, le=36500, allow_inf_nan=False)] = 30.0
    #: The directory of the checkpoint directories of jobs; None: beside `data`, with `-checkpoints` after its name.
    checkpoints: HostPath | None = None
    #: Days for which checkpoints of finished jobs are stored; 0: for ever.
    checkpoint_days: Annotated[float, Field(ge=0, le=36500, allow_inf_nan=False)] = 0.0
    #: Days for which audit records are stored; 0: for ever.
    audit_days: Annotated[float, Field(ge=0, le=36500, allow_inf_nan=False)] = 365.0
    #: Whether to listen beyond loopback although `auth` is none.
    insecure_no_auth: bool = False
    privileged: Privileged = Privileged.ALLOW
    volumes: Annotated[
        tuple[HostPath, ...], Field(description="Host paths that jobs may mount, with all below them.")
    ] = (Path("/"),)
    missing_host_paths: MissingHostPaths = MissingHostPaths.REFUSE
    #: Registries of jobs' images, each with or without a path; None: any.
    registries: tuple[Annotated[str, Field(pattern=REGISTRY)], ...] | None = None
    #: The network mode of jobs whose compute environment sets none.
    network: Network = Network.SHARED
    container_runtime: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$",
            description="OCI runtime of containers whose compute environment names none.",
        ),
    ] = None
    #: Whether jobs may mount the engine's socket, with which they control the machine as root.
    engine_socket: bool = False
    #: A JSON object of secrets by their `valueFrom`; None: no such file.
    secrets_file: Path | None = None
    #: The prices of resources, TOML; None: the costs of jobs are not known.
    prices: Path | None = None
    #: A file with the token that Prometheus sends to /metrics of a server with keys; None: /metrics is refused there.
    metrics_token_file: Path | None = None
    #: The folder with a folder for each S3 bucket, for SageMaker's training jobs; None: there is no S3. Absolute.
    s3_root: HostPath | None = None
    #: A TOML file with `obs_root` and `[[engines]]` of the ModelArts dialect; None: no such file.
    modelarts_config: Path | None = None
    #: The certificate chain of the server, PEM; None: no TLS. Only together with `tls_key`.
    tls_cert: Path | None = None
    #: The private key of `tls_cert`, PEM.
    tls_key: Path | None = None
    #: Host names beside those of loopback and `host` that requests may have in `Host`.
    allowed_hosts: tuple[str, ...] = ()
    #: Seconds between two surveys (relists) of the engine's containers.
    survey_every: Annotated[float, Field(gt=0, le=3600)] = 10.0

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


#: Settings that name files with secrets.
_HIDDEN = {"secrets_file", "metrics_token_file", "tls_key"}


def shown_settings(settings: Settings) -> Mapping[str, str]:
    """The settings as text, by the names of their flags, without those that name files with secrets."""
    return {
        f"--{name.replace('_', '-')}": _shown(getattr(settings, name))
        for name in Settings.model_fields
        if name not in _HIDDEN
    }


def _shown(value: object) -> str:
    if value is None:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def check_variables(variables: Iterable[str]) -> None:
    """Raise StartImpossible for a BATCHQ_ variable that is not a setting: a misspelt one would be ignored silently."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    for name in sorted(variables):
        if name.startswith(PREFIX) and name not in known and not name.startswith(OTHER_VARIABLES):
            raise StartImpossible(f"{name} is not a setting of batchq; is it misspelt?")


def load_prices(file: Path | None) -> Prices | None:
    """The prices of the file; None without a file. Raises StartImpossible for a file that cannot be used."""
    if file is None:
        return None
    try:
        return prices_of(tomllib.loads(file.read_text(encoding="utf-8"), parse_float=Decimal))
    except (OSError, ValueError, Invalid) as why:
        raise StartImpossible(f"the prices in {file} cannot be used: {why}") from why
