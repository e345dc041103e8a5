"""`batchq account ...`: manages accounts, their container policies and their limits."""

import argparse
from collections.abc import Callable, Mapping
from typing import Final

from batchq.cli.admin_backend import Told, add_deed, add_json, ask, show
from batchq.cli.arguments import NONE, listed, or_none, yes

Flags = Mapping[str, tuple[str, Callable[[str], object], str, str]]

# Each flag by the member of the request that it sets: flag, parser, metavar, help text.
_ALLOWANCE: Final[Flags] = {
    "privileged": ("--privileged", yes, "YES|NO", "whether they may be privileged, which is to own the machine"),
    "devices": ("--devices", listed, "PATHS", "devices of the machine that they may have, between commas"),
    "volumes": ("--volumes", listed, "PATHS", "paths of the machine that they may mount, with all below them"),
    "hostNetwork": ("--host-network", yes, "YES|NO", "whether they may be on the machine's own network"),
    "root": (
        "--root-user",
        yes,
        "YES|NO",
        "whether they may run as root; if not given, no for an account with --volumes",
    ),
    "logDrivers": ("--log-drivers", listed, "NAMES", "log drivers beside json-file and awslogs, between commas"),
    "registries": ("--registries", or_none(listed), "NAMES", "those of their images, between commas; none: all remote"),
    "vcpus": ("--job-vcpus", or_none(float), "N", "the most that one job may ask for, or none"),
    "memoryMib": ("--job-memory", or_none(int), "MIB", "the most that one job may ask for, or none"),
}
_LIMITS: Final[Flags] = {
    "queued": ("--queued", or_none(int), "N", "jobs that wait, or none"),
    "submits": ("--submits", or_none(float), "N", "jobs submitted a second, or none"),
    "vcpus": ("--vcpus", or_none(float), "N", "vCPUs in use, or none"),
    "logMib": ("--log-mib", or_none(int), "MIB", "MiB of stored logs, or none"),
}


def add(command: argparse.ArgumentParser) -> None:
    """Accounts form a tree below `root`. Accounts inherit what they do not set; limits include all accounts below."""
    deeds = command.add_subparsers(dest="deed", required=True)
    _about(add_deed(deeds, "add", "a new account", _add))
    _about(add_deed(deeds, "set", "change what is said, and nothing else", _set))
    add_deed(deeds, "delete", "one that nobody is in; its jobs stay", _delete).add_argument("name")
    add_json(add_deed(deeds, "list", "all accounts", _list))
    shown = add_deed(deeds, "show", "one account, and what is in effect for it", _list)
    shown.add_argument("name")
    add_json(shown)


def _about(deed: argparse.ArgumentParser) -> None:
    """Declare the flags. One that is not given leaves no attribute, so that only given members are sent."""
    deed.argument_default = argparse.SUPPRESS
    deed.add_argument("name")
    deed.add_argument("--parent", help="the account above it (root)")
    deed.add_argument(
        "--queues", type=or_none(listed), help="those that its users see and use, between commas; none: its parent's"
    )
    deed.add_argument("--allowance", choices=[NONE], help="none: its containers may have what its parent's may")
    for member, title, flags in (
        ("allowance", "what containers may have", _ALLOWANCE),
        ("limits", "limits of it and all below it", _LIMITS),
    ):
        group = deed.add_argument_group(title)
        for name, (flag, kind, metavar, text) in flags.items():
            group.add_argument(flag, dest=f"{member}.{name}", type=kind, metavar=metavar, help=text)


def _said(asked: argparse.Namespace) -> dict[str, object]:
    """The body of the request: the members whose flags are given."""
    given = vars(asked)
    said: dict[str, object] = {name: given[name] for name in ("name", "parent", "queues") if name in given}
    for member in ("allowance", "limits"):
        inside = {name.partition(".")[2]: it for name, it in given.items() if name.startswith(f"{member}.")}
        if inside:
            said[member] = inside
    return said | ({"allowance": None} if "allowance" in given else {})


def _add(asked: argparse.Namespace) -> int:
    return _say(ask(asked, "CreateAccount", _said(asked)))


def _set(asked: argparse.Namespace) -> int:
    return _say(ask(asked, "UpdateAccount", _said(asked)))


def _delete(asked: argparse.Namespace) -> int:
    ask(asked, "DeleteAccount", {"name": asked.name})
    return 0


def _list(asked: argparse.Namespace) -> int:
    named = {"name": asked.name} if "name" in asked else {}
    told = ask(asked, "DescribeAccounts", named)
    return show(asked, told, [_told(it) for it in told["accounts"]])


def _say(account: Told) -> int:
    print(_told(account))
    return 0


def _told(account: Told) -> str:
    """A line with the queues and policy in effect and the account's own limits, under the names of the flags."""
    queues, may = account["inEffect"]["queues"], account["inEffect"]["allowance"]
    words = [
        "all queues" if queues is None else f"queues {','.join(queues) or NONE}",
        *(f"{_ALLOWANCE[name][0][2:]} {_word(it)}" for name, it in may.items() if it not in ([], None)),
        *(f"{_LIMITS[name][0][2:]} {_word(it)}" for name, it in account["limits"].items() if it is not None),
    ]
    below = f" below {account['parent']}" if account["parent"] else ""
    return f"{account['name']}{below}: {'; '.join(words)}"


def _word(it: object) -> str:
    if isinstance(it, bool):
        return "yes" if it else "no"
    return ",".join(map(str, it)) if isinstance(it, list) else f"{it:g}" if isinstance(it, float) else str(it)
