"""The machine that the engine runs on: what it has, and whether containers went down with it.

An engine that starts without live-restore has none of the containers that ran before. Docker then makes its default
bridge anew, whatever it was started by; so the bridge's age is that of the engine's hold on its containers. Where there
is no such bridge nothing can be told, and every end is taken for the container's own.
"""

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from docker.errors import APIError

from batchq.compute.docker import gpus
from batchq.compute.docker.client import Client
from batchq.compute.docker.create_request import GPUS, MIB
from batchq.compute.docker.inspection import member, time_of
from batchq.domain.container import Resources
from batchq.errors import EngineUnknown
from batchq.ports.runtime import EngineIdentity

BRIDGE = "bridge"
KERNEL = Path("/proc/stat")


def capacity(client: Client) -> Resources:
    """GPUs count where the engine can give them to containers."""
    machine: object = client.info()
    runtimes = member(machine, "Runtimes", of=object)
    return Resources(
        millicpus=member(machine, "NCPU", of=int) * 1000,
        memory_mib=member(machine, "MemTotal", of=int) // MIB,
        gpus=gpus.count() if "nvidia" in str(runtimes) else 0,
    )


def identity(client: Client) -> EngineIdentity:
    """Podman makes a new id at each call; it is known by having no init of Docker's."""
    return identity_in(client.info())


def identity_in(engine: object) -> EngineIdentity:
    """By what `/info` tells."""
    name, is_docker = member(engine, "ID", of=object), member(engine, "InitBinary", of=object)
    try:
        time = time_of(engine, "SystemTime")
    except EngineUnknown:
        time = None
    return EngineIdentity(id=name if isinstance(name, str) and name and is_docker else None, time=time)


def free_gpus(client: Client, number: int, *, of: Callable[[], int]) -> tuple[str, ...]:
    """`of` tells how many there are. Which of them are taken stands in the labels of the containers that have them."""
    holders = client.containers(all=True, filters={"label": GPUS})
    return gpus.choose(number, of=of(), held=gpus.held(holders))


def knows_swappiness(client: Client) -> bool:
    return client.info().get("CgroupVersion") != "2"


def lost_before(client: Client, booted_at: datetime | None, unreliable: set[datetime]) -> datetime | None:
    """With live-restore containers go down with the machine alone, which was `booted_at` if that is known.

    `unreliable` collects the bridges that were once newer than the engine's clock: it was set back since they were
    made, so containers that began after them may look older, also when the clock has passed that time again.
    """
    try:
        bridge: object = client.inspect_network(BRIDGE)
    except APIError as refusal:
        if refusal.is_client_error():  # there is none, or what stands before the engine lets nobody see it
            return None
        raise
    engine: object = client.info()
    if not member(engine, "InitBinary", of=object):  # not Docker: other engines let containers be when they end
        return None
    began = time_of(bridge, "Created")
    if began is None or began in unreliable:
        return None
    if began > (time_of(engine, "SystemTime") or began):
        unreliable.add(began)
        return None
    if member(engine, "LiveRestoreEnabled", of=object) is not True:
        return began
    return None if booted_at is None else min(began, booted_at)


def ended_since_made(client: Client, inspected: object) -> bool:
    """Whether the engine may have ended since it made this container, as far as it can be known.

    Docker remembers its last events (256 in Docker 20.10) until it ends; so the event of the creation proves that it
    did not. Without the event the age of the bridge decides; with live-restore, or a clock that was set back, the
    engine counts as ended. Engines other than Docker count as not ended.
    """
    engine: object = client.info()
    if not member(engine, "InitBinary", of=object):
        return False
    made_at, now = time_of(inspected, "Created"), time_of(engine, "SystemTime")
    if made_at is None or now is None:
        return True
    if _remembers_creation(client, member(inspected, "Id", of=str), made_at, now):
        return False
    if member(engine, "LiveRestoreEnabled", of=object) is True or now < made_at:
        return True
    try:
        bridge: object = client.inspect_network(BRIDGE)
    except APIError as refusal:
        if refusal.is_client_error():
            return True
        raise
    began = time_of(bridge, "Created")
    return began is None or not began <= made_at


def _remembers_creation(client: Client, container: str, made_at: datetime, now: datetime) -> bool:
    """`now` is the engine's own time, so that it sends what it has, and nothing that is to come."""
    filters = {"type": "container", "event": "create", "container": container}
    moments = {"since": f"{min(made_at, now).timestamp() - 1:.6f}", "until": f"{now.timestamp():.6f}"}
    events: Any = client.events(**moments, filters=filters, decode=True)  # type: ignore[call-overload]  # the stubs know whole seconds only
    with closing(events):
        return any(True for _ in events)


def booted_at(kernel: Path) -> datetime | None:
    """When this machine was, by its clock of now; None where the kernel does not say."""
    try:
        lines = kernel.read_text().splitlines()
        stamp = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return datetime.fromtimestamp(stamp, tz=UTC)
    except (OSError, ValueError, OverflowError, LookupError, StopIteration):
        return None
