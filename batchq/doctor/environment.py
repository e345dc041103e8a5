"""Findings about what the server runs on: the container engine, the data directory, the disk, and the clocks."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from batchq.doctor.facts import (
    ClusterFacts,
    DatabaseFacts,
    DiskSpace,
    EngineFacts,
    Facts,
    FileFacts,
    Finding,
    Findings,
    Level,
    RuntimeFacts,
    RuntimeFault,
    StoreFacts,
    UnavailableRuntime,
    ok,
    problem,
    warning,
)

ENGINE, STORE, DISK, CLOCK = "engine", "store", "disk", "clock"

MIN_PODMAN = (5, 0)
SLOWER_RUNTIME, FASTER_RUNTIME = "runc", "crun"
MIN_ENGINE_API = (1, 41)  # the API of Docker 20.10
ENGINE_DISK_WARNING, ENGINE_DISK_PROBLEM = 2 * 2**30, 256 * 2**20  # bytes free on the container engine's disk
UNAVAILABLE = {
    RuntimeFault.ABSENT: (
        "{0} does not exist",
        "Install Docker or start it (systemctl start docker), or set DOCKER_HOST.",
    ),
    RuntimeFault.FORBIDDEN: (
        "this user has no access to {0}",
        "Add the user to the group docker (usermod -aG docker USER), and log in again.",
    ),
    RuntimeFault.NOT_LISTENING: ("no process listens at {0}", "Start Docker (systemctl start docker)."),
    RuntimeFault.NOT_RESPONDING: (
        "the container engine at {0} accepts connections, but does not respond",
        "See its log; restart it (systemctl restart docker).",
    ),
    RuntimeFault.NOT_AN_ENGINE: (
        "the response of {0} is not that of a supported container engine",
        "Check DOCKER_HOST and the container engine's log, or the kubeconfig and its user.",
    ),
    RuntimeFault.NOT_CONFIGURED: ("{0} does not lead to a cluster", "Correct the setting kubernetes."),
}
USER_SOCKETS = "unix:///run/user/"  # the folder of the sockets of rootless engines
#: Beside UNAVAILABLE, if the address is that of a socket of Podman.
UNAVAILABLE_PODMAN = {
    RuntimeFault.ABSENT: (
        "Install Podman and start its socket (systemctl start podman.socket, or systemctl --user start podman.socket "
        "for a rootless one), or set DOCKER_HOST."
    ),
    RuntimeFault.FORBIDDEN: (
        "Run batchq as the owner of the socket, or set DOCKER_HOST to the socket of your own Podman "
        "(systemctl --user start podman.socket)."
    ),
    RuntimeFault.NOT_LISTENING: (
        "Start Podman's socket (systemctl restart podman.socket, or systemctl --user restart podman.socket)."
    ),
    RuntimeFault.NOT_RESPONDING: (
        "See its log; restart it (systemctl restart podman, or systemctl --user restart podman)."
    ),
}
MACHINE_LIMITS = "Enable these cgroup controllers on the kernel's command line."
#: With cgroup v1, and without delegated controllers, a rootless engine has no limits.
ROOTLESS_LIMITS = (
    "Boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), and delegate its controllers to the user "
    "(Delegate=cpu cpuset io memory pids of user@.service): docs/engines.md."
)
#: The configuration of a rootless engine, and that of an engine that runs as root.
DOCKER_CONFIG = {True: "~/.config/docker/daemon.json", False: "/etc/docker/daemon.json"}
PODMAN_CONFIG = {True: "~/.config/containers/containers.conf", False: "/etc/containers/containers.conf"}
DOCKER_RELOAD = {True: "systemctl --user reload docker", False: "systemctl reload docker"}
RIGHTS_PAGE = "docs/kubernetes.md has the roles"
#: Without the right to list all pods batchq works, but does not know what other pods reserve.
OPTIONAL_RIGHT = ("list", "pods", "")
MAX_LISTED_NODES = 5

MAX_WAL = 256 * 2**20  # bytes; SQLite reuses it from a few MiB on, unless a reader stays open for long
DISK_WARNING_FACTOR = 8  # a warning below this many times `min_free_bytes`
ROOT = 0  # uid

MAX_CLOCK_DIFFERENCE = timedelta(seconds=5)


def engine_findings(engines: Sequence[EngineFacts]) -> Findings:
    if not engines:
        yield ok(ENGINE, "not examined: containers are simulated, or the cluster is not in the settings")
    for engine in engines:
        match engine:
            case UnavailableRuntime():
                yield _unavailable(engine)
            case RuntimeFacts():
                yield from _available(engine)
            case ClusterFacts():
                yield from _cluster(engine)


def store_findings(store: StoreFacts, *, min_free_bytes: int, uid: int) -> Findings:
    if not store.exists:
        yield ok(STORE, f"{store.data} contains no data; the first start of batchq serve creates it")
        return
    if store.copied:
        message = f"{store.data} is a copy, or was moved from another file system: batchq serve refuses it"
        yield problem(
            STORE, message, f"If the original is not used any more: batchq restore --take-over --data {store.data}"
        )
    yield _lock(store)
    yield _schema(store)
    if store.database is not None:
        yield from _contents(store.database)
    if store.wal_bytes > MAX_WAL:
        message = (
            f"the write-ahead log has {store.wal_bytes // 2**20} MiB: a program has been reading the database for long"
        )
        yield warning(STORE, message, "End programs that have batchq.db open (fuser batchq.db); the log shrinks then.")
    yield from (_exposed(facts) for facts in store.files if facts.mode & ~facts.allowed_mode)
    yield from (_foreign(facts) for facts in store.files if uid not in (facts.owner_uid, ROOT))
    if store.disk is not None:
        advice = "Free space on that disk; the server repeats failed writes until they succeed."
        yield _free_space(store.disk, str(store.data), advice, refused="new jobs", min_free_bytes=min_free_bytes)


def clock_findings(facts: Facts) -> Findings:
    """Compare the machine's clock with the container engine's, the server's and the newest job's time."""
    found = [*_engine_clock(facts), *_server_clock(facts), *_newest_job(facts)]
    yield from found or [ok(CLOCK, f"all clocks agree: {_utc(facts.now)}")]


# -------------------------------------------------------------------------------------------------------------- engine


def _unavailable(engine: UnavailableRuntime) -> Finding:
    message, advice = UNAVAILABLE[engine.fault]
    if "podman" in engine.address:
        advice = UNAVAILABLE_PODMAN.get(engine.fault, advice)
    elif engine.address.startswith(USER_SOCKETS):
        advice = advice.replace("systemctl", "systemctl --user")
    return problem(ENGINE, f"{message.format(engine.address)}: {engine.error}; jobs wait", advice)


def _available(engine: RuntimeFacts) -> Findings:
    name = "Podman" if engine.is_podman else "Docker"
    if _version(engine.api) < MIN_ENGINE_API:
        minimum = ".".join(map(str, MIN_ENGINE_API))
        message = f"{name} {engine.version} supports API {engine.api}, but batchq needs {minimum}"
        advice = "Install Podman 5.0 or later." if engine.is_podman else "Install Docker 20.10 or later."
        yield problem(ENGINE, message, advice)
    else:
        cgroup = "" if engine.cgroup is None else f", cgroup v{engine.cgroup}"
        yield ok(ENGINE, f"{name} {engine.version} responds at {engine.address}, API {engine.api}{cgroup}")
    if engine.is_rootless:
        yield _rootless(name)
    yield from _podman(engine) if engine.is_podman else _live_restore(engine)
    yield from _oci_runtime(engine)
    if engine.missing_limits:
        message = f"{name} cannot limit {', '.join(engine.missing_limits)}, so a job can use more than it requested"
        yield warning(ENGINE, message, ROOTLESS_LIMITS if engine.is_rootless else MACHINE_LIMITS)
    if engine.disk is not None:
        yield _engine_disk(engine, engine.disk)


def _cluster(cluster: ClusterFacts) -> Findings:
    if not cluster.is_supported:
        message = f"Kubernetes {cluster.version} at {cluster.address} is not supported"
        yield problem(ENGINE, message, f"batchq needs Kubernetes {cluster.oldest_version} or newer.")
    else:
        yield ok(ENGINE, f"Kubernetes {cluster.version} responds at {cluster.address}, namespace {cluster.namespace}")
    if cluster.namespace_error:
        message = f"the namespace {cluster.namespace} cannot be read: {cluster.namespace_error}; jobs wait"
        yield problem(ENGINE, message, f"Create it, and give batchq its rights: {RIGHTS_PAGE}.")
    if needed := [right for right in cluster.denied if right != OPTIONAL_RIGHT]:
        message = f"these credentials may not {', '.join(map(_right, needed))}; jobs fail or wait"
        yield problem(ENGINE, message, f"Give batchq these rights: {RIGHTS_PAGE}.")
    if OPTIONAL_RIGHT in cluster.denied:
        message = "what the pods of other namespaces reserve is not known, so a node may refuse a job's pod at first"
        yield warning(ENGINE, message, f"Allow batchq to list pods in all namespaces: {RIGHTS_PAGE}.")
    yield from _nodes(cluster)


def _right(right: tuple[str, str, str]) -> str:
    verb, resource, namespace = right
    return f"{verb} {resource} in {namespace or 'the cluster'}"


def _nodes(cluster: ClusterFacts) -> Findings:
    if ("list", "nodes", "") in cluster.denied:
        return
    unusable = ", ".join(cluster.unusable_nodes[:MAX_LISTED_NODES])
    if len(cluster.unusable_nodes) > MAX_LISTED_NODES:
        unusable += f" and {len(cluster.unusable_nodes) - MAX_LISTED_NODES} more"
    if cluster.nodes == len(cluster.unusable_nodes):
        message = f"no node takes jobs: {unusable}" if unusable else "the cluster has no nodes"
        yield problem(ENGINE, message, "Add nodes, or uncordon them (kubectl uncordon NODE).")
    elif unusable:
        message = f"{len(cluster.unusable_nodes)} of {cluster.nodes} nodes take no jobs: {unusable}"
        yield warning(ENGINE, message, "See kubectl describe node NODE.")


def _rootless(name: str) -> Finding:
    message = f"{name} is rootless: without lingering systemd ends it and all jobs when its user logs out"
    advice = "Run: loginctl enable-linger USER. docs/engines.md describes rootless engines."
    return Finding(level=Level.OK, component=ENGINE, message=message, advice=advice)


def _podman(engine: RuntimeFacts) -> Findings:
    """Podman's containers have a monitor of their own (conmon) and outlive its service, so live-restore has no use."""
    if _version(engine.version) < MIN_PODMAN:
        minimum = ".".join(map(str, MIN_PODMAN))
        message = f"Podman {engine.version} is older than {minimum}: its Docker API has more faults than later versions"
        yield warning(
            ENGINE, message, "Install Podman 5.0 or later; docs/engines.md lists the differences from Docker."
        )


