"""Settings of `batchq serve`, read once: flags first, then BATCHQ_* variables, then the defaults here."""

from collections.abc import Iterable
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import platformdirs
from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from batchq.domain.catalog import Network
from batchq.errors import StartImpossible

PREFIX = "BATCHQ_"
NO_SETTINGS = ("BATCHQ_URL", "BATCHQ_SECRET_")  # and what begins with them: of the commands, and secrets of jobs
REGISTRY = r"^[A-Za-z0-9.-]+(:[0-9]+)?(/[a-z0-9._/-]+)?$"  # a registry of images, with or without a path in it
LEAST_RETENTION = timedelta(minutes=15)


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError(f"{path} is not an absolute path")
    return path


HostPath = Annotated[Path, AfterValidator(_absolute)]


class Runtime(StrEnum):
    DOCKER = "docker"
    SIMULATED = "simulated"


class Privileged(StrEnum):
    """What becomes of `privileged: true`: given, dropped with a log line, or refused with an error."""

    ALLOW = "allow"
    DROP = "drop"
    REFUSE = "refuse"


class MissingHostPaths(StrEnum):
    """What becomes of a job that mounts a host path which does not exist: created as a folder, or the start refused."""

    CREATE = "create"
    REFUSE = "refuse"


class Auth(StrEnum):
    """Who may call: anybody who reaches the port, or whoever signs with a key that was given out."""

    NONE = "none"
    SIGV4 = "sigv4"


def default_data() -> Path:
    return Path(platformdirs.user_data_dir("batchq"))


class Settings(BaseSettings):
    """All times in seconds on the outside. Frozen."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 22824
    data: Path = Field(default_factory=default_data)
    runtime: Runtime = Runtime.DOCKER
    account_id: Annotated[str, Field(pattern=r"^\d{12}$")] = "123456789012"
    region: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,32}$")] = "us-east-1"
    stop_grace: Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)] = 30.0
    min_timeout: Annotated[int, Field(ge=1, le=60)] = 60
    auth: Auth = Auth.NONE
    requests_per_second: Annotated[float, Field(gt=0, le=1_000_000)] = 200.0
    connections_per_address: Annotated[int, Field(ge=1, le=100_000)] | None = None
    min_free_mib: Annotated[int, Field(ge=0, le=2**30)] = 64
    log_mib: Annotated[int, Field(ge=0, le=2**30, description="MiB of output stored for each container; 0: all.")] = 500
    retention_days: Annotated[float, Field(ge=0, le=36500, allow_inf_nan=False)] = 30.0
    audit_days: Annotated[float, Field(ge=0, le=36500, allow_inf_nan=False)] = 365.0
    insecure_no_auth: bool = False
    privileged: Privileged = Privileged.ALLOW
    volumes: Annotated[
        tuple[HostPath, ...], Field(description="Host paths that jobs may mount, with all below them.")
    ] = (Path("/"),)
    missing_host_paths: MissingHostPaths = MissingHostPaths.CREATE
    registries: tuple[Annotated[str, Field(pattern=REGISTRY)], ...] | None = None
    network: Network = Network.SHARED
    secrets_file: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    survey_every: Annotated[float, Field(gt=0, le=3600)] = 10.0

    @property
    def retention(self) -> timedelta | None:
        """How long a finished job is kept: as long as a repeated SubmitJob is known at least; None is for ever."""
        return max(timedelta(days=self.retention_days), LEAST_RETENTION) if self.retention_days else None

    @property
    def audit(self) -> timedelta | None:
        """How long it is known who did what; None is for ever."""
        return timedelta(days=self.audit_days) if self.audit_days else None

    @property
    def grace(self) -> timedelta:
        return timedelta(seconds=self.stop_grace)


def check_names(variables: Iterable[str]) -> None:
    """A setting that was misspelt would be left out without a word. Raises StartImpossible."""
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields}
    for name in sorted(variables):
        if name.startswith(PREFIX) and name not in known and not name.startswith(NO_SETTINGS):
            raise StartImpossible(f"{name} is no setting of batchq; is it misspelt?")
