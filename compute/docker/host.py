"""The engine and its machine: identity, resources, GPUs, faults, and whether containers ended with it.

An engine that starts without live-restore has ended all earlier containers. Docker creates its default bridge at every
such start, so containers older than the bridge ended with the engine. Without that bridge the time is unknown, and
every exit counts as the container's own: docs/decisions/0014.

GPUs are assigned by id: for a request by number, the engine would give every container the first ones.
"""

import os
import socket
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from docker.errors import APIError

from batchq.compute.docker.client import Client, ClientFactory
from batchq.compute.docker.container_requests import is_copy
from batchq.compute.docker.create_request import GPUS, INSTANCE, MIB
from batchq.compute.docker.errors import is_interrupted, is_timeout, translate_errors
from batchq.compute.docker.inspection import labels_of, member, parse_survey, reply_rows, state_of, time_of
from batchq.doctor.facts import DiskSpace, RuntimeFacts, RuntimeFault, UnavailableRuntime
from batchq.domain.container import Resources
from batchq.domain.machines import Machine, one_machine
from batchq.errors import RuntimeUnknown, StartImpossible
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerState, Inspection, RuntimeIdentity
from batchq.settings import Runtime

ENDED_STATES = frozenset({ContainerState.EXITED, ContainerState.GOING})

BRIDGE = "bridge"

PROC_STAT = Path("/proc/stat")
EXAMINE_TIMEOUT = 5.0  # seconds
SIGNALLED = 128  # the exit code of a program that a signal ended is above this
MAX_STOP = timedelta(seconds=15)  # a stop by the engine takes at most this: it sends SIGKILL 10 s after the stop signal
#: Exists if all cgroup controllers of this machine are of version 2.
CONTROLLERS = Path("/sys/fs/cgroup/cgroup.controllers")
ROOTLESS = "name=rootless"  # in the SecurityOptions of a rootless engine
RESOURCE_LIMITS = {"MemoryLimit": "memory", "SwapLimit": "swap", "PidsLimit": "the number of processes"}
DEFAULT_ADDRESS = "its usual address"


def machines(client: Client) -> tuple[Machine, ...]:
    """The machine, with all its resources; GPUs only if the engine has the NVIDIA runtime."""
    machine: object = client.info()
    runtimes = member(machine, "Runtimes", of=object)
    resources = Resources(
        millicpus=member(machine, "NCPU", of=int) * 1000,
        memory_mib=member(machine, "MemTotal", of=int) // MIB,
        gpus=gpu_count() if "nvidia" in str(runtimes) else 0,
    )
    return one_machine(resources, Runtime.DOCKER, member(machine, "ServerVersion", of=str))


def identity(client: Client) -> RuntimeIdentity:
    """The identity of the engine: Docker's id and its data root. Podman's id is not used: it is new at each call."""
    return identity_in(client.info())


def identity_in(engine: object) -> RuntimeIdentity:
    """The identity in a reply to `/info`.

    Docker up to 20.10 reads its ID from a file of the machine, so all engines of a machine have the same ID. Each of
    them has a data root of its own.
    """
    name, root = member(engine, "ID", of=object), member(engine, "DockerRootDir", of=object)
    try:
        time = time_of(engine, "SystemTime")
    except RuntimeUnknown:
        time = None
    if not isinstance(name, str) or not name or not member(engine, "InitBinary", of=object):
        return RuntimeIdentity(id=None, time=time)
    return RuntimeIdentity(id=f"{name} {root}" if isinstance(root, str) and root else name, time=time)


def default_runtime(engine: object) -> str:
    """The name of the OCI runtime that the engine uses by default, from a reply to /info; empty: not reported."""
    name = member(engine, "DefaultRuntime", of=object)
    return Path(name).name if isinstance(name, str) else ""  # Podman reports a path if it is configured so


def runtimes_of(engine: object) -> tuple[str, ...]:
    """The names of the OCI runtimes that a create request can name, from a reply to /info.

    Podman ignores the name in a create request, so only its default is used.
    """
    if not member(engine, "InitBinary", of=object):
        return tuple(filter(None, [default_runtime(engine)]))
    runtimes = member(engine, "Runtimes", of=object)
    return tuple(sorted(runtimes)) if isinstance(runtimes, dict) else ()