def _oci_runtime(engine: RuntimeFacts) -> Findings:
    """Recommend crun, which measured 1.2 to 1.4 times the containers a second of runc: docs/engines.md.

    If the server or a compute environment selects crun, the operator knows it. With cgroup v1 nothing is recommended:
    where systemd also mounts the hierarchy of v2, crun says "cgroups in hybrid mode not supported" and starts nothing.
    """
    if engine.cgroup == "1" or engine.default_runtime != SLOWER_RUNTIME or FASTER_RUNTIME in engine.selected_runtimes:
        return
    message = "the OCI runtime is runc; with crun about a quarter more containers start in a second"
    select = "batchq serve --container-runtime crun"
    if engine.is_podman:
        file = PODMAN_CONFIG[engine.is_rootless]
        advice = f'Run apt-get install crun, and put runtime = "crun" into [engine] of {file}.'
    elif FASTER_RUNTIME in engine.runtimes:
        advice = f"Start the server with: {select}"
    else:
        add = f'{{"runtimes": {{"crun": {{"path": "/usr/bin/crun"}}}}}} in {DOCKER_CONFIG[engine.is_rootless]}'
        advice = f"Run: apt-get install crun; {DOCKER_RELOAD[engine.is_rootless]} (with {add}). Then: {select}"
    yield Finding(level=Level.OK, component=ENGINE, message=message, advice=advice)


