"""Accounts, users and access keys, without secrets, and the caller of a request."""

from msgspec import Struct

from batchq.domain.enums import KeyState, Role


class PolicyResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """What containers of an account may use of the machine. Null: without limit."""

    privileged: bool
    devices: tuple[str, ...]
    volumes: tuple[str, ...]
    host_network: bool
    engine_socket: bool
    #: Whether containers may run as root. In a stored policy null: only without `volumes`.
    root: bool | None
    log_drivers: tuple[str, ...]
    #: Null: all but those on loopback or link-local addresses.
    registries: tuple[str, ...] | None
    vcpus: float | None
    memory_mib: int | None
    #: Whether users may run commands in containers of running jobs.
    exec_allowed: bool


class LimitsResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """Limits of an account and all accounts below it together. Null: without limit."""

    queued: int | None
    submits: float | None
    vcpus: float | None
    log_mib: int | None


class LimitsOfAccountResponse(LimitsResponse, frozen=True, kw_only=True, rename="camel"):
    """The limits of one account."""

    account: str


class InEffectResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The queues and the container policy of an account after inheritance."""

    #: Null: all queues.
    queues: tuple[str, ...] | None
    allowance: PolicyResponse


class AccountResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """An account as it is stored, and what is in effect after inheritance."""

    name: str
    #: The account above it; null for `root`.
    parent: str | None
    #: Null: those of the parent.
    queues: tuple[str, ...] | None
    #: Null: that of the parent.
    allowance: PolicyResponse | None
    limits: LimitsResponse
    in_effect: InEffectResponse


class AccountsResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """Accounts, by name."""

    accounts: tuple[AccountResponse, ...]


class UserResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """A user."""

    name: str
    account: str
    role: Role
    #: The accounts whose coordinator the user is; accounts below them are included.
    coordinates: tuple[str, ...]


class UsersResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """Users, by name."""

    users: tuple[UserResponse, ...]


class KeyResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """An access key, without its secret."""

    id: str
    user: str
    state: KeyState
    #: Milliseconds since 1970.
    created_at: int


class NewKeyResponse(KeyResponse, frozen=True, kw_only=True, rename="camel"):
    """A new access key. No other answer contains a secret."""

    #: The secret access key.
    secret: str
    #: Whether the user is the first one of the server, and so an admin.
    first_user: bool


class KeysResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """Access keys."""

    keys: tuple[KeyResponse, ...]


class CallerResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The identity of the caller, and the queues, container policy and limits that apply to it."""

    user: str
    account: str
    role: Role
    #: The access key of the request; null if requests are not signed.
    key: str | None
    #: The accounts whose coordinator the caller is, with all accounts below them.
    coordinates: tuple[str, ...]
    #: The job queues that the caller sees; null: all.
    queues: tuple[str, ...] | None
    allowance: PolicyResponse
    #: Those of the caller's account and of the accounts above it, nearest first.
    limits: tuple[LimitsOfAccountResponse, ...]
