"""`batchq key ...`: creates, lists, disables, enables and deletes access keys."""

import argparse
import re
from datetime import UTC, datetime
from shlex import quote

from batchq.cli.admin_backend import Told, add_deed, add_json, ask, given, show
from batchq.cli.output import note
from batchq.errors import Unavailable

_KEY = re.compile(r"[A-Za-z0-9+/=_-]+")


def add(command: argparse.ArgumentParser) -> None:
    """Manage access keys for `batchq serve --auth sigv4`. To replace a key, create another, then delete the old one."""
    deeds = command.add_subparsers(dest="deed", required=True)
    create = add_deed(deeds, "create", "create a key; its secret is printed only once", _create)
    create.add_argument("--user", help="user of the key (with a server: yourself)")
    listed = add_deed(deeds, "list", "list keys, without secrets", _list)
    listed.add_argument("--user", help="keys of this user")
    add_json(listed)
    add_deed(deeds, "disable", "reject requests that are signed with the key", _disable).add_argument("id")
    add_deed(deeds, "enable", "accept requests that are signed with the key again", _enable).add_argument("id")
    add_deed(deeds, "delete", "delete the key", _delete).add_argument("id")


def _create(asked: argparse.Namespace) -> int:
    """Print the key as a shell command, for `eval "$(batchq key create --user me)"`."""
    key = ask(asked, "CreateKey", given(asked, "user"))
    if key["firstUser"]:
        note(f"{key['user']} is the first user, with the role ADMIN")
    print(f"export AWS_ACCESS_KEY_ID={_quoted(key['id'])} AWS_SECRET_ACCESS_KEY={_quoted(key['secret'])}")
    return 0


def _quoted(part: object) -> str:
    """Quote an id or secret for the shell that evaluates the output. Raises Unavailable if it has other characters."""
    if not isinstance(part, str) or _KEY.fullmatch(part) is None:
        raise Unavailable("the response of the server contains no valid access key; nothing is printed")
    return quote(part)


def _list(asked: argparse.Namespace) -> int:
    told = ask(asked, "ListKeys", given(asked, "user"))
    return show(asked, told, [_told(it) for it in told["keys"]])


def _disable(asked: argparse.Namespace) -> int:
    ask(asked, "UpdateKey", {"id": asked.id, "state": "DISABLED"})
    return 0


def _enable(asked: argparse.Namespace) -> int:
    ask(asked, "UpdateKey", {"id": asked.id, "state": "ACTIVE"})
    return 0


def _delete(asked: argparse.Namespace) -> int:
    ask(asked, "DeleteKey", {"id": asked.id})
    return 0


def _told(key: Told) -> str:
    created = datetime.fromtimestamp(key["createdAt"] / 1000, UTC)
    return f"{key['id']}  {key['state']:8}  {created:%Y-%m-%d %H:%M}  {key['user']}"
