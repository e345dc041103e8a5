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
    """What is there for somebody who does not reach everything: his own, and what belongs to accounts."""

    user: UserName
    accounts: frozenset[AccountName] = frozenset()

    def has(self, owner: Owner) -> bool:
        return owner.user == self.user or owner.account in self.accounts


class ContainerPolicy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the containers of an account may have of the machine. The server's own settings stand above it.

    `volumes` and `devices` are paths of the host, with all below them. `root` is whether a container may run as root;
    None: only where there are no `volumes`, for root can leave set-uid files there. `vcpus` and `memory_mib` are the
    most that one job may ask for, None as much as there is.
    """

    privileged: bool = False
    devices: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    host_network: bool = False
    root: bool | None = None
    vcpus: float | None = None
    memory_mib: int | None = None
    #: Log drivers of the engine beside json-file and awslogs.
    log_drivers: tuple[str, ...] = ()
    #: Registries of images, each with or without a path; None: all but those on loopback or link-local addresses.
    registries: tuple[str, ...] | None = None

    @property
    def permits_root(self) -> bool:
        return not self.volumes if self.root is None else self.root


class AccountLimits(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Of an account and all below it together; None is without limit.

    `queued` jobs that have not reached STARTING (each child of an array counts), `submits` a second, `vcpus` in use,
    `log_mib` MiB of all stored logs.
    """

    queued: int | None = None
    submits: float | None = None
    vcpus: float | None = None
    log_mib: int | None = None


class Account(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`queues` are those its users may see and use, None those of its parent. `allowance` None is the parent's."""

    name: AccountName
    parent: AccountName | None = ROOT
    queues: tuple[QueueName, ...] | None = None
    allowance: ContainerPolicy | None = None
    limits: AccountLimits = AccountLimits()


class User(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`coordinates`: the accounts he is coordinator of; those below them need not be named."""

    name: UserName
    account: AccountName = ROOT
    role: Role = Role.USER
    coordinates: frozenset[AccountName] = frozenset()


class Caller(Struct, frozen=True, kw_only=True):
    """Whoever asks for something, by which request, and when.

    `lineage` is his account with those above it, nearest first; `coordinates` has the accounts below as well. `queues`
    None is all. `key` is the access key that signed the request, empty where nobody is asked.
    """

    user: UserName
    account: AccountName = ROOT
    role: Role = Role.USER
    coordinates: frozenset[AccountName] = frozenset()
    lineage: tuple[AccountName, ...] = (ROOT,)
    queues: frozenset[QueueName] | None = None
    allowance: ContainerPolicy = ContainerPolicy()
    key: str = ""
    request_id: str = ""
    operation: str = ""
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
    """All accounts but `root`, where nothing is said of that, and all users; by name.

    `gone` are names that users had who were deleted: what they left behind belongs to whoever has the name.
    """

    accounts: Mapping[AccountName, Account] = field(default_factory=dict)
    users: Mapping[UserName, User] = field(default_factory=dict)
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