def _live_restore(engine: RuntimeFacts) -> Findings:
    if engine.live_restore:
        yield ok(ENGINE, "live-restore is on: jobs survive a restart of Docker")
    else:
        message = "live-restore is off: running jobs end when Docker stops or restarts"
        file, reload = DOCKER_CONFIG[engine.is_rootless], DOCKER_RELOAD[engine.is_rootless]
        advice = f'Put {{"live-restore": true}} into {file}, then {reload}.'
        yield warning(ENGINE, message, advice)


def _engine_disk(engine: RuntimeFacts, disk: DiskSpace) -> Finding:
    message = f"the disk of {engine.data_root} has {disk.free / 2**30:.1f} GiB free of {disk.size / 2**30:.0f}"
    command = "podman" if engine.is_podman else "docker"
    advice = f"Remove unused images ({command} image prune), or use a larger disk."
    if disk.free < ENGINE_DISK_PROBLEM:
        return problem(ENGINE, f"{message}: containers cannot be created", advice)
    return warning(ENGINE, message, advice) if disk.free < ENGINE_DISK_WARNING else ok(ENGINE, message)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


# ------------------------------------------------------------------------------------------------------ data directory


def _lock(store: StoreFacts) -> Finding:
    if store.locked is None:
        return ok(STORE, f"{store.data}; this system does not report which process holds its lock")
    if not store.locked:
        return ok(STORE, f"{store.data} is not in use by a server")
    return ok(STORE, f"{store.data} is in use by a server{f' (pid {store.holder_pid})' if store.holder_pid else ''}")


