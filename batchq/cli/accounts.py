"""`batchq account`, `user` and `key`: manage accounts with their policies and limits, users, roles and access keys."""

import argparse
import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from functools import partial
from shlex import quote
from typing import Final

from msgspec import to_builtins

from batchq.cli.admin_backend import add_subcommand, given_flags, perform
from batchq.cli.other_tools import FLAG_OF_WORD
from batchq.cli.output import print_notice, write_line
from batchq.cli.quantities import NONE, comma_list, or_none, yes_or_no
from batchq.cli.tables import (
    Column,
    add_form_flag,
    add_output_flags,
    print_list,
    print_result,
    text_column,
    time_column,
)
from batchq.errors import Unavailable
from batchq.ports.responses import accounts
from batchq.ports.responses.server import EmptyResponse
from batchq.system.escapes import escape

Flags = Mapping[str, tuple[str, Callable[[str], object], str, str]]
ROLES = ("user", "operator", "admin")

# Each flag by the member of the request that it sets: flag, parser, metavar, help text.
_CONTAINER_POLICY: Final[Flags] = {
    "privileged": (
        "--privileged",
        yes_or_no,
        "YES|NO",
        "whether containers may be privileged: such a container controls the host",
    ),
    "devices": ("--devices", comma_list, "PATHS", "host devices that containers may use, comma-separated"),
    "volumes": (
        "--volumes",
        comma_list,
        "PATHS",
        "host paths that containers may mount, with all paths below them, comma-separated",
    ),
    "hostNetwork": ("--host-network", yes_or_no, "YES|NO", "whether containers may use the network of the host"),
    "engineSocket": (
        "--engine-socket",
        yes_or_no,
        "YES|NO",
        "whether containers may mount the container engine's socket: such a container is root on the machine",
    ),
    "root": ("--root-user", yes_or_no, "YES|NO", "whether containers may run as root (yes; with --volumes: no)"),
    "execAllowed": ("--exec", yes_or_no, "YES|NO", "whether users may run commands in running containers (yes)"),
    "logDrivers": (
        "--log-drivers",
        comma_list,
        "NAMES",
        "log drivers in addition to json-file and awslogs, comma-separated",
    ),
    "registries": (
        "--registries",
        or_none(comma_list),
        "NAMES",
        "registries of images, comma-separated; none: all remote ones",
    ),
    "vcpus": ("--job-vcpus", or_none(float), "N", "maximum vCPUs of one job, or none"),
    "memoryMib": ("--job-memory", or_none(int), "MIB", "maximum memory of one job in MiB, or none"),
}

_LIMITS: Final[Flags] = {
    "queued": ("--queued", or_none(int), "N", "maximum number of jobs that have not started, or none"),
    "submits": ("--submits", or_none(float), "N", "maximum number of submitted jobs a second, or none"),
    "vcpus": ("--vcpus", or_none(float), "N", "maximum vCPUs in use, or none"),
    "logMib": ("--log-mib", or_none(int), "MIB", "maximum size of the stored logs in MiB, or none"),
}
_USER_COLUMNS: tuple[Column[accounts.UserResponse], ...] = (
    text_column("USER", lambda user: user.name),
    text_column("ROLE", lambda user: user.role),
    text_column("ACCOUNT", lambda user: user.account),
    text_column("COORDINATES", lambda user: ",".join(user.coordinates), elastic=True),
)
_KEY_COLUMNS: tuple[Column[accounts.KeyResponse], ...] = (
    text_column("KEY", lambda key: key.id),
    text_column("STATE", lambda key: key.state),
    time_column("CREATED", lambda key: key.created_at),
    text_column("USER", lambda key: key.user),
)
_KEY = re.compile(r"[A-Za-z0-9+/=_-]+")


def add_account(command: ArgumentParser) -> None:
    """Accounts form a tree below `root`. Accounts inherit what they do not set; limits include all accounts below."""
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    for name, summary, operation in (
        ("add", "create an account", "CreateAccount"),
        ("set", "change the settings whose flags are given", "UpdateAccount"),
    ):
        _add_account_flags(add_subcommand(subcommands, name, summary, partial(_save_account, operation)))
    summary = "delete an account without users and accounts below it; its jobs remain"
    add_subcommand(subcommands, "delete", summary, partial(_delete, "DeleteAccount")).add_argument("name")
    add_form_flag(add_subcommand(subcommands, "list", "list all accounts", _list_accounts))
    show = add_subcommand(
        subcommands, "show", "show an account with the queues and the policy in effect", _list_accounts
    )
    show.add_argument("name")
    add_form_flag(show)


def _add_account_flags(command: ArgumentParser) -> None:
    """Declare the flags. A flag that is not given leaves no attribute, so that only given members are sent."""
    command.argument_default = argparse.SUPPRESS
    command.add_argument("name")
    command.add_argument("--parent", help="parent account (root)")
    command.add_argument(
        "--queues",
        type=or_none(comma_list),
        help="queues that its users may see and use, comma-separated; none: those of its parent",
    )
    command.add_argument("--allowance", choices=[NONE], help="none: inherit the container policy of its parent")
    for member, title, flags in (
        ("allowance", "container policy", _CONTAINER_POLICY),
        ("limits", "limits of this account and all accounts below it together", _LIMITS),
    ):
        group = command.add_argument_group(title)
        for name, (flag, parse, metavar, text) in flags.items():
            group.add_argument(flag, dest=f"{member}.{name}", type=parse, metavar=metavar, help=text)


def _account_request(args: Namespace) -> dict[str, object]:
    """The body of the request: the members whose flags are given."""
    given = vars(args)
    request: dict[str, object] = {name: given[name] for name in ("name", "parent", "queues") if name in given}
    for member in ("allowance", "limits"):
        inner = {name.partition(".")[2]: value for name, value in given.items() if name.startswith(f"{member}.")}
        if inner:
            request[member] = inner
    return request | ({"allowance": None} if "allowance" in given else {})


