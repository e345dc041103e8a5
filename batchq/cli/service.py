"""`batchq install-service` and `uninstall-service`: a systemd unit for the server, of the system or of one user."""

import os
import shutil
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from batchq.cli.output import DONE, print_error, write_line
from batchq.errors import BatchqError, UsageError

NAME = "batchq"
NO_MANAGER = "Failed to initialize manager"  # of systemd-analyze, for example without XDG_RUNTIME_DIR
MARK = "# Written by `batchq install-service`. `batchq uninstall-service` removes the file."

_UNIT = """\
{mark}
[Unit]
Description=batchq, a queue of container jobs
Documentation=https://github.com/batchq/batchq/blob/main/docs/operations.md
After=network-online.target {after}
Wants=network-online.target

[Service]
Type=notify
ExecStart={command} serve --settings {settings}
Restart=on-failure
RestartSec=2
# SIGTERM ends the server, never the containers of jobs. The start continues with them.
KillMode=mixed
TimeoutStopSec=60
LimitNOFILE=65536
{engine}{rights}
[Install]
WantedBy={target}
"""
#: The server itself needs no rights: the container runtime does what needs them. A manager of a user can set these.
_RIGHTS = """\
NoNewPrivileges=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
UMask=0077
"""
#: Only the manager of the system can set these. /home and /tmp stay visible, because jobs may mount folders of them,
#: which the server checks.
_SYSTEM_RIGHTS = f"""\
User=batchq
Group=batchq
SupplementaryGroups=docker
StateDirectory=batchq batchq-checkpoints
StateDirectoryMode=0700
CapabilityBoundingSet=
ProtectSystem=full
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
{_RIGHTS}"""
_SOCKET = """\
{mark}
[Unit]
Description=The address of batchq

[Socket]
{addresses}
Backlog=128

[Install]
WantedBy=sockets.target
"""
#: Of the file of a unix socket. Without accounts everyone who can connect is an admin.
_SOCKET_FILE = "SocketMode=0600"
_SYSUSERS = """\
{mark}
u batchq - "batchq" /var/lib/batchq
m batchq docker
"""
_SETTINGS = """\
{mark}
# The settings of the server: `batchq settings` prints them all, and docs/operations.md describes them.
data = "{data}"
"""


class ServiceFiles(Struct, frozen=True, kw_only=True):
    """The files of a service, by their paths."""

    #: In the order in which they are written.
    files: dict[Path, str]
    #: The service unit, and the socket unit if there is one.
    units: tuple[Path, ...]
    #: The settings file. One that exists is kept.
    settings: Path
    #: The commands that start the service.
    commands: tuple[str, ...]


def add_install_service(command: ArgumentParser) -> None:
    """Write and check a systemd unit that runs the server, and print the commands that start the service."""
    _add_scope(command)
    text = "let systemd listen there, by a socket unit; once for HOST:PORT and once for the path of a unix socket"
    command.add_argument("--listen", metavar="ADDRESS", action="append", help=text)
    command.add_argument("--print", action="store_true", dest="prints", help="print the files instead of writing them")


def add_uninstall_service(command: ArgumentParser) -> None:
    """Remove the files that `batchq install-service` wrote. The data directory and the settings file stay."""
    _add_scope(command)


def _add_scope(command: ArgumentParser) -> None:
    scope = command.add_mutually_exclusive_group(required=True)
    scope.add_argument("--system", action="store_true", help="a service of the machine, as root")
    scope.add_argument("--user", action="store_true", help="a service of the calling user")
    # The root of the file system, for images and tests.
    command.add_argument("--root", type=Path, default=Path("/"), help="write below this folder instead of /")


def run_install_service(args: Namespace) -> int:
    service = _files(args)
    if args.prints:
        for path, text in service.files.items():
            write_line(f"==> {path} <==\n{text}")
        return DONE
    for path, text in service.files.items():
        if path == service.settings and path.exists():
            write_line(f"kept    {path}")
            continue
        _write(path, text)
        write_line(f"written {path}")
    status = _verify(service.units) if args.root == Path("/") else DONE
    write_line("Start the service:")
    for line in service.commands:
        write_line(f"  {line}")
    return status


def run_uninstall_service(args: Namespace) -> None:
    service = _files(args)
    found = [path for path in service.files if path != service.settings and path.exists()]
    if not found:
        raise UsageError(f"no service is installed: {service.units[0]} does not exist")
    for path in found:
        if not path.read_text(encoding="utf-8").startswith(MARK):
            raise UsageError(f"{path} was not written by batchq install-service: remove the file by hand")
    for path in found:
        path.unlink()
        write_line(f"removed {path}")
    write_line(f"kept    {service.settings} and the data directory that it names")
    scope = " --user" if args.user else ""
    write_line(f"Stop the service, if it runs: systemctl{scope} stop {NAME} && systemctl{scope} daemon-reload")


