"""The operations on accounts, users and keys: request model, required permission and function. The functions block."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from batchq.accounts import requests, responses
from batchq.accounts.accounts_file import account_name, machine_user, user_name
from batchq.accounts.admin import AccountAdmin, must_know_account, must_know_user
from batchq.domain.access import permissions
from batchq.domain.access.accounts import (
    ROOT,
    Account,
    AccountLimits,
    AccountName,
    Caller,
    ContainerPolicy,
    Directory,
    Permission,
    User,
    UserName,
)
from batchq.domain.access.permissions import (
    knows_account,
    knows_user,
    manages,
    may_make,
    may_name,
    may_set,
)
from batchq.domain.ids import QueueName
from batchq.errors import Forbidden, Invalid

Answer = Mapping[str, object]
Said = TypeVar("Said", bound=requests.AdminRequest)


class AdminOperation(Struct, Generic[Said], frozen=True):
    """An operation of administrators, for requests to a server and for commands on the files."""

    #: The model of the request's body.
    shape: type[Said]
    #: The permission that a server checks before it parses the request.
    right: Permission
    #: Raises Invalid, of which NotFound and Forbidden are subclasses, and Unavailable.
    do: Callable[[AccountAdmin, Said, Caller], Answer]

    @property
    def reads_only(self) -> bool:
        """Whether the operation changes nothing; only such operations accept unsigned requests."""
        return self.do in {describe_accounts, describe_users, list_keys, who_am_i}


def create_account(office: AccountAdmin, said: requests.SetAccount, caller: Caller) -> Answer:
    name = account_name(said.name)

    def change(people: Directory) -> Directory:
        if people.account(name) is not None:
            raise Invalid(f"account {name} already exists")
        return _set(people, said, Account(name=name), None, caller)

    return _account(office.change(caller, f"account/{name}", change), name)


def update_account(office: AccountAdmin, said: requests.SetAccount, caller: Caller) -> Answer:
    name = AccountName(said.name)

    def change(people: Directory) -> Directory:
        must_know_account(people, name, caller)
        before = people.account(name)
        assert before is not None, "it is known"
        return _set(people, said, before, before, caller)

    return _account(office.change(caller, f"account/{name}", change), name)


def delete_account(office: AccountAdmin, said: requests.RequiredName, caller: Caller) -> Answer:
    name = AccountName(said.name)

    def change(people: Directory) -> Directory:
        must_know_account(people, name, caller)
        return permissions.without_account(people, name)

    office.change(caller, f"account/{name}", change)
    return {}


def describe_accounts(office: AccountAdmin, said: requests.OptionalName, caller: Caller) -> Answer:
    people = office.people.now()
    if said.name is not None:
        must_know_account(people, AccountName(said.name), caller)
    named = [said.name] if said.name is not None else sorted({ROOT, *people.accounts})
    found = [it for name in named if (it := people.account(AccountName(name))) and knows_account(caller, it.name)]
    return {"accounts": [responses.account(it, people) for it in found]}


def create_user(office: AccountAdmin, said: requests.SetUser, caller: Caller) -> Answer:
    user = _changed(User(name=user_name(said.name), account=caller.account), said)

    def change(people: Directory) -> Directory:
        if user.name in people.users:
            raise Invalid(f"user {user.name} already exists")
        if not may_name(caller, user.name, {*people.gone, machine_user()}):
            raise Forbidden(
                f"the new user would own the jobs of an earlier user {user.name}: ask an operator to create it"
            )
        return _with_user(people, user, None, caller)

    return responses.user(office.change(caller, f"user/{user.name}", change).users[user.name])


def update_user(office: AccountAdmin, said: requests.SetUser, caller: Caller) -> Answer:
    name = UserName(said.name)

    def change(people: Directory) -> Directory:
        before = must_know_user(people, name, caller)
        return _with_user(people, _changed(before, said), before, caller)

    return responses.user(office.change(caller, f"user/{name}", change).users[name])


def delete_user(office: AccountAdmin, said: requests.RequiredName, caller: Caller) -> Answer:
    """Delete a user, after the user's keys: they must never be valid for a later user of the same name."""
    name = UserName(said.name)

    def change(people: Directory) -> Directory:
        user = must_know_user(people, name, caller)
        if not manages(caller, user):
            raise Forbidden(f"you may not delete user {name}, whose role is {user.role}")
        return permissions.without_user(people, name)

    office.change(caller, f"user/{name}", change, then=lambda: office.keys.delete_of(name))
    return {}


def describe_users(office: AccountAdmin, said: requests.OptionalName, caller: Caller) -> Answer:
    people = office.people.now()
    found: Sequence[User] = [it for _, it in sorted(people.users.items()) if knows_user(caller, it)]
    if said.name is not None:
        found = [must_know_user(people, UserName(said.name), caller)]
    return {"users": [responses.user(it) for it in found]}


def create_key(office: AccountAdmin, said: requests.OptionalUser, caller: Caller) -> Answer:
    """Create a key. This is the only operation whose response contains a secret."""
    name = caller.user if said.user is None else user_name(said.user)
    key, first = office.give_key(name, caller)
    return {**responses.key(key), "secret": key.secret, "firstUser": first}