def runtime_refusal(engine: object, name: str) -> str | None:
    """Why the engine with this reply to /info cannot run containers with the OCI runtime; None: it can."""
    runtimes = runtimes_of(engine)
    if name in runtimes:
        return None
    return f"the engine has no OCI runtime {name!r}; it has: {', '.join(runtimes) or 'none'}"


def check_runtime(name: str, *, base_url: str | None = None) -> None:
    """Raise StartImpossible if the engine lacks the OCI runtime. An engine that does not answer is checked later.

    `base_url` is the engine's address, None: DOCKER_HOST, or Docker's default socket.
    """
    factory = ClientFactory(base_url)
    with suppress(RuntimeUnknown), translate_errors("info"):
        with closing(factory.get_client(None, receive_timeout=EXAMINE_TIMEOUT)) as client:
            refusal = runtime_refusal(client.info(), name)
        if refusal is not None:
            raise StartImpossible(f"--container-runtime: {refusal}")


def supports_swappiness(client: Client) -> bool:
    """Whether the kernel supports the swappiness of a container: cgroup v2 does not."""
    return cgroup_version(client.info(), is_local=client.is_local) != "2"


def cgroup_version(engine: object, *, is_local: bool, controllers: Path = CONTROLLERS) -> str | None:
    """The version of the engine's cgroups, from a reply to /info; None: unknown.

    An engine that does not report the version has that of this machine if it `is_local`. `controllers` exists if all
    controllers of the machine are of version 2.
    """
    version = member(engine, "CgroupVersion", of=object)
    if isinstance(version, str) and version:
        return version
    return ("2" if controllers.exists() else "1") if is_local else None


def is_rootless(engine: object) -> bool:
    """Whether the engine with this reply to /info runs as a user without root."""
    options = member(engine, "SecurityOptions", of=object)
    return isinstance(options, list) and ROOTLESS in options


def missing_limits(engine: object, cgroup: str | None) -> tuple[str, ...]:
    """The resource limits that the engine with this reply to /info cannot enforce.

    With cgroup v1 a rootless engine has no limits. Podman reports those of the machine nevertheless, and creates
    containers without the limits that a request names.
    """
    has_none = is_rootless(engine) and cgroup == "1"
    return tuple(what for name, what in RESOURCE_LIMITS.items() if has_none or member(engine, name, of=object) is False)


def free_gpus(client: Client, number: int) -> tuple[str, ...]:
    """Choose `number` GPUs of this machine by the labels of existing containers."""
    holders = client.containers(all=True, filters={"label": GPUS})
    return choose_gpus(number, of=gpu_count(), usage=gpu_usage(holders))


def gpu_count() -> int:
    """The number of NVIDIA GPUs of this machine."""
    return sum(1 for _ in Path("/dev").glob("nvidia[0-9]*"))


def gpu_usage(rows: object) -> Mapping[str, int]:
    """The number of containers that hold each GPU, from the labels in the engine's list of containers."""
    existing = reply_rows(rows, "containers")
    holders = (item for item in existing if state_of(member(item, "State", of=object)) not in ENDED_STATES)
    return Counter(gpu for holder in holders for gpu in labels_of(holder, "Labels").get(GPUS, "").split(",") if gpu)


def choose_gpus(number: int, *, of: int, usage: Mapping[str, int]) -> tuple[str, ...]:
    """Choose the GPUs that the fewest containers hold, lowest ids first.

    `of` is the number of existing GPUs. Placement only chooses a job for which GPUs are free, but does not see the
    containers of other servers.
    """
    by_use = sorted(range(max(of, number)), key=lambda index: usage.get(str(index), 0))
    return tuple(str(index) for index in sorted(by_use[:number]))


