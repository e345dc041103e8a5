"""`batchq key ...`: creates, lists, disables, enables and deletes access keys."""

import re
from argparse import ArgumentParser, Namespace
from datetime import UTC, datetime
from shlex import quote

from batchq.cli.admin_backend import Response, add_json, add_subcommand, given_flags, perform, print_result
from batchq.cli.output import print_notice
from batchq.errors import Unavailable

_KEY = re.compile(r"[A-Za-z0-9+/=_-]+")


def add_key(command: ArgumentParser) -> None:
    """Manage access keys for `batchq serve --auth sigv4`. To replace a key, create another, then delete the old one."""
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    create = add_subcommand(subcommands, "create", "create a key; its secret is printed only once", _create)
    create.add_argument("--user", help="user of the key (with a server: yourself)")
    listing = add_subcommand(subcommands, "list", "list keys, without secrets", _list)
    listing.add_argument("--user", help="keys of this user")
    add_json(listing)
    for name, summary, run in (
        ("disable", "reject requests that are signed with the key", _disable),
        ("enable", "accept requests that are signed with the key again", _enable),
        ("delete", "delete the key", _delete),
    ):
        add_subcommand(subcommands, name, summary, run).add_argument("id")


def _create(args: Namespace) -> int:
    """Print the key as a shell command, for `eval "$(batchq key create --user me)"`."""
    key = perform(args, "CreateKey", given_flags(args, "user"))
    if key["firstUser"]:
        print_notice(f"{key['user']} is the first user, with the role ADMIN")
    print(f"export AWS_ACCESS_KEY_ID={_quoted(key['id'])} AWS_SECRET_ACCESS_KEY={_quoted(key['secret'])}")
    return 0


def _quoted(part: object) -> str:
    """Quote an id or secret for the shell that evaluates the output. Raises Unavailable if it has other characters."""
    if not isinstance(part, str) or _KEY.fullmatch(part) is None:
        raise Unavailable("the response of the server contains no valid access key; nothing is printed")
    return quote(part)


def _list(args: Namespace) -> int:
    result = perform(args, "ListKeys", given_flags(args, "user"))
    return print_result(args, result, [_render(it) for it in result["keys"]])


def _disable(args: Namespace) -> int:
    perform(args, "UpdateKey", {"id": args.id, "state": "DISABLED"})
    return 0


def _enable(args: Namespace) -> int:
    perform(args, "UpdateKey", {"id": args.id, "state": "ACTIVE"})
    return 0


def _delete(args: Namespace) -> int:
    perform(args, "DeleteKey", {"id": args.id})
    return 0


def _render(key: Response) -> str:
    created = datetime.fromtimestamp(key["createdAt"] / 1000, UTC)
    return f"{key['id']}  {key['state']:8}  {created:%Y-%m-%d %H:%M}  {key['user']}"