def update_key(office: AccountAdmin, said: requests.SetKey, caller: Caller) -> Answer:
    office.set_key(said.id, said.state, caller)
    return {}


def delete_key(office: AccountAdmin, said: requests.KeyId, caller: Caller) -> Answer:
    office.delete_key(said.id, caller)
    return {}


def list_keys(office: AccountAdmin, said: requests.ListKeys, caller: Caller) -> Answer:
    people = office.people.now()
    found = [it for it in office.keys.all() if said.user in (None, it.user) and office.knows_key(people, it, caller)]
    if said.user is not None and not found:
        must_know_user(people, UserName(said.user), caller)
    return {"keys": [responses.key(it) for it in found]}


def who_am_i(office: AccountAdmin, _: requests.EmptyRequest, caller: Caller) -> Answer:
    return responses.caller(caller, office.people.now())


OPERATIONS: Mapping[str, AdminOperation[requests.AdminRequest]] = {
    name: AdminOperation(shape, right, do)  # type: ignore[arg-type] # each function takes its own request model
    for name, (shape, right, do) in {
        "CreateAccount": (requests.SetAccount, Permission.GROUND, create_account),
        "UpdateAccount": (requests.SetAccount, Permission.GROUND, update_account),
        "DeleteAccount": (requests.RequiredName, Permission.GROUND, delete_account),
        "DescribeAccounts": (requests.OptionalName, Permission.PEOPLE, describe_accounts),
        "CreateUser": (requests.SetUser, Permission.PEOPLE, create_user),
        "UpdateUser": (requests.SetUser, Permission.PEOPLE, update_user),
        "DeleteUser": (requests.RequiredName, Permission.PEOPLE, delete_user),
        "DescribeUsers": (requests.OptionalName, Permission.PEOPLE, describe_users),
        "CreateKey": (requests.OptionalUser, Permission.OWN, create_key),
        "UpdateKey": (requests.SetKey, Permission.OWN, update_key),
        "DeleteKey": (requests.KeyId, Permission.OWN, delete_key),
        "ListKeys": (requests.ListKeys, Permission.OWN, list_keys),
        "WhoAmI": (requests.EmptyRequest, Permission.OWN, who_am_i),
    }.items()
}


def _account(people: Directory, name: AccountName) -> Answer:
    account = people.account(name)
    assert account is not None, "it was just written"
    return responses.account(account, people)


def _set(
    people: Directory, said: requests.SetAccount, account: Account, before: Account | None, caller: Caller
) -> Directory:
    """Apply the members set in the request to `account`. `before` is the stored account, None for a new one."""
    given = said.model_fields_set
    if "parent" in given:
        above = None if account.name == ROOT else ROOT
        account = replace(account, parent=above if said.parent is None else AccountName(said.parent))
    if "queues" in given:
        account = replace(account, queues=None if said.queues is None else tuple(map(QueueName, said.queues)))
    if "allowance" in given:
        allowance = None if said.allowance is None else _allowance(people, account, said.allowance)
        account = replace(account, allowance=allowance)
    if "limits" in given:
        account = replace(account, limits=_limits(account.limits, said.limits))
    if not may_set(caller, account, before):
        raise Forbidden("only admins may change the container policy of an account")
    return permissions.with_account(people, account)


def _allowance(people: Directory, account: Account, said: requests.SetAllowance) -> ContainerPolicy:
    """The requested policy. A member that is not set keeps the value in effect, which may be an inherited one."""
    at = people.allowance(account.name if people.account(account.name) else account.parent or ROOT)
    for path in (*said.devices, *said.volumes):
        if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise Invalid(f"{path} is not an absolute path without `..`")
    given = {name: getattr(said, name) for name in said.model_fields_set}
    for listed in {name for name, it in given.items() if isinstance(it, list)}:
        given[listed] = tuple(given[listed])
    return replace(at, **given)


def _limits(limits: AccountLimits, said: requests.SetLimits) -> AccountLimits:
    return replace(limits, **{name: getattr(said, name) for name in said.model_fields_set})


def _changed(user: User, said: requests.SetUser) -> User:
    """The user with the members that are set in the request."""
    given = said.model_fields_set
    if "account" in given and said.account is not None:
        user = replace(user, account=AccountName(said.account))
    if "role" in given:
        user = replace(user, role=said.role)
    if "coordinates" in given:
        user = replace(user, coordinates=frozenset(map(AccountName, said.coordinates)))
    return user


def _with_user(people: Directory, user: User, before: User | None, caller: Caller) -> Directory:
    """The directory with a new or changed user. `before` is the stored user, None for a new one. Raises Invalid."""
    for name in (user.account, *sorted(user.coordinates)):
        if not caller.reaches_all:
            must_know_account(people, name, caller)
    if not may_make(caller, user, before):
        raise Forbidden(f"you lack the permission to create or change user {user.name} with this account and role")
    return permissions.with_user(people, user)
