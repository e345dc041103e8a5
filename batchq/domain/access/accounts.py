"""Users, accounts, roles and callers. Users belong to accounts, accounts form a tree, a caller is a user. Pure.

Roles follow Slurm and CraneSched: users see and change their own resources, coordinators those of their accounts and of
all accounts below them, operators and admins everything. The reply about a resource that the caller may not see is the
same as about a missing one. Decision 0025.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import NewType

from msgspec import Struct, field

from batchq.domain.enums import Role
from batchq.domain.ids import QueueName
from batchq.domain.times import EPOCH

UserName = NewType("UserName", str)
AccountName = NewType("AccountName", str)

ROOT = AccountName("root")
"""The account above all others; it always exists. Without authentication the server's owner belongs to it."""


class Permission(StrEnum):
    """The permission that an operation requires, whatever resource it names."""

    #: Resources with owners. All callers have it; the owner is checked for each resource.
    SELF = "SELF"
    #: Queues, environments, policies and consumable resources: operators and admins.
    CATALOG = "CATALOG"
    #: Users and keys: coordinators, operators and admins. `permissions` checks each user and account.
    ACCOUNTS = "ACCOUNTS"
    #: Leaving safe mode and force-fail: admins.
    MAINTENANCE = "MAINTENANCE"


class Owner(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner of a resource: the user that created it, and the account of that user at the time."""

    #: Empty for a resource that was created before there were users.
    user: UserName = UserName("")
    account: AccountName = ROOT


NO_OWNER = Owner()  # of resources that were created before there were users


class Visibility(Struct, frozen=True, kw_only=True):
    """The owners whose resources are visible to a caller who does not see everything."""

    #: Resources of this user are visible.
    user: UserName
    #: Resources of every user of these accounts are visible.
    accounts: frozenset[AccountName] = frozenset()

    def has(self, owner: Owner) -> bool:
        """Whether resources of this owner are visible."""
        return owner.user == self.user or owner.account in self.accounts


class ContainerPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the containers of an account may use of the machine. The server's settings take precedence."""

    #: Whether a container may be privileged.
    privileged: bool = False
    #: Paths of host devices that a container may use, with all paths below them.
    devices: tuple[str, ...] = ()
    #: Host paths that a container may mount, with all paths below them.
    volumes: tuple[str, ...] = ()
    #: Whether a container may use the host's network.
    host_network: bool = False
    #: Whether a container may mount the container engine's socket, with which it controls the machine as root.
    engine_socket: bool = False
    #: Whether a container may run as root; None: only without `volumes`, because root can leave set-uid files there.
    root: bool | None = None
    #: The most vCPUs that one job may request; None: without limit.
    vcpus: float | None = None
    #: The most memory that one job may request, in MiB; None: without limit.
    memory_mib: int | None = None
    #: Log drivers of the container engine beside json-file and awslogs.
    log_drivers: tuple[str, ...] = ()
    #: Registries of images, each with or without a path; None: all but those on loopback or link-local addresses.
    registries: tuple[str, ...] | None = None
    #: Whether users may run commands in containers that run already.
    exec_allowed: bool = True

    @property
    def permits_root(self) -> bool:
        """Whether a container may run as root."""
        return not self.volumes if self.root is None else self.root


class AccountLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The limits of an account and all accounts below it together. None: without limit."""

    #: Jobs that have not reached STARTING; each child of an array counts.
    queued: int | None = None
    #: SubmitJob requests a second.
    submits: float | None = None
    #: vCPUs in use.
    vcpus: float | None = None
    #: All stored logs, in MiB.
    log_mib: int | None = None


class Account(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node of the tree of accounts."""

    name: AccountName
    #: None for the root alone.
    parent: AccountName | None = ROOT
    #: The job queues that its users see and use; None: those of its parent.
    queues: tuple[QueueName, ...] | None = None
    #: None: that of its parent.
    allowance: ContainerPolicy | None = None
    limits: AccountLimits = AccountLimits()


class User(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A user, who belongs to one account."""

    name: UserName
    account: AccountName = ROOT
    role: Role = Role.USER
    #: The accounts whose coordinator the user is; accounts below them are included without being named.
    coordinates: frozenset[AccountName] = frozenset()


class Caller(Struct, frozen=True, kw_only=True):
    """The user who made a request, and which request it is."""

    user: UserName
    account: AccountName = ROOT
    role: Role = Role.USER
    #: The accounts whose coordinator the user is, with all accounts below them.
    coordinates: frozenset[AccountName] = frozenset()
    #: The user's account and the accounts above it, nearest first.
    lineage: tuple[AccountName, ...] = (ROOT,)
    #: The job queues that the user sees; None: all.
    queues: frozenset[QueueName] | None = None
    #: That of the user's account.
    allowance: ContainerPolicy = ContainerPolicy()
    #: The id of the access key that signed the request; empty if requests are not signed.
    key: str = ""
    #: The uid of the process that made the request, if the unix socket authenticated the user; else None.
    uid: int | None = None
    #: The id under which the request is logged.
    request_id: str = ""
    #: The name of the operation, as `SubmitJob`.
    operation: str = ""
    #: When the request arrived.
    requested_at: datetime = EPOCH

    @property
    def is_authenticated(self) -> bool:
        """Whether the user was verified, by a signature or by the unix socket. Without, every caller is an admin."""
        return bool(self.key) or self.uid is not None

    @property
    def owner(self) -> Owner:
        """The owner of the resources that the caller creates."""
        return Owner(user=self.user, account=self.account)

    @property
    def container_policy(self) -> ContainerPolicy | None:
        """The container policy for the caller's jobs. None, for an admin: only the server's settings apply."""
        return None if self.role is Role.ADMIN else self.allowance

    @property
    def reaches_all(self) -> bool:
        """Whether all resources are visible to the caller: operators and admins."""
        return self.role in {Role.OPERATOR, Role.ADMIN}

    @property
    def visibility(self) -> Visibility | None:
        """The owners whose resources the caller sees; None: all."""
        return None if self.reaches_all else Visibility(user=self.user, accounts=self.coordinates)

    def reaches(self, owner: Owner) -> bool:
        """Whether the caller may see and stop resources of this owner."""
        visibility = self.visibility
        return visibility is None or visibility.has(owner)

    @property
    def usable(self) -> Visibility | None:
        """The owners whose job definitions the caller may use; None: all.

        They are the owners of `visibility`, those in the caller's account, and those in the accounts above it.
        """
        return None if self.reaches_all else Visibility(user=self.user, accounts=self.coordinates.union(self.lineage))

    def may_use(self, owner: Owner) -> bool:
        """Whether the caller may submit jobs with job definitions of this owner."""
        uses = self.usable
        return uses is None or uses.has(owner)

    def sees_queue(self, name: QueueName) -> bool:
        """Whether the caller sees the queue, and may use it."""
        return self.queues is None or name in self.queues

    def has(self, right: Permission) -> bool:
        """Whether the caller has this permission."""
        match right:
            case Permission.SELF:
                return True
            case Permission.CATALOG:
                return self.reaches_all
            case Permission.ACCOUNTS:
                return self.reaches_all or bool(self.coordinates)
            case Permission.MAINTENANCE:
                return self.role is Role.ADMIN


class Directory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All accounts and users, as they are stored."""

    #: By name; `root` only if it has members that differ from their defaults.
    accounts: Mapping[AccountName, Account] = field(default_factory=dict)
    #: By name.
    users: Mapping[UserName, User] = field(default_factory=dict)
    #: Names of deleted users: their jobs belong to whoever has the name next.
    deleted_users: frozenset[UserName] = frozenset()

    def account(self, name: AccountName) -> Account | None:
        """The account of this name; None if there is no such account. The root always exists."""
        if name == ROOT and name not in self.accounts:
            return Account(name=ROOT, parent=None)
        return self.accounts.get(name)

    def lineage(self, name: AccountName) -> tuple[Account, ...]:
        """An account and those above it, nearest first. A deleted account counts as one directly below the root.

        It ends even if the stored parents form a circle: no account is visited twice.
        """
        climbed: dict[AccountName, Account] = {}
        at: AccountName | None = name
        while at is not None and at != ROOT and at not in climbed:
            climbed[at] = self.accounts.get(at, Account(name=at))
            at = climbed[at].parent
        return (*climbed.values(), self.accounts.get(ROOT, Account(name=ROOT, parent=None)))

    def below(self, name: AccountName) -> frozenset[AccountName]:
        """The names of an account and of all accounts below it."""
        under = (account for account in self.accounts if any(above.name == name for above in self.lineage(account)))
        return frozenset({name, *under})

    def allowance(self, name: AccountName) -> ContainerPolicy:
        """The container policy of an account: its own, else that of the nearest account above it that has one.

        The strictest policy if no account has one, and for a deleted account, whose own policy is not known any more.
        """
        if self.account(name) is None:
            return ContainerPolicy()
        policies = (account.allowance for account in self.lineage(name) if account.allowance is not None)
        return next(policies, ContainerPolicy())

    def queues(self, name: AccountName) -> tuple[QueueName, ...] | None:
        """The queues that users of an account see: its own, else those of the nearest account above it that has some.

        None: all, because none of these accounts has any.
        """
        return next((account.queues for account in self.lineage(name) if account.queues is not None), None)

    def container_policy_of_owner(self, owner: Owner) -> ContainerPolicy | None:
        """The container policy that applies to an owner's jobs now. None, for a present admin: unrestricted."""
        user = self.users.get(owner.user)
        return None if user is not None and user.role is Role.ADMIN else self.allowance(owner.account)

    def caller(self, name: UserName, *, key: str = "") -> Caller | None:
        """The caller for a user's request; None if there is no such user. `key`: the access key's id."""
        user = self.users.get(name)
        if user is None:
            return None
        coordinates = frozenset(under for coordinate in user.coordinates for under in self.below(coordinate))
        return Caller(
            user=name,
            account=user.account,
            role=user.role,
            coordinates=coordinates,
            lineage=tuple(account.name for account in self.lineage(user.account)),
            queues=self._queues({user.account, *coordinates}) if user.role is Role.USER else None,
            allowance=self.allowance(user.account),
            key=key,
        )

    def _queues(self, names: Iterable[AccountName]) -> frozenset[QueueName] | None:
        """The queues that any of these accounts sees; None: all. Coordinators see the queues of their accounts."""
        lists = [self.queues(name) for name in names]
        return None if None in lists else frozenset(queue for queues in lists for queue in queues or ())
