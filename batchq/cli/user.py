"""`batchq user ...`: manages users, their accounts and their roles."""

import argparse

from batchq.cli.admin_backend import Told, add_deed, add_json, ask, given, show
from batchq.cli.arguments import listed

ROLES = ("user", "operator", "admin")


def add(command: argparse.ArgumentParser) -> None:
    """A user belongs to an account. Coordinators manage the users and jobs of their accounts and of those below."""
    deeds = command.add_subparsers(dest="deed", required=True)
    _about(add_deed(deeds, "add", "create a user; `batchq key create` creates the key", _add))
    _about(add_deed(deeds, "set", "change the settings whose flags are given", _set))
    add_deed(deeds, "delete", "delete a user and the user's keys; the jobs remain", _delete).add_argument("name")
    add_json(add_deed(deeds, "list", "list all users", _list))
    shown = add_deed(deeds, "show", "show a user", _list)
    shown.add_argument("name")
    add_json(shown)


def _about(deed: argparse.ArgumentParser) -> None:
    deed.add_argument("name")
    deed.add_argument("--account", help="account of the user and of later jobs (a new user: root, or your own)")
    deed.add_argument(
        "--role", choices=ROLES, help="operators may see and stop all jobs, admins may do everything (user)"
    )
    deed.add_argument(
        "--coordinates", type=listed, metavar="ACCOUNTS", help="accounts whose coordinator the user is, comma-separated"
    )


def _add(asked: argparse.Namespace) -> int:
    return _say(_ask(asked, "CreateUser"))


def _set(asked: argparse.Namespace) -> int:
    return _say(_ask(asked, "UpdateUser"))


def _ask(asked: argparse.Namespace, operation: str) -> Told:
    said = given(asked, "name", "account", "role", "coordinates")
    return ask(asked, operation, said | ({"role": asked.role.upper()} if asked.role else {}))


def _say(user: Told) -> int:
    print(_told(user))
    return 0


def _delete(asked: argparse.Namespace) -> int:
    ask(asked, "DeleteUser", given(asked, "name"))
    return 0


def _list(asked: argparse.Namespace) -> int:
    told = ask(asked, "DescribeUsers", given(asked, "name"))
    return show(asked, told, [_told(it) for it in told["users"]])


def _told(user: Told) -> str:
    also = f"  coordinates {','.join(user['coordinates'])}" if user["coordinates"] else ""
    return f"{user['name']:16}  {user['role']:8}  {user['account']}{also}"
