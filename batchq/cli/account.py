"""`batchq account ...`: manages accounts, their container policies and their limits."""

import argparse
from collections.abc import Callable, Mapping
from typing import Final

from batchq.cli.admin_backend import Told, add_deed, add_json, ask, show
from batchq.cli.arguments import NONE, listed, or_none, yes

Flags = Mapping[str, tuple[str, Callable[[str], object], str, str]]

# Each flag by the member of the request that it sets: flag, parser, metavar, help text.
_ALLOWANCE: Final[Flags] = {
    "privileged": (
        "--privileged",
        yes,
        "YES|NO",
        "whether containers may be privileged: such a container controls the host",
    ),
    "devices": ("--devices", listed, "PATHS", "host devices that containers may use, comma-separated"),
    "volumes": (
        "--volumes",
        listed,
        "PATHS",
        "host paths that containers may mount, with all paths below them, comma-separated",
    ),
    "hostNetwork": ("--host-network", yes, "YES|NO", "whether containers may use the network of the host"),
    "root": (
        "--root-user",
        yes,
        "YES|NO",
        "whether containers may run as root (yes; with --volumes: no)",
    ),
    "logDrivers": (
        "--log-drivers",
        listed,
        "NAMES",
        "log drivers in addition to json-file and awslogs, comma-separated",
    ),
    "registries": (
        "--registries",
        or_none(listed),
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


def add(command: argparse.ArgumentParser) -> None:
    """Accounts form a tree below `root`. Accounts inherit what they do not set; limits include all accounts below."""
    deeds = command.add_subparsers(dest="deed", required=True)
    _about(add_deed(deeds, "add", "create an account", _add))
    _about(add_deed(deeds, "set", "change the settings whose flags are given", _set))
    add_deed(
        deeds, "delete", "delete an account without users and accounts below it; its jobs remain", _delete
    ).add_argument("name")
    add_json(add_deed(deeds, "list", "list all accounts", _list))
    shown = add_deed(deeds, "show", "show an account with the queues and the policy in effect", _list)
    shown.add_argument("name")
    add_json(shown)


def _about(deed: argparse.ArgumentParser) -> None:
    """Declare the flags. One that is not given leaves no attribute, so that only given members are sent."""
    deed.argument_default = argparse.SUPPRESS
    deed.add_argument("name")
    deed.add_argument("--parent", help="parent account (root)")
    deed.add_argument(
        "--queues",
        type=or_none(listed),
        help="queues that its users may see and use, comma-separated; none: those of its parent",
    )
    deed.add_argument("--allowance", choices=[NONE], help="none: inherit the container policy of its parent")
    for member, title, flags in (
        ("allowance", "container policy", _ALLOWANCE),
        ("limits", "limits of this account and all accounts below it together", _LIMITS),
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
