"""Account limits: each applies to an account and all accounts below it together. Pure."""

from collections.abc import Mapping

from batchq.domain.access.accounts import ROOT, Account, AccountLimits, AccountName, Directory
from batchq.domain.enums import FINISHED, QUEUED
from batchq.domain.job import Job
from batchq.domain.lifecycle.arrays import is_parent, unspawned

NO_LIMITS = AccountLimits()


class Quotas:
    """The limits of all accounts, computed once from a directory. The root's limits apply to deleted accounts.

    `limited`: the accounts with limits, by name. `millicpus`: the vCPU limits, in thousandths, by account.
    """

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        limited = (account for name in {*directory.accounts, ROOT} if (account := directory.account(name)) is not None)
        self.limited: Mapping[AccountName, Account] = {
            account.name: account for account in limited if account.limits != NO_LIMITS
        }
        self._on: dict[AccountName, tuple[Account, ...]] = {}
        self._on_millicpus: dict[AccountName, tuple[AccountName, ...]] = {}
        self.millicpus: Mapping[AccountName, int] = {
            name: int(account.limits.vcpus * 1000)
            for name, account in self.limited.items()
            if account.limits.vcpus is not None
        }

    def on(self, name: AccountName) -> tuple[Account, ...]:
        """The accounts whose limits apply to this account: itself and those above it, nearest first."""
        if not self.limited:
            return ()
        if name not in self._on:
            self._on[name] = tuple(account for account in self.directory.lineage(name) if account.name in self.limited)
        return self._on[name]

    def on_millicpus(self, name: AccountName) -> tuple[AccountName, ...]:
        """The accounts whose vCPU limits apply to this account, nearest first."""
        if not self.millicpus:
            return ()
        if name not in self._on_millicpus:
            self._on_millicpus[name] = tuple(
                account.name for account in self.on(name) if account.name in self.millicpus
            )
        return self._on_millicpus[name]


NO_QUOTAS = Quotas(Directory())


class ClosedAccounts:
    """The accounts whose jobs cannot start any more in this unit of work, because a limit is reached.

    `names`: the names of those accounts and of all accounts below them.
    """

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._closed: set[AccountName] = set()
        self.names: frozenset[AccountName] = frozenset()

    @property
    def everyone(self) -> bool:
        """Whether the root is closed, and so every account, deleted ones included."""
        return ROOT in self._closed

    def close(self, name: AccountName) -> None:
        """Close an account and all accounts below it."""
        if name not in self._closed:
            self._closed.add(name)
            self.names |= self._quotas.directory.below(name)

    def has(self, account: AccountName) -> bool:
        """Whether the account is closed."""
        return bool(self._closed) and (self.everyone or account in self.names)


def queued_jobs(job: Job) -> int:
    """How many queued jobs the job counts as: an array counts as the children that it has not spawned yet."""
    if not is_parent(job):
        return int(job.status in QUEUED)
    return 0 if job.status in FINISHED else unspawned(job)


def created_jobs(array_size: int | None) -> int:
    """How many queued jobs a new job counts as; `array_size` None: it is not an array."""
    return 1 if array_size is None else array_size


def quota_exceeded(account: Account, *, queued: int, more: int) -> str | None:
    """Why `more` jobs may not be submitted to an account with `queued` queued jobs; None if they may."""
    most = account.limits.queued
    if most is None or queued + more <= most:
        return None
    jobs = "job" if more == 1 else "jobs"
    return (
        f"Account {account.name} and the accounts below it may have {most} queued jobs together: "
        f"they have {queued}, and {more} more {jobs} cannot be accepted."
    )
