"""`batchq key ...`: gives out, lists and takes back the keys that requests are signed with, beside a server too."""

import argparse
from pathlib import Path
from typing import Any

from batchq.cli.serve import read
from batchq.clock import wall_time
from batchq.keys import Key, KeyFile, KeyState, new_key
from batchq.people import PeopleFile, user_name


def add(commands: Any) -> None:  # noqa: ANN401 - argparse has no public name for it
    """Keys for `batchq serve --auth sigv4`. To change a key, give its user another, and delete the old one later."""
    command = commands.add_parser("key", help="give out and take back keys", description=add.__doc__)
    deeds = command.add_subparsers(dest="deed", required=True)
    create = _deed(deeds, "create", "a new key; its secret is shown this once", _create)
    create.add_argument("--user", required=True, help="whose it is")
    _deed(deeds, "list", "all keys, without their secrets", _list)
    _deed(deeds, "disable", "refuse what is signed with it, at once", _disable).add_argument("id")
    _deed(deeds, "enable", "take it again", _enable).add_argument("id")
    _deed(deeds, "delete", "forget it", _delete).add_argument("id")


def _deed(deeds: Any, name: str, text: str, run: Any) -> argparse.ArgumentParser:  # noqa: ANN401 - as above
    deed: argparse.ArgumentParser = deeds.add_parser(name, help=text, description=text)
    deed.set_defaults(run=run)
    deed.add_argument("--data", type=Path, help="directory of the database and the keys")
    return deed


def _create(asked: argparse.Namespace) -> int:
    """As lines that a shell understands: `eval "$(batchq key create --user me)"`."""
    data = read(asked).data
    user = PeopleFile(data).must_know(user_name(asked.user))
    key = new_key(user.name, wall_time())
    KeyFile(data).add(key)
    print(f"export AWS_ACCESS_KEY_ID={key.id} AWS_SECRET_ACCESS_KEY={key.secret}")
    return 0


def _list(asked: argparse.Namespace) -> int:
    for key in _keys(asked).all():
        print(_told(key))
    return 0


def _disable(asked: argparse.Namespace) -> int:
    _keys(asked).set_state(asked.id, KeyState.DISABLED)
    return 0


def _enable(asked: argparse.Namespace) -> int:
    _keys(asked).set_state(asked.id, KeyState.ACTIVE)
    return 0


def _delete(asked: argparse.Namespace) -> int:
    _keys(asked).delete(asked.id)
    return 0


def _keys(asked: argparse.Namespace) -> KeyFile:
    return KeyFile(read(asked).data)


def _told(key: Key) -> str:
    return f"{key.id}  {key.state:8}  {key.created_at:%Y-%m-%d %H:%M}  {key.user}"