def _files(args: Namespace) -> ServiceFiles:
    """The files of a service in the scope that the flags select."""
    # Below --root the paths are the same, as in a chroot.
    root: Path = args.root
    base = Path.home() / ".config" if args.user else Path("/etc")
    settings = base / "batchq" / "server.toml"
    units = base / "systemd" / ("user" if args.user else "system")
    data = Path.home() / ".local" / "share" / "batchq" if args.user else Path("/var/lib/batchq")
    unit = units / f"{NAME}.service"
    text = _UNIT.format(
        mark=MARK,
        after="" if args.user else "docker.service docker.socket podman.socket",
        command=_command(),
        settings=settings,
        engine=_engine_line(os.environ.get("DOCKER_HOST", "")),
        rights=_RIGHTS if args.user else _SYSTEM_RIGHTS,
        target="default.target" if args.user else "multi-user.target",
    )
    files = {unit: text, settings: _SETTINGS.format(mark="# Settings of `batchq serve`.", data=data)}
    started = [f"{NAME}.service"]
    socket, addresses = units / f"{NAME}.socket", getattr(args, "listen", None) or ()
    installed = root / socket.relative_to("/")
    if addresses or installed.exists():
        text = _socket_unit(addresses, is_system=not args.user) if addresses else installed.read_text(encoding="utf-8")
        files[socket] = text
        started.insert(0, f"{NAME}.socket")
    scope = " --user" if args.user else ""
    commands = [f"systemctl{scope} daemon-reload", f"systemctl{scope} enable --now {' '.join(started)}"]
    if args.user:
        commands.append("loginctl enable-linger  # so that the server runs without a login")
    else:
        files[Path("/usr/lib/sysusers.d/batchq.conf")] = _SYSUSERS.format(mark=MARK)
        commands.insert(0, "systemd-sysusers")
    return ServiceFiles(
        files={root / path.relative_to("/"): content for path, content in files.items()},
        units=tuple(root / path.relative_to("/") for path in files if path.parent == units),
        settings=root / settings.relative_to("/"),
        commands=tuple(commands),
    )


def _engine_line(address: str) -> str:
    """The line of the unit that names the engine, because a service does not inherit DOCKER_HOST; empty: Docker's own.

    Raises UsageError for an address that cannot be a line of a unit.
    """
    if not address:
        return ""
    if not address.isprintable() or any(character in address for character in " \"'\\"):
        raise UsageError(f"DOCKER_HOST is not the address of an engine: {address!r}")
    return f"Environment=DOCKER_HOST={address.replace('%', '%%')}\n"


def _socket_unit(addresses: Sequence[str], *, is_system: bool) -> str:
    lines = [f"ListenStream={address}" for address in addresses]
    if any(address.startswith("/") for address in addresses):
        lines += [_SOCKET_FILE, *([f"SocketUser={NAME}"] if is_system else [])]
    return _SOCKET.format(mark=MARK, addresses="\n".join(lines))


def _command() -> str:
    """The command that runs this batchq: its script, or the interpreter with the module."""
    script = Path(sys.executable).with_name(NAME)
    return str(script) if script.exists() else f"{sys.executable} -m {NAME}"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f".{path.name}.new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as why:
        hint = ": run the command as root, or with --user" if isinstance(why, PermissionError) else ""
        raise BatchqError(f"{path} cannot be written: {why.strerror}{hint}") from None


def _verify(units: Sequence[Path]) -> int:
    """Check the units with systemd's own tool, if the machine has the tool. Prints what is wrong."""
    tool = shutil.which("systemd-analyze")
    if tool is None:
        write_line("not checked: this machine has no systemd-analyze")
        return DONE
    scope = ["--user"] if units[0].parent.name == "user" else []
    checked = subprocess.run(  # noqa: S603 - the tool's path is from PATH, the arguments are ours
        [tool, *scope, "verify", *map(str, units)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"LC_ALL": "C"},
    )
    if NO_MANAGER in checked.stderr:
        write_line(f"not checked: systemd-analyze has no session of this user ({NO_MANAGER})")
        return DONE
    names = [unit.name for unit in units]
    problems = [line for line in checked.stderr.splitlines() if any(name in line for name in names)]
    if problems:
        return print_error(f"systemd-analyze verify: {'; '.join(problems)}")
    for unit in units:
        write_line(f"checked {unit} with systemd-analyze verify")
    return DONE
