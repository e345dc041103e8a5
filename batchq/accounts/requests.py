"""What is said in an operation on accounts, users and keys. A member left out of a change is to stay as it is."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.accounts.access_keys import KeyState
from batchq.domain.access.accounts import Role
from batchq.settings import REGISTRY

Word = Annotated[str, Field(min_length=1, max_length=256)]
Path = Annotated[str, Field(min_length=1, max_length=4096)]
LogDriver = Literal["fluentd", "gelf", "journald", "splunk", "syslog"]
Registry = Annotated[str, Field(pattern=REGISTRY, max_length=255)]
Paths = Annotated[list[Path], Field(max_length=100)]
Amount = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0, le=2**40)]


class AdminRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


class EmptyRequest(AdminRequest):
    """There is nothing to say."""


class SetAllowance(AdminRequest):
    """Null is as much as there is; `root` null is yes without `volumes`, and no with them."""

    privileged: bool = False
    devices: Paths = []
    volumes: Paths = []
    host_network: bool = False
    root: bool | None = None
    log_drivers: Annotated[list[LogDriver], Field(max_length=5)] = []
    registries: Annotated[list[Registry], Field(max_length=100)] | None = None
    vcpus: Amount | None = None
    memory_mib: Annotated[int, Field(gt=0, le=2**40)] | None = None


class SetLimits(AdminRequest):
    """Null is without limit."""

    queued: Number | None = None
    submits: Amount | None = None
    vcpus: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None = None
    log_mib: Number | None = None


class SetAccount(AdminRequest):
    """`queues` and `allowance` null are the parent's."""

    name: Word
    parent: Word | None = None
    queues: Annotated[list[Word], Field(max_length=1000)] | None = None
    allowance: SetAllowance | None = None
    limits: SetLimits = SetLimits()


class SetUser(AdminRequest):
    name: Word
    account: Word | None = None
    role: Annotated[Role, Field(strict=False)] = Role.USER
    coordinates: Annotated[list[Word], Field(max_length=1000)] = []


class RequiredName(AdminRequest):
    name: Word


class OptionalName(AdminRequest):
    """All of them, or the one of a name."""

    name: Word | None = None


class OptionalUser(AdminRequest):
    """Without it, the caller's own."""

    user: Word | None = None


class ListKeys(AdminRequest):
    """Without it, those of all whom the caller knows."""

    user: Word | None = None


class SetKey(AdminRequest):
    id: Word
    state: Annotated[KeyState, Field(strict=False)]


class KeyId(AdminRequest):
    id: Word
