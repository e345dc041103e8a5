"""Examines the engine for `batchq doctor`: whether it replies, its features, and the containers of an instance."""

import os
import socket
from contextlib import closing
from datetime import datetime
from pathlib import Path

from batchq.compute.docker.client import Client, ClientFactory
from batchq.compute.docker.create_request import INSTANCE
from batchq.compute.docker.errors import is_timeout, translate_errors
from batchq.compute.docker.host import identity_in
from batchq.compute.docker.inspection import member, parse_survey, time_of
from batchq.doctor.facts import DiskSpace, EngineFacts, EngineFault, UnavailableEngine
from batchq.errors import EngineUnknown
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerState, Inspection

TIMEOUT = 5.0  # seconds
LIMITS = {"MemoryLimit": "memory", "SwapLimit": "swap", "PidsLimit": "the number of processes"}
DEFAULT_ADDRESS = "its usual address"


def examine(instance: str | None, clock: Clock, *, base_url: str | None = None) -> EngineFacts | UnavailableEngine:
    """Examine the engine with a few requests and short timeouts.

    `instance` is that of the data directory, None: unknown, so no containers are reported. `base_url` is the engine's
    address, None: DOCKER_HOST, or Docker's default socket.
    """
    factory = ClientFactory(base_url)
    address = f"unix://{factory.socket}" if factory.socket else os.environ.get("DOCKER_HOST", DEFAULT_ADDRESS)
    trouble = _connect_failure(address, factory.socket)
    if trouble is not None:
        return trouble
    try:
        with translate_errors("examine"), closing(factory.get_client(None, receive_timeout=TIMEOUT)) as client:
            return _facts(client, address, instance, clock, local=factory.socket is not None)
    except EngineUnknown as unknown:
        kind = EngineFault.NOT_RESPONDING if is_timeout(unknown) else EngineFault.NOT_AN_ENGINE
        return UnavailableEngine(address=address, fault=kind, error=str(unknown))


def _connect_failure(address: str, path: str | None) -> UnavailableEngine | None:
    """Why the engine's socket at `path` cannot be opened; None: it can. The SDK has one error for all reasons."""
    if path is None:
        return None
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(TIMEOUT)
        try:
            probe.connect(path)
        except OSError as why:
            return UnavailableEngine(address=address, fault=_fault_of(why), error=why.strerror or str(why))
    return None


def _fault_of(why: OSError) -> EngineFault:
    match why:
        case PermissionError():
            return EngineFault.FORBIDDEN
        case FileNotFoundError():
            return EngineFault.ABSENT
        case TimeoutError():
            return EngineFault.NOT_RESPONDING
        case _:
            return EngineFault.NOT_LISTENING


def _facts(client: Client, address: str, instance: str | None, clock: Clock, *, local: bool) -> EngineFacts:
    before, info, after = clock.now(), client.info(), clock.now()
    root = Path(member(info, "DockerRootDir", of=str))
    return EngineFacts(
        address=address,
        id=identity_in(info).id,
        version=member(info, "ServerVersion", of=str),
        api=client.api_version,
        cgroup=str(member(info, of=dict).get("CgroupVersion", "1")),
        live_restore=member(info, "LiveRestoreEnabled", of=object) is True,
        missing_limits=tuple(what for name, what in LIMITS.items() if member(info, name, of=object) is False),
        data_root=root,
        disk=_disk_space(root) if local else None,
        clock_offset=_clock_offset(_engine_time(info), before, after),
        containers=() if instance is None else _containers(client, instance),
    )


def _clock_offset(theirs: datetime | None, before: datetime, after: datetime) -> float | None:
    """How many seconds the engine's clock is ahead of this process's; None: unknown.

    The engine read its clock at some moment between `before` and `after`; the smallest difference is taken.
    """
    if theirs is None:
        return None
    return (theirs - min(max(theirs, before), after)).total_seconds()


def _engine_time(info: object) -> datetime | None:
    try:
        return time_of(info, "SystemTime")
    except EngineUnknown:
        return None


def _disk_space(root: Path) -> DiskSpace | None:
    """The disk space of the engine's root directory; None if this process cannot see the directory."""
    try:
        disk = os.statvfs(root)
    except OSError:
        return None
    return DiskSpace(free=disk.f_bavail * disk.f_frsize, size=disk.f_blocks * disk.f_frsize)


def _containers(client: Client, instance: str) -> tuple[Inspection, ...]:
    """The containers of the instance, from a list alone: the inspection of a stuck container would not return."""
    rows = client.containers(all=True, filters={"label": f"{INSTANCE}={instance}"})
    return tuple(parse_survey(rows, instance, lambda _, __: ContainerState.RUNNING).values())