def lost_before(
    client: Client, booted_at: datetime | None, unreliable: set[datetime], *, ended: Inspection | None = None
) -> datetime | None:
    """Containers that started before this time ended with the engine or the machine; None: unknown.

    `booted_at` is when the machine booted, None: unknown. With live-restore only a boot ends containers, except
    containers in their start. `ended` is the container whose end is to be explained, None: any container. `unreliable`
    collects the creation times of bridges that were once later than the engine's clock: the clock was set back after
    that, so a container that started after the bridge can have an earlier time.
    """
    try:
        bridge: object = client.inspect_network(BRIDGE)
    except APIError as error:
        if error.is_client_error():  # it does not exist, or a proxy in front of the engine denies the request
            return None
        raise
    engine: object = client.info()
    if not member(engine, "InitBinary", of=object):  # not Docker: other engines do not end containers when they end
        return None
    bridge_created_at = time_of(bridge, "Created")
    if bridge_created_at is None or bridge_created_at in unreliable:
        return None
    if bridge_created_at > (time_of(engine, "SystemTime") or bridge_created_at):
        unreliable.add(bridge_created_at)
        return None
    stopped_in_start = ended is not None and may_be_stopped_in_start(ended)
    if stopped_in_start or member(engine, "LiveRestoreEnabled", of=object) is not True:
        return bridge_created_at
    return None if booted_at is None else min(bridge_created_at, booted_at)


def may_be_stopped_in_start(ended: Inspection) -> bool:
    """Whether a signal ended the container within MAX_STOP of its start.

    If no container runs when an engine with live-restore ends, the engine stops each container whose start is under
    way, as soon as it has started: docs/decisions/0102.
    """
    if ended.exit_code is None or ended.started_at is None or ended.stopped_at is None or ended.out_of_memory:
        return False
    return ended.exit_code > SIGNALLED and ended.stopped_at - ended.started_at <= MAX_STOP


def ended_since_create(client: Client, inspected: object) -> bool:
    """Whether the engine may have ended since it created the inspected container: docs/decisions/0013.

    Docker has its last events in memory (256 in Docker 20.10), so the event of the create proves that it has not
    ended. Without the event the age of the bridge decides. With live-restore, or if the clock was set back, the engine
    counts as ended. Engines other than Docker count as not ended.
    """
    engine: object = client.info()
    if not member(engine, "InitBinary", of=object):
        return False
    created_at, now = time_of(inspected, "Created"), time_of(engine, "SystemTime")
    if created_at is None or now is None:
        return True
    if _has_create_event(client, member(inspected, "Id", of=str), created_at, now):
        return False
    if member(engine, "LiveRestoreEnabled", of=object) is True or now < created_at:
        return True
    try:
        bridge: object = client.inspect_network(BRIDGE)
    except APIError as error:
        if error.is_client_error():
            return True
        raise
    bridge_created_at = time_of(bridge, "Created")
    return bridge_created_at is None or not bridge_created_at <= created_at


def may_have_run(client: Client, inspected: object) -> bool:
    """Whether the program of a CREATED container may have run, if its start was requested: docs/decisions/0013.

    The engine saves the start after the program began. If the engine, containerd or the shim ends in between, the
    state stays CREATED, and another start would run the program again.
    """
    error = member(inspected, "State", of=dict).get("Error")
    return (isinstance(error, str) and is_interrupted(error)) or ended_since_create(client, inspected)


def _has_create_event(client: Client, container: str, created_at: datetime, now: datetime) -> bool:
    """Whether the engine still has the event of the create. `now` is the engine's time: the stream ends there."""
    filters = {"type": "container", "event": "create", "container": container}
    since, until = f"{min(created_at, now).timestamp() - 1:.6f}", f"{now.timestamp():.6f}"
    with closing(client.subscribe(filters, since=since, until=until)) as events:
        return any(True for _ in events)


def booted_at(kernel: Path) -> datetime | None:
    """When this machine booted, by its present clock; None: unknown. `kernel` is the path of /proc/stat."""
    try:
        lines = kernel.read_text().splitlines()
        stamp = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        return datetime.fromtimestamp(stamp, tz=UTC)
    except (OSError, ValueError, OverflowError, LookupError, StopIteration):
        return None