def _schema(store: StoreFacts) -> Finding:
    if store.refusal is not None:
        return problem(STORE, store.refusal, "Restore a backup (batchq restore), or ask an SQLite expert.")
    if store.schema != store.newest_schema:
        message = f"the database has schema {store.schema}; the next start migrates it to {store.newest_schema}"
        return ok(STORE, message)
    return ok(STORE, f"the database is undamaged and has schema {store.schema}")


def _contents(database: DatabaseFacts) -> Findings:
    if database.read_error is not None:
        yield problem(STORE, f"the database contains unreadable values: {database.read_error}", "Run batchq check.")
    if database.quarantined:
        message = f"{database.quarantined} values of jobs are unreadable; the table quarantine has their original bytes"
        yield warning(
            STORE, message, "Find out what damaged them: the disk, the memory, or a program that wrote to batchq.db."
        )
    if database.restored_at is not None:
        message = f"a backup was restored at {_utc(database.restored_at)}; no job starts until batchq leave-safe-mode"
        by_label = f"docker ps -a --filter label=io.batchq.instance={database.instance}"
        yield warning(STORE, message, f"Check the running containers ({by_label}); then batchq leave-safe-mode.")


def _exposed(file: FileFacts) -> Finding:
    message = f"{file.path} has mode {file.mode:04o}: other users of this machine may read it"
    return warning(STORE, message, f"chmod {file.allowed_mode:04o} {file.path}")


def _foreign(file: FileFacts) -> Finding:
    message = f"{file.path} is owned by uid {file.owner_uid}: a server of this user could not write it"
    return warning(STORE, message, "Run batchq as that user, or change the owner of the files (chown).")


def checkpoint_findings(facts: Facts) -> Findings:
    """Findings about the checkpoint directories of jobs."""
    found = facts.checkpoints
    if found is None:
        return
    if found.mode & 0o077:
        message = f"other users of this machine can enter {found.path} (mode {found.mode:04o}) and change checkpoints"
        yield problem(DISK, message, f"Run: chmod 700 {found.path}")
    if found.disk is not None:
        advice = "Delete checkpoints that are not needed, set serve --checkpoint-days, or use a larger disk."
        where, refused = f"checkpoints in {found.path}", "jobs with checkpoints"
        yield _free_space(found.disk, where, advice, refused=refused, min_free_bytes=facts.min_free_bytes)


def _free_space(disk: DiskSpace, where: str, advice: str, *, refused: str, min_free_bytes: int) -> Finding:
    """`refused`: what the server refuses while less than `min_free_bytes` are free."""
    message = f"{disk.free // 2**20} MiB are free for {where}"
    if disk.free < min_free_bytes:
        limit = f"less than {min_free_bytes // 2**20} MiB (--min-free-mib)"
        return problem(DISK, f"{message}, {limit}, so {refused} are refused", advice)
    return warning(DISK, message, advice) if disk.free < DISK_WARNING_FACTOR * min_free_bytes else ok(DISK, message)


# -------------------------------------------------------------------------------------------------------------- clocks


def _engine_clock(facts: Facts) -> Findings:
    for engine in facts.engines:
        offset = None if isinstance(engine, UnavailableRuntime) else engine.clock_offset
        if offset is not None and abs(offset) > MAX_CLOCK_DIFFERENCE.total_seconds():
            difference = _difference(timedelta(seconds=offset))
            message = (
                f"the container engine's clock is {difference} this machine's: "
                f"times of jobs on {engine.address} are wrong"
            )
            yield warning(CLOCK, message, "Synchronize both clocks by NTP.")


def _server_clock(facts: Facts) -> Findings:
    """Compare the server's clock: it is read from the machine at the start and then runs independently."""
    try:
        offset = datetime.fromisoformat(str((facts.server.health or {}).get("now"))) - facts.now
    except (TypeError, ValueError):  # no server, a server that reports no time, or not a batchq server
        return
    if abs(offset) > MAX_CLOCK_DIFFERENCE:
        message = f"the server's clock is {_difference(offset)} this machine's, which was set since the server started"
        advice = "Restart batchq to correct the times: jobs keep running, and their time limits move with the clock."
        yield warning(CLOCK, message, advice)


def _newest_job(facts: Facts) -> Findings:
    newest = facts.store.database.newest_created_at if facts.store.database is not None else None
    if newest is not None and newest - facts.now > MAX_CLOCK_DIFFERENCE:
        message = (
            f"this machine's time is {_utc(facts.now)}, but the newest job was created at {_utc(newest)}: "
            "the clock was set back"
        )
        advice = "Set the clock before batchq starts after a boot: it computes the time since the last boot from it."
        yield problem(CLOCK, message, advice)


def _difference(offset: timedelta) -> str:
    seconds = abs(offset).total_seconds()
    return f"{seconds:,.0f} s {'ahead of' if offset > timedelta() else 'behind'}"


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
