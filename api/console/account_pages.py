"""The page of accounts, users and access keys, as far as the caller may see them."""

import asyncio
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from batchq.accounts.admin import can_see_key
from batchq.accounts.files import AccessKey
from batchq.api.console.pages import Page, PageTable
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain import wording
from batchq.domain.access.accounts import ROOT, Account, AccountLimits, AccountName, Caller, Directory, Permission
from batchq.domain.access.permissions import may_see_account, may_see_user
from batchq.domain.budgets import BudgetScope
from batchq.services.overview import AccountUse

MAX_ROWS = 500  # of each table
pages = PageTable()


class AccountRow(Struct, frozen=True, kw_only=True):
    """An account of the tree. Its figures include the accounts below it."""

    account: Account
    #: The names from the highest visible account to this one.
    path: tuple[AccountName, ...]
    #: The limits of the account, as text.
    limits: tuple[str, ...]
    use: AccountUse


@pages.get("/accounts", Permission.SELF)
async def accounts_page(parts: Parts, visit: Call[None]) -> Page:
    """Users see themselves and their keys, coordinators the users and keys of their accounts, operators all."""
    caller = visit.caller
    directory, keys = await asyncio.to_thread(_read, parts)
    manages = caller.has(Permission.ACCOUNTS)
    users = [user for _, user in sorted(directory.users.items()) if may_see_user(caller, user)]
    budgets = parts.budgets.list(caller=caller) if manages else ()
    values = {
        "directory": directory,
        "accounts": list(_tree(parts, directory, caller)) if manages else [],
        "users": users[:MAX_ROWS],
        "keys": [key for key in keys if can_see_key(directory, key, caller)][:MAX_ROWS],
        "more_users": max(0, len(users) - MAX_ROWS),
        "budgets": {
            status.budget.key.name: status for status in budgets if status.budget.key.scope is BudgetScope.ACCOUNT
        },
        "own_limits": [(account.name, _limits(account.limits)) for account in directory.lineage(caller.account)],
        "manages": manages,
    }
    return Page(template="accounts.html", title="Accounts", values=values)


def _read(parts: Parts) -> tuple[Directory, tuple[AccessKey, ...]]:
    """All accounts and users, and all keys without their secrets."""
    keys = tuple(replace(key, secret="") for key in parts.accounts.keys.all())
    return parts.accounts.accounts.load(), keys


def _tree(parts: Parts, directory: Directory, caller: Caller) -> Iterator[AccountRow]:
    """The visible accounts, each followed by those below it."""
    names = sorted({ROOT, *directory.accounts})
    visible = [name for name in names if may_see_account(caller, name)]
    paths = {name: _path(directory, name, caller) for name in visible}
    for name in sorted(visible, key=paths.__getitem__)[:MAX_ROWS]:
        account = directory.account(name)
        assert account is not None, "it is listed"
        yield AccountRow(
            account=account,
            path=paths[name],
            limits=_limits(account.limits),
            use=parts.overviews.account_use(directory.below(name)),
        )


def _path(directory: Directory, name: AccountName, caller: Caller) -> tuple[AccountName, ...]:
    above = [account.name for account in directory.lineage(name) if may_see_account(caller, account.name)]
    return tuple(reversed(above))


def _limits(limits: AccountLimits) -> tuple[str, ...]:
    """The limits that are set."""
    texts = (
        None if limits.vcpus is None else f"{limits.vcpus:g} vCPUs in use",
        None if limits.queued is None else f"{wording.number(limits.queued)} waiting jobs",
        None if limits.submits is None else f"{limits.submits:g} submissions a second",
        None if limits.log_mib is None else f"{wording.memory_words(limits.log_mib)} of logs",
    )
    return tuple(text for text in texts if text is not None)
