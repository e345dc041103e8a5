"""The operations on accounts, users and keys: request model, required permission and function. The functions block."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from batchq.accounts import wire
from batchq.accounts.admin import AccountAdmin, can_see_key, require_visible_account, require_visible_user
from batchq.accounts.files import account_name, machine_user, user_name
from batchq.domain.access import permissions
from batchq.domain.access.accounts import (
    ROOT,
    Account,
    AccountName,
    Caller,
    ContainerPolicy,
    Directory,
    Permission,
    User,
    UserName,
)
from batchq.domain.access.permissions import (
    manages,
    may_name_user,
    may_see_account,
    may_see_user,
    may_store_account,
    may_store_user,
)
from batchq.domain.ids import QueueName
from batchq.errors import Forbidden, Invalid
from batchq.ports.responses.accounts import (
    AccountResponse,
    AccountsResponse,
    CallerResponse,
    KeysResponse,
    NewKeyResponse,
    UserResponse,
    UsersResponse,
)
from batchq.ports.responses.server import EmptyResponse

RequestT = TypeVar("RequestT", bound=wire.AdminRequest)


class AdminOperation(Struct, Generic[RequestT], frozen=True):
    """An operation of administrators, for requests to a server and for commands on the files."""

    #: The model of the request's body.
    request: type[RequestT]
    #: The permission that a server checks before it parses the request.
    permission: Permission
    #: Raises Invalid, of which NotFound and Forbidden are subclasses, and Unavailable.
    perform: Callable[[AccountAdmin, RequestT, Caller], Struct]
    #: What `perform` returns.
    answer: type[Struct]

    @property
    def summary(self) -> str:
        """What the operation does: one sentence, the first line of the documentation of `perform`."""
        return (self.perform.__doc__ or "").partition("\n")[0]

    @property
    def reads_only(self) -> bool:
        """Whether the operation changes nothing; only such operations accept unsigned requests."""
        return self.perform in {describe_accounts, describe_users, list_keys, who_am_i}


OPERATIONS: dict[str, AdminOperation[Any]] = {}
"""By name. Filled by the functions below."""

Perform = Callable[[AccountAdmin, RequestT, Caller], Struct]


def _operation(
    name: str, request: type[RequestT], permission: Permission, answer: type[Struct]
) -> Callable[[Perform[RequestT]], Perform[RequestT]]:
    """Decorator that adds a function to OPERATIONS; the arguments are the members of AdminOperation."""

    def add(perform: Perform[RequestT]) -> Perform[RequestT]:
        OPERATIONS[name] = AdminOperation(request, permission, perform, answer)
        return perform

    return add


@_operation("CreateAccount", wire.SetAccount, Permission.CATALOG, AccountResponse)
def create_account(admin: AccountAdmin, request: wire.SetAccount, caller: Caller) -> Struct:
    """Creates an account below another one."""
    name = account_name(request.name)

    def change(directory: Directory) -> Directory:
        if directory.account(name) is not None:
            raise Invalid(f"account {name} already exists")
        return _with_settings(directory, request, Account(name=name), None, caller)

    return _account_response(admin.change(caller, f"account/{name}", change), name)


@_operation("UpdateAccount", wire.SetAccount, Permission.CATALOG, AccountResponse)
def update_account(admin: AccountAdmin, request: wire.SetAccount, caller: Caller) -> Struct:
    """Changes the given members of an account."""
    name = AccountName(request.name)

    def change(directory: Directory) -> Directory:
        require_visible_account(directory, name, caller)
        before = directory.account(name)
        assert before is not None, "it is known"
        return _with_settings(directory, request, before, before, caller)

    return _account_response(admin.change(caller, f"account/{name}", change), name)


@_operation("DeleteAccount", wire.RequiredName, Permission.CATALOG, EmptyResponse)
def delete_account(admin: AccountAdmin, request: wire.RequiredName, caller: Caller) -> Struct:
    """Deletes an account without users and without accounts below it."""
    name = AccountName(request.name)

    def change(directory: Directory) -> Directory:
        require_visible_account(directory, name, caller)
        return permissions.without_account(directory, name)

    admin.change(caller, f"account/{name}", change)
    return EmptyResponse()


@_operation("DescribeAccounts", wire.OptionalName, Permission.ACCOUNTS, AccountsResponse)
def describe_accounts(admin: AccountAdmin, request: wire.OptionalName, caller: Caller) -> Struct:
    """Describes one account, or all accounts that the caller may see."""
    directory = admin.accounts.load()
    if request.name is not None:
        require_visible_account(directory, AccountName(request.name), caller)
    named = [request.name] if request.name is not None else sorted({ROOT, *directory.accounts})
    found = [
        account
        for name in named
        if (account := directory.account(AccountName(name))) and may_see_account(caller, account.name)
    ]
    return AccountsResponse(accounts=tuple(wire.account_answer(account, directory) for account in found))


@_operation("CreateUser", wire.SetUser, Permission.ACCOUNTS, UserResponse)
def create_user(admin: AccountAdmin, request: wire.SetUser, caller: Caller) -> Struct:
    """Creates a user."""
    user = _with_members(User(name=user_name(request.name), account=caller.account), request)

    def change(directory: Directory) -> Directory:
        if user.name in directory.users:
            raise Invalid(f"user {user.name} already exists")
        if not may_name_user(caller, user.name, {*directory.deleted_users, machine_user()}):
            raise Forbidden(
                f"the new user would own the jobs of an earlier user {user.name}: ask an operator to create it"
            )
        return _with_user(directory, user, None, caller)

    return wire.user_answer(admin.change(caller, f"user/{user.name}", change).users[user.name])


@_operation("UpdateUser", wire.SetUser, Permission.ACCOUNTS, UserResponse)
def update_user(admin: AccountAdmin, request: wire.SetUser, caller: Caller) -> Struct:
    """Changes the given members of a user."""
    name = UserName(request.name)

    def change(directory: Directory) -> Directory:
        before = require_visible_user(directory, name, caller)
        return _with_user(directory, _with_members(before, request), before, caller)

    return wire.user_answer(admin.change(caller, f"user/{name}", change).users[name])


@_operation("DeleteUser", wire.RequiredName, Permission.ACCOUNTS, EmptyResponse)
def delete_user(admin: AccountAdmin, request: wire.RequiredName, caller: Caller) -> Struct:
    """Deletes a user with all keys of the user. The user's jobs remain.

    Delete a user, after the user's keys: they must never be valid for a later user of the same name.
    """
    name = UserName(request.name)

    def change(directory: Directory) -> Directory:
        user = require_visible_user(directory, name, caller)
        if not manages(caller, user):
            raise Forbidden(f"you may not delete user {name}, whose role is {user.role}")
        return permissions.without_user(directory, name)

    admin.change(caller, f"user/{name}", change, then=lambda: admin.keys.delete_keys_of(name))
    return EmptyResponse()


@_operation("DescribeUsers", wire.OptionalName, Permission.ACCOUNTS, UsersResponse)
def describe_users(admin: AccountAdmin, request: wire.OptionalName, caller: Caller) -> Struct:
    """Describes one user, or all users whom the caller may see."""
    directory = admin.accounts.load()
    found: Sequence[User] = [user for _, user in sorted(directory.users.items()) if may_see_user(caller, user)]
    if request.name is not None:
        found = [require_visible_user(directory, UserName(request.name), caller)]
    return UsersResponse(users=tuple(map(wire.user_answer, found)))


@_operation("CreateKey", wire.OptionalUser, Permission.SELF, NewKeyResponse)
def create_key(admin: AccountAdmin, request: wire.OptionalUser, caller: Caller) -> Struct:
    """Creates an access key for a user, by default for the caller.

    Create a key. This is the only operation whose answer contains a secret.
    """
    name = caller.user if request.user is None else user_name(request.user)
    key, is_first = admin.create_key(name, caller)
    return wire.new_key_answer(key, first_user=is_first)


@_operation("UpdateKey", wire.SetKey, Permission.SELF, EmptyResponse)
def update_key(admin: AccountAdmin, request: wire.SetKey, caller: Caller) -> Struct:
    """Enables or disables an access key."""
    admin.set_key(request.id, request.state, caller)
    return EmptyResponse()


@_operation("DeleteKey", wire.KeyId, Permission.SELF, EmptyResponse)
def delete_key(admin: AccountAdmin, request: wire.KeyId, caller: Caller) -> Struct:
    """Deletes an access key."""
    admin.delete_key(request.id, caller)
    return EmptyResponse()


@_operation("ListKeys", wire.ListKeys, Permission.SELF, KeysResponse)
def list_keys(admin: AccountAdmin, request: wire.ListKeys, caller: Caller) -> Struct:
    """Lists the access keys that the caller may see, without their secrets."""
    directory = admin.accounts.load()
    found = [
        key for key in admin.keys.all() if request.user in (None, key.user) and can_see_key(directory, key, caller)
    ]
    if request.user is not None and not found:
        require_visible_user(directory, UserName(request.user), caller)
    return KeysResponse(keys=tuple(map(wire.key_answer, found)))


@_operation("WhoAmI", wire.EmptyRequest, Permission.SELF, CallerResponse)
def who_am_i(admin: AccountAdmin, _: wire.EmptyRequest, caller: Caller) -> Struct:
    """Returns the identity of the caller, and what applies to it."""
    return wire.caller_answer(caller, admin.accounts.load())


def _account_response(directory: Directory, name: AccountName) -> Struct:
    account = directory.account(name)
    assert account is not None, "it was just written"
    return wire.account_answer(account, directory)


def _with_settings(
    directory: Directory, request: wire.SetAccount, account: Account, before: Account | None, caller: Caller
) -> Directory:
    """Apply the members set in the request to `account`. `before` is the stored account, None for a new one."""
    given = request.model_fields_set
    if "parent" in given:
        above = None if account.name == ROOT else ROOT
        account = replace(account, parent=above if request.parent is None else AccountName(request.parent))
    if "queues" in given:
        account = replace(account, queues=None if request.queues is None else tuple(map(QueueName, request.queues)))
    if "allowance" in given:
        allowance = None if request.allowance is None else _allowance(directory, account, request.allowance)
        account = replace(account, allowance=allowance)
    if "limits" in given:
        limits = request.limits
        given_limits = {name: getattr(limits, name) for name in limits.model_fields_set}
        account = replace(account, limits=replace(account.limits, **given_limits))
    if not may_store_account(caller, account, before):
        raise Forbidden("only admins may change the container policy of an account")
    return permissions.with_account(directory, account)


def _allowance(directory: Directory, account: Account, request: wire.SetAllowance) -> ContainerPolicy:
    """The requested policy. A member that is not set keeps the value in effect, which may be an inherited one."""
    at = directory.allowance(account.name if directory.account(account.name) else account.parent or ROOT)
    for path in (*request.devices, *request.volumes):
        if not path.startswith("/") or ".." in path.split("/") or "\0" in path:
            raise Invalid(f"{path} is not an absolute path without `..`")
    given = {name: getattr(request, name) for name in request.model_fields_set}
    for listed in {name for name, value in given.items() if isinstance(value, list)}:
        given[listed] = tuple(given[listed])
    return replace(at, **given)


def _with_members(user: User, request: wire.SetUser) -> User:
    """The user with the members that are set in the request."""
    given = request.model_fields_set
    if "account" in given and request.account is not None:
        user = replace(user, account=AccountName(request.account))
    if "role" in given:
        user = replace(user, role=request.role)
    if "coordinates" in given:
        user = replace(user, coordinates=frozenset(map(AccountName, request.coordinates)))
    return user


def _with_user(directory: Directory, user: User, before: User | None, caller: Caller) -> Directory:
    """The directory with a new or changed user. `before` is the stored user, None for a new one. Raises Invalid."""
    for name in (user.account, *sorted(user.coordinates)):
        if not caller.reaches_all:
            require_visible_account(directory, name, caller)
    if not may_store_user(caller, user, before):
        raise Forbidden(f"you lack the permission to create or change user {user.name} with this account and role")
    return permissions.with_user(directory, user)
