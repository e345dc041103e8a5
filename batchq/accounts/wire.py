"""The JSON of the operations on accounts, users and keys: request models, and answers without secrets. Pure.

A member left out of a change keeps its value.
"""

from typing import Annotated, Literal

from msgspec import convert
from msgspec.structs import asdict, replace
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.accounts.files import AccessKey
from batchq.domain.access.accounts import Account, AccountLimits, Caller, ContainerPolicy, Directory, User
from batchq.domain.access.audit import AuditRecord
from batchq.domain.enums import KeyState, Role
from batchq.domain.times import milliseconds
from batchq.ports.responses.accounts import (
    AccountResponse,
    CallerResponse,
    InEffectResponse,
    KeyResponse,
    LimitsOfAccountResponse,
    LimitsResponse,
    NewKeyResponse,
    PolicyResponse,
    UserResponse,
)
from batchq.ports.responses.records import AuditRecordResponse
from batchq.settings import REGISTRY

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
    #: Whether containers may mount the container engine's socket, with which they control the machine as root.
    engine_socket: bool = False
    #: Whether containers may run as root; null: only without `volumes`.
    root: bool | None = None
    #: Log drivers of the container engine beside json-file and awslogs.
    log_drivers: Annotated[list[LogDriver], Field(max_length=5)] = []
    #: Registries of images, each with or without a path; null: all but those on loopback or link-local addresses.
    registries: Annotated[list[Registry], Field(max_length=100)] | None = None
    #: Whether users may run commands in containers of running jobs.
    exec_allowed: bool = True
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


def account_answer(account: Account, directory: Directory) -> AccountResponse:
    """The account as it is stored, and under `inEffect` its queues and container policy after inheritance."""
    return AccountResponse(
        name=account.name,
        parent=account.parent,
        queues=account.queues,
        allowance=None
        if account.allowance is None
        else convert(account.allowance, PolicyResponse, from_attributes=True),
        limits=limits(account.limits),
        in_effect=InEffectResponse(
            queues=directory.queues(account.name), allowance=allowance(directory.allowance(account.name))
        ),
    )


def allowance(policy: ContainerPolicy) -> PolicyResponse:
    """The container policy; `root` is the value in effect, never null."""
    return replace(convert(policy, PolicyResponse, from_attributes=True), root=policy.permits_root)


def limits(account_limits: AccountLimits) -> LimitsResponse:
    return convert(account_limits, LimitsResponse, from_attributes=True)


def user_answer(user: User) -> UserResponse:
    return UserResponse(
        name=user.name, account=user.account, role=user.role, coordinates=tuple(sorted(user.coordinates))
    )


def key_answer(key: AccessKey) -> KeyResponse:
    return KeyResponse(id=key.id, user=key.user, state=key.state, created_at=milliseconds(key.created_at))


def new_key_answer(key: AccessKey, *, first_user: bool) -> NewKeyResponse:
    return NewKeyResponse(**asdict(key_answer(key)), secret=key.secret, first_user=first_user)


def audit_record_answer(audit_record: AuditRecord) -> AuditRecordResponse:
    return AuditRecordResponse(
        at=milliseconds(audit_record.at),
        user=audit_record.user,
        account=audit_record.account,
        key=audit_record.key or None,
        request_id=audit_record.request_id or None,
        operation=audit_record.operation,
        resource=audit_record.resource,
        outcome=audit_record.outcome,
    )


def caller_answer(caller: Caller, directory: Directory) -> CallerResponse:
    """The identity of the caller, and the queues, container policy and limits that apply to it."""
    return CallerResponse(
        user=caller.user,
        account=caller.account,
        role=caller.role,
        key=caller.key or None,
        coordinates=tuple(sorted(caller.coordinates)),
        queues=None if caller.queues is None else tuple(sorted(caller.queues)),
        allowance=allowance(directory.allowance(caller.account)),
        limits=tuple(
            LimitsOfAccountResponse(account=account.name, **asdict(limits(account.limits)))
            for account in directory.lineage(caller.account)
        ),
    )