def _save_account(operation: str, args: Namespace) -> None:
    account = perform(args, operation, _account_request(args), answer=accounts.AccountResponse)
    write_line(escape(_render_account(account)))


def _delete(operation: str, args: Namespace) -> None:
    perform(args, operation, {"name": args.name}, answer=EmptyResponse)


def _list_accounts(args: Namespace) -> None:
    result = perform(args, "DescribeAccounts", given_flags(args, "name"), answer=accounts.AccountsResponse)
    print_result(args, result, map(_render_account, result.accounts))


def _render_account(account: accounts.AccountResponse) -> str:
    """A line with the queues and policy in effect and the account's own limits, under the names of the flags."""
    queues = account.in_effect.queues
    settings = [
        "all queues" if queues is None else f"queues {','.join(queues) or NONE}",
        *_render_settings(account.in_effect.allowance, _CONTAINER_POLICY),
        *_render_settings(account.limits, _LIMITS),
    ]
    below = f" below {account.parent}" if account.parent else ""
    return f"{account.name}{below}: {'; '.join(settings)}"


def _render_settings(settings: accounts.PolicyResponse | accounts.LimitsResponse, flags: Flags) -> list[str]:
    """The members that are set, under the names of their flags."""
    members = to_builtins(settings).items()
    return [f"{flags[name][0][2:]} {_word(value)}" for name, value in members if value not in ((), None)]


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def add_user(command: ArgumentParser) -> None:
    """A user belongs to an account. Coordinators manage the users and jobs of their accounts and of those below."""
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    for name, summary, operation in (
        ("add", "create a user; `batchq key create` creates the key", "CreateUser"),
        ("set", "change the settings whose flags are given", "UpdateUser"),
    ):
        _add_user_flags(add_subcommand(subcommands, name, summary, partial(_save_user, operation)))
    summary = "delete a user and the user's keys; the jobs remain"
    add_subcommand(subcommands, "delete", summary, partial(_delete, "DeleteUser")).add_argument("name")
    add_output_flags(add_subcommand(subcommands, "list", "list all users", _list_users))
    show = add_subcommand(subcommands, "show", "show a user", _list_users)
    show.add_argument("name")
    add_output_flags(show)


def _add_user_flags(command: ArgumentParser) -> None:
    command.add_argument("name")
    command.add_argument("--account", help="account of the user and of later jobs (a new user: root, or your own)")
    command.add_argument(
        "--role", choices=ROLES, help="operators may see and stop all jobs, admins may do everything (user)"
    )
    command.add_argument(
        "--coordinates",
        type=comma_list,
        metavar="ACCOUNTS",
        help="accounts whose coordinator the user is, comma-separated",
    )


def _save_user(operation: str, args: Namespace) -> None:
    request = given_flags(args, "name", "account", "role", "coordinates")
    request |= {"role": args.role.upper()} if args.role else {}
    user = perform(args, operation, request, answer=accounts.UserResponse)
    also = f"  coordinates {','.join(user.coordinates)}" if user.coordinates else ""
    write_line(escape(f"{user.name:16}  {user.role:8}  {user.account}{also}"))


def _list_users(args: Namespace) -> None:
    result = perform(args, "DescribeUsers", given_flags(args, "name"), answer=accounts.UsersResponse)
    print_list(args, result, result.users, _USER_COLUMNS)


def add_key(command: ArgumentParser) -> None:
    """Manage access keys for `batchq serve --auth sigv4`. To replace a key, create another, then delete the old one."""
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    create = add_subcommand(subcommands, "create", "create a key; its secret is printed only once", _create_key)
    create.add_argument("--user", help="user of the key (with a server: yourself)")
    create.set_defaults(**{FLAG_OF_WORD: "--user"})
    listing = add_subcommand(subcommands, "list", "list keys, without secrets", _list_keys)
    listing.add_argument("--user", help="keys of this user")
    listing.set_defaults(**{FLAG_OF_WORD: "--user"})
    add_output_flags(listing)
    for name, summary, change in (
        ("disable", "reject requests that are signed with the key", ("UpdateKey", {"state": "DISABLED"})),
        ("enable", "accept requests that are signed with the key again", ("UpdateKey", {"state": "ACTIVE"})),
        ("delete", "delete the key", ("DeleteKey", {})),
    ):
        each = add_subcommand(subcommands, name, summary, _change_key)
        each.set_defaults(change=change)
        each.add_argument("id")


def _create_key(args: Namespace) -> None:
    """Print the key as a shell command, for `eval "$(batchq key create --user me)"`."""
    key = perform(args, "CreateKey", given_flags(args, "user"), answer=accounts.NewKeyResponse)
    if key.first_user:
        print_notice(f"{key.user} is the first user, with the role ADMIN")
    print(f"export AWS_ACCESS_KEY_ID={_quoted(key.id)} AWS_SECRET_ACCESS_KEY={_quoted(key.secret)}")


def _quoted(part: str) -> str:
    """Quote an id or secret for the shell that evaluates the output. Raises Unavailable if it has other characters."""
    if _KEY.fullmatch(part) is None:
        raise Unavailable("the response of the server contains no valid access key; nothing is printed")
    return quote(part)


def _list_keys(args: Namespace) -> None:
    result = perform(args, "ListKeys", given_flags(args, "user"), answer=accounts.KeysResponse)
    print_list(args, result, result.keys, _KEY_COLUMNS)


def _change_key(args: Namespace) -> None:
    operation, members = args.change
    perform(args, operation, {"id": args.id, **members}, answer=EmptyResponse)
