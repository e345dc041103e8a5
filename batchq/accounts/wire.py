"""The JSON of the operations on accounts, users and keys: request models, and responses without secrets. Pure.

A member left out of a change keeps its value.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.accounts.files import AccessKey, KeyState
from batchq.domain.access.accounts import (
    EPOCH,
    Account,
    AccountLimits,
    AccountName,
    Caller,
    ContainerPolicy,
    Directory,
    Role,
    User,
)
from batchq.domain.access.audit import AuditRecord
from batchq.settings import REGISTRY

Response = Mapping[str, object]
Word = Annotated[str, Field(min_length=1, max_length=256)]
Path = Annotated[str, Field(min_length=1, max_length=4096)]
LogDriver = Literal["fluentd", "gelf", "journald", "splunk", "syslog"]
Registry = Annotated[str, Field(pattern=REGISTRY, max_length=255)]
Paths = Annotated[list[Path], Field(max_length=100)]
Amount = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Number = Annotated[int, Field(ge=0, le=2**40)]


class AdminRequest(BaseModel):
    """The base of the request models."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


class EmptyRequest(AdminRequest):
    """A request without members."""


class SetAllowance(AdminRequest):
    """What containers of an account may use of the machine. Null: without limit."""

    privileged: bool = False
    #: Paths of host devices, with all paths below them.
    devices: Paths = []
    #: Host paths that containers may mount, with all paths below them.
    volumes: Paths = []
    host_network: bool = False
    #: Whether containers may run as root; null: only without `volumes`.
    root: bool | None = None
    #: Log drivers of the engine beside json-file and awslogs.
    log_drivers: Annotated[list[LogDriver], Field(max_length=5)] = []
    #: Registries of images, each with or without a path; null: all but those on loopback or link-local addresses.
    registries: Annotated[list[Registry], Field(max_length=100)] | None = None
    #: The most vCPUs that one job may request.
    vcpus: Amount | None = None
    #: The most memory that one job may request, in MiB.
    memory_mib: Annotated[int, Field(gt=0, le=2**40)] | None = None


class SetLimits(AdminRequest):
    """Limits of an account and all accounts below it together. Null: without limit."""

    #: Jobs that have not started.
    queued: Number | None = None
    #: SubmitJob requests a second.
    submits: Amount | None = None
    #: vCPUs in use.
    vcpus: Annotated[float, Field(ge=0, le=1_000_000, allow_inf_nan=False)] | None = None
    #: All stored logs, in MiB.
    log_mib: Number | None = None


class SetAccount(AdminRequest):
    """A new account, or a change of one. `queues` and `allowance` null: those of the parent."""

    name: Word
    #: The account above it; null: `root`.
    parent: Word | None = None
    #: The job queues that its users may use and see.
    queues: Annotated[list[Word], Field(max_length=1000)] | None = None
    allowance: SetAllowance | None = None
    limits: SetLimits = SetLimits()


class SetUser(AdminRequest):
    """A new user, or a change of one."""

    name: Word
    #: The account that the user belongs to; null: for a new user the caller's, else unchanged.
    account: Word | None = None
    role: Annotated[Role, Field(strict=False)] = Role.USER
    #: The accounts whose coordinator the user is; accounts below them are included.
    coordinates: Annotated[list[Word], Field(max_length=1000)] = []


class RequiredName(AdminRequest):
    """The name of one account or user."""

    name: Word


class OptionalName(AdminRequest):
    """The name of one account or user; without it: all that the caller may see."""

    name: Word | None = None


class OptionalUser(AdminRequest):
    """The user whose key is created; without it: the caller."""

    user: Word | None = None


class ListKeys(AdminRequest):
    """The user whose keys are listed; without it: all users whom the caller may see."""

    user: Word | None = None


class SetKey(AdminRequest):
    """The new state of a key."""

    id: Word
    state: Annotated[KeyState, Field(strict=False)]


class KeyId(AdminRequest):
    """The id of a key."""

    id: Word


def account(it: Account, directory: Directory) -> Response:
    """The account as it is stored, and under `inEffect` its queues and container policy after inheritance.

    `queues` and `allowance` null: inherited from the parent.
    """
    return {
        "name": it.name,
        "parent": it.parent,
        "queues": None if it.queues is None else list(it.queues),
        "allowance": None if it.allowance is None else {**allowance(it.allowance), "root": it.allowance.root},
        "limits": limits(it.limits),
        "inEffect": {"queues": _queues(directory, it.name), "allowance": allowance(directory.allowance(it.name))},
    }


def allowance(it: ContainerPolicy) -> Response:
    """The container policy; `root` is the value in effect, never null."""
    return {
        "privileged": it.privileged,
        "devices": list(it.devices),
        "volumes": list(it.volumes),
        "hostNetwork": it.host_network,
        "root": it.permits_root,
        "logDrivers": list(it.log_drivers),
        "registries": None if it.registries is None else list(it.registries),
        "vcpus": it.vcpus,
        "memoryMib": it.memory_mib,
    }


def limits(it: AccountLimits) -> Response:
    return {"queued": it.queued, "submits": it.submits, "vcpus": it.vcpus, "logMib": it.log_mib}


def user(it: User) -> Response:
    return {
        "name": it.name,
        "account": it.account,
        "role": it.role.value,
        "coordinates": sorted(it.coordinates),
    }


def key(it: AccessKey) -> Response:
    return {"id": it.id, "user": it.user, "state": it.state.value, "createdAt": _milliseconds(it.created_at)}


def audit_record(it: AuditRecord) -> Response:
    return {
        "at": _milliseconds(it.at),
        "user": it.user,
        "account": it.account,
        "key": it.key or None,
        "requestId": it.request_id or None,
        "operation": it.operation,
        "about": it.resource,
        "outcome": it.outcome,
    }


def caller(caller: Caller, directory: Directory) -> Response:
    """The identity of the caller, and the queues, container policy and limits that apply to it."""
    return {
        "user": caller.user,
        "account": caller.account,
        "role": caller.role.value,
        "key": caller.key or None,
        "coordinates": sorted(caller.coordinates),
        "queues": None if caller.queues is None else sorted(caller.queues),
        "allowance": allowance(directory.allowance(caller.account)),
        "limits": [{"account": it.name, **limits(it.limits)} for it in directory.lineage(caller.account)],
    }


def _queues(directory: Directory, name: AccountName) -> list[str] | None:
    queues = (it.queues for it in directory.lineage(name) if it.queues is not None)
    nearest = next(queues, None)
    return None if nearest is None else list(nearest)


def _milliseconds(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)