def examine_engine(
    instance: str | None, clock: Clock, *, base_url: str | None = None
) -> RuntimeFacts | UnavailableRuntime:
    """Examine the engine for `batchq doctor`, with a few requests and short timeouts.

    `instance` is that of the data directory, None: unknown, so no containers are reported. `base_url` is the engine's
    address, None: DOCKER_HOST, or Docker's default socket.
    """
    factory = ClientFactory(base_url)
    address = f"unix://{factory.socket}" if factory.socket else os.environ.get("DOCKER_HOST", DEFAULT_ADDRESS)
    trouble = _connect_failure(address, factory.socket)
    if trouble is not None:
        return trouble
    try:
        with translate_errors("examine"), closing(factory.get_client(None, receive_timeout=EXAMINE_TIMEOUT)) as client:
            return _facts(client, address, instance, clock)
    except RuntimeUnknown as unknown:
        kind = RuntimeFault.NOT_RESPONDING if is_timeout(unknown) else RuntimeFault.NOT_AN_ENGINE
        return UnavailableRuntime(address=address, fault=kind, error=str(unknown))


def _connect_failure(address: str, path: str | None) -> UnavailableRuntime | None:
    """Why the engine's socket at `path` cannot be opened; None: it can. The SDK has one error for all reasons."""
    if path is None:
        return None
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(EXAMINE_TIMEOUT)
        try:
            probe.connect(path)
        except OSError as why:
            return UnavailableRuntime(address=address, fault=_fault_of(why), error=why.strerror or str(why))
    return None


def _fault_of(why: OSError) -> RuntimeFault:
    match why:
        case PermissionError():
            return RuntimeFault.FORBIDDEN
        case FileNotFoundError():
            return RuntimeFault.ABSENT
        case TimeoutError():
            return RuntimeFault.NOT_RESPONDING
        case _:
            return RuntimeFault.NOT_LISTENING


def _facts(client: Client, address: str, instance: str | None, clock: Clock) -> RuntimeFacts:
    before, info, after = clock.now(), client.info(), clock.now()
    engine = identity_in(info)
    root = Path(member(info, "DockerRootDir", of=str))
    cgroup = cgroup_version(info, is_local=client.is_local)
    return RuntimeFacts(
        address=address,
        id=engine.id,
        version=member(info, "ServerVersion", of=str),
        api=client.api_version,
        cgroup=cgroup,
        live_restore=member(info, "LiveRestoreEnabled", of=object) is True,
        is_podman=client.is_podman,
        is_rootless=is_rootless(info),
        default_runtime=default_runtime(info),
        runtimes=runtimes_of(info),
        missing_limits=missing_limits(info, cgroup),
        data_root=root,
        disk=_disk_space(root) if client.is_local else None,
        clock_offset=_clock_offset(engine.time, before, after),
        containers=() if instance is None else _containers(client, instance),
    )


def _clock_offset(engine_time: datetime | None, before: datetime, after: datetime) -> float | None:
    """How many seconds the engine's clock is ahead of this process's; None: unknown.

    The engine read its clock at some moment between `before` and `after`; the smallest difference is taken.
    """
    if engine_time is None:
        return None
    return (engine_time - min(max(engine_time, before), after)).total_seconds()


def _disk_space(root: Path) -> DiskSpace | None:
    """The disk space of the engine's root directory; None if this process cannot see the directory."""
    try:
        disk = os.statvfs(root)
    except OSError:
        return None
    return DiskSpace(free=disk.f_bavail * disk.f_frsize, size=disk.f_blocks * disk.f_frsize)


def _containers(client: Client, instance: str) -> tuple[Inspection, ...]:
    """The containers of the instance, from a list alone: the inspection of a stuck container would not return."""
    listed = client.containers(all=True, filters={"label": f"{INSTANCE}={instance}"})
    rows = [row for row in reply_rows(listed, "containers") if not is_copy(client, instance, row)]
    return tuple(parse_survey(rows, instance, lambda _, __: ContainerState.RUNNING).values())
