"""`batchq user ...`: manages users, their accounts and their roles."""

import argparse

from batchq.cli.admin_backend import Told, add_deed, add_json, ask, given, show
from batchq.cli.arguments import listed

ROLES = ("user", "operator", "admin")


def add(command: argparse.ArgumentParser) -> None:
    """A user belongs to an account. Coordinators manage the users and jobs of their accounts and of those below."""
    deeds = command.add_subparsers(dest="deed", required=True)
    _about(add_deed(deeds, "add", "a new user; `batchq key create` gives him a key", _add))
    _about(add_deed(deeds, "set", "change what is said, and nothing else", _set))
    add_deed(deeds, "delete", "he and his keys are gone; his jobs stay", _delete).add_argument("name")
    add_json(add_deed(deeds, "list", "all users", _list))
    shown = add_deed(deeds, "show", "one user", _list)
    shown.add_argument("name")
    add_json(shown)


def _about(deed: argparse.ArgumentParser) -> None:
    deed.add_argument("name")
    deed.add_argument("--account", help="which he is of, and his jobs are (a new one: root, or your own)")
    deed.add_argument("--role", choices=ROLES, help="operators see and stop all jobs, admins may do everything (user)")
    deed.add_argument("--coordinates", type=listed, metavar="ACCOUNTS", help="coordinator of these, between commas")


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
