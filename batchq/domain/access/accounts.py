"""Who may do what: users belong to accounts, accounts form a tree, and a caller is one of them who asks. Pure.

The matrix is that of Slurm's and CraneSched's: a user reaches what is his own, a coordinator what belongs to his
accounts and all below them, operators and admins everything. What one does not reach is as if it were not there.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import NewType

from msgspec import Struct, field

from batchq.domain.ids import QueueName

UserName = NewType("UserName", str)
AccountName = NewType("AccountName", str)

ROOT = AccountName("root")
"""The account above all others. It is always there; who runs a server that asks nobody who he is belongs to it."""


class Role(StrEnum):
    """What a user may do everywhere. A coordinator is no role: he is one of some accounts, whatever his role."""

    USER = "USER"
    OPERATOR = "OPERATOR"
    ADMIN = "ADMIN"


class Permission(StrEnum):
    """What an operation as a whole asks of its caller, before it is seen what it is about."""

    OWN = "OWN"  # everybody: about what belongs to somebody, whom the caller must reach
    GROUND = "GROUND"  # queues, environments, policies, consumable resources: operators
    PEOPLE = "PEOPLE"  # users and keys: coordinators for their accounts, operators for those who are no admins
    DATA = "DATA"  # resume and force-fail: admins


class Owner(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose something is, from the moment it is made. `user` is empty for what was made before there were users."""

    user: UserName = UserName("")
    account: AccountName = ROOT


UNSAID = datetime.fromtimestamp(0, UTC)
NOBODY = Owner()


class Visibility(Struct, frozen=True, kw_only=True):
    """The owners whose resources are visible to a caller who does not see everything."""

    #: Resources of this user are visible.
    user: UserName
    #: Resources of every user of these accounts are visible.
    accounts: frozenset[AccountName] = frozenset()

    def has(self, owner: Owner) -> bool:
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
    #: Whether a container may run as root; None: only without `volumes`, because root can leave set-uid files there.
    root: bool | None = None
    #: The most vCPUs that one job may request; None: without limit.
    vcpus: float | None = None
    #: The most memory that one job may request, in MiB; None: without limit.
    memory_mib: int | None = None
    #: Log drivers of the engine beside json-file and awslogs.
    log_drivers: tuple[str, ...] = ()
    #: Registries of images, each with or without a path; None: all but those on loopback or link-local addresses.
    registries: tuple[str, ...] | None = None

    @property
    def permits_root(self) -> bool:
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
    #: The id under which the request is logged.
    request_id: str = ""
    #: The name of the operation, as `SubmitJob`.
    operation: str = ""
    #: When the request arrived.
    asked_at: datetime = UNSAID

    @property
    def owner(self) -> Owner:
        """Whose is what he makes."""
        return Owner(user=self.user, account=self.account)

    @property
    def held_to(self) -> ContainerPolicy | None:
        """What his jobs may have of the machine. None is whatever the server gives."""
        return None if self.role is Role.ADMIN else self.allowance

    @property
    def reaches_all(self) -> bool:
        return self.role in {Role.OPERATOR, Role.ADMIN}

    @property
    def reach(self) -> Visibility | None:
        """None is everything."""
        return None if self.reaches_all else Visibility(user=self.user, accounts=self.coordinates)

    def reaches(self, owner: Owner) -> bool:
        """Whether what is this owner's is there for him, to see and to stop."""
        reach = self.reach
        return reach is None or reach.has(owner)

    @property
    def uses(self) -> Visibility | None:
        """Whose definitions are there for him: also those of his account, and of the accounts above it."""
        return None if self.reaches_all else Visibility(user=self.user, accounts=self.coordinates.union(self.lineage))

    def may_use(self, owner: Owner) -> bool:
        """Whether he may make jobs of this owner's definitions."""
        uses = self.uses
        return uses is None or uses.has(owner)

    def sees_queue(self, name: QueueName) -> bool:
        return self.queues is None or name in self.queues

    def has(self, right: Permission) -> bool:
        match right:
            case Permission.OWN:
                return True
            case Permission.GROUND:
                return self.reaches_all
            case Permission.PEOPLE:
                return self.reaches_all or bool(self.coordinates)
            case Permission.DATA:
                return self.role is Role.ADMIN


class Directory(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All accounts and users, as they are stored."""

    #: By name; `root` only if it has members that differ from their defaults.
    accounts: Mapping[AccountName, Account] = field(default_factory=dict)
    #: By name.
    users: Mapping[UserName, User] = field(default_factory=dict)
    #: Names of deleted users: their jobs belong to whoever has the name next.
    gone: frozenset[UserName] = frozenset()

    def account(self, name: AccountName) -> Account | None:
        if name == ROOT and name not in self.accounts:
            return Account(name=ROOT, parent=None)
        return self.accounts.get(name)

    def lineage(self, name: AccountName) -> tuple[Account, ...]:
        """An account and those above it, nearest first; one that is not there any more is as if right below the root.

        However the accounts were written down, it ends: none is passed twice.
        """
        return tuple(self._up(name))

    def below(self, name: AccountName) -> frozenset[AccountName]:
        """An account and all below it."""
        under = (it for it in self.accounts if any(above.name == name for above in self.lineage(it)))
        return frozenset({name, *under})

    def allowance(self, name: AccountName) -> ContainerPolicy:
        """The nearest one that is said, of the account or of those above it; where none is, the strictest.

        So is that of an account that is gone: of what was said of it nobody knows.
        """
        if self.account(name) is None:
            return ContainerPolicy()
        said = (it.allowance for it in self.lineage(name) if it.allowance is not None)
        return next(said, ContainerPolicy())

    def held_to(self, owner: Owner) -> ContainerPolicy | None:
        """What the jobs of an owner may have of the machine now: those of whoever is an admin now, anything."""
        user = self.users.get(owner.user)
        return None if user is not None and user.role is Role.ADMIN else self.allowance(owner.account)

    def caller(self, name: UserName, *, key: str = "", request_id: str = "", operation: str = "") -> Caller | None:
        """None for a user that is not there."""
        user = self.users.get(name)
        if user is None:
            return None
        coordinates = frozenset(under for it in user.coordinates for under in self.below(it))
        return Caller(
            user=name,
            account=user.account,
            role=user.role,
            coordinates=coordinates,
            lineage=tuple(it.name for it in self.lineage(user.account)),
            queues=self._queues({user.account, *coordinates}) if user.role is Role.USER else None,
            allowance=self.allowance(user.account),
            key=key,
            request_id=request_id,
            operation=operation,
        )

    def _queues(self, names: Iterable[AccountName]) -> frozenset[QueueName] | None:
        """Of these accounts together: who coordinates one sees where its jobs are. None is all."""
        said = [next((it.queues for it in self.lineage(name) if it.queues is not None), None) for name in names]
        return None if None in said else frozenset(queue for queues in said for queue in queues or ())

    def _up(self, name: AccountName) -> Iterator[Account]:
        passed = {ROOT}
        at: AccountName | None = name
        while at is not None and at not in passed:
            passed.add(at)
            yield (account := self.accounts.get(at, Account(name=at)))
            at = account.parent
        root = self.account(ROOT)
        assert root is not None, "the root is always there"
        yield root
