"""All findings of the doctor, and those about the running system: its health, jobs that do not stop, and orphans."""

import stat
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta

from batchq.doctor.environment import checkpoint_findings, clock_findings, engine_findings, store_findings
from batchq.doctor.facts import (
    DatabaseFacts,
    Facts,
    Finding,
    Findings,
    Level,
    RuntimeFacts,
    SocketFacts,
    ok,
    problem,
    warning,
)
from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.reconcile import tags_to_keep, tags_under_way
from batchq.ports.runtime import separate_ids

SERVER, JOBS, CONTAINERS = "server", "jobs", "containers"
SEE_LOG = "See its log."
STUCK_AFTER = timedelta(minutes=1)
MAX_REMOVED_ORPHANS = 3  # batchq does not remove more orphans than this: they may belong to another database
MAX_LISTED = 5
#: Members of /healthz that are `ok` or tell what is wrong. Free space is a finding about the data directory.
HEALTH = (
    ("store", problem, "its database fails: {}", "Repair the disk; failed writes are repeated."),
    ("engine", problem, "its container engine fails: {}", "Jobs wait until the container engine works."),
    (
        "reserve",
        problem,
        "{}",
        "Free space on the disk of the data: without the reserve, a full disk keeps job ends from being saved.",
    ),
    ("logs", warning, "{}", "Raise serve --log-mib or account --log-mib, or free space on the disk."),
    (
        "data",
        warning,
        "data: {}",
        "Check the containers, then batchq leave-safe-mode; with --purge, containers without a job are removed.",
    ),
    (
        "eventLoop",
        warning,
        "event loop: {}",
        "Its log names what blocked the event loop; if it names nothing, the machine was suspended or overloaded.",
    ),
)


def all_findings(facts: Facts) -> tuple[Finding, ...]:
    """All findings about an installation."""
    return (
        *engine_findings(facts.engines),
        *store_findings(facts.store, min_free_bytes=facts.min_free_bytes, uid=facts.uid),
        *checkpoint_findings(facts),
        *clock_findings(facts),
        *server_findings(facts),
        *socket_findings(facts.socket),
        *job_findings(facts),
    )


def is_healthy(findings: tuple[Finding, ...]) -> bool:
    """Whether none of the findings is a problem."""
    return all(finding.level is not Level.PROBLEM for finding in findings)


def server_findings(facts: Facts) -> Findings:
    health = facts.server.health
    if health is None:
        yield from _no_response(facts)
        return
    version = health.get("version")
    if version is None:
        status = f"a server responds at {facts.server.url}: {health.get('status')}"
        yield ok(SERVER, f"{status}; it reports details only to callers with an access key")
        return
    yield ok(SERVER, f"batchq {version} responds at {facts.server.url}: {health.get('status')}")
    if version != facts.version:
        message = f"the server is batchq {version}, but this command is batchq {facts.version}"
        yield warning(SERVER, message, "Restart batchq serve after an upgrade (jobs keep running).")
    yield from _other_instance(facts, health)
    yield from health_findings(health)


def health_findings(health: Mapping[str, object]) -> Findings:
    """What is wrong by a health report of a server, with remedies. `health`: the members of /healthz."""
    for member, finding, message, advice in HEALTH:
        if (state := health.get(member, "ok")) != "ok":
            yield finding(SERVER, message.format(state), advice)
    yield from _loops(health)


def socket_findings(socket: SocketFacts | None) -> Findings:
    """Who may connect to the unix socket, and whether other users could put another one in its place."""
    if socket is None:
        return
    if socket.unsafe:
        advice = "Move the socket to a folder that only root and the server's user can write to."
        yield problem(SERVER, socket.unsafe, advice)
    described = f"the socket {socket.path} has mode {socket.mode:04o}, owner {socket.owner}, group {socket.group}"
    if not socket.admits_caller:
        may_join = f"Join the group {socket.group}, and log in again"
        advice = may_join if socket.mode & stat.S_IWGRP else "Start the server with --socket-group"
        yield warning(SERVER, f"{described}: you may not connect", f"{advice}.")
    elif socket.mode & stat.S_IWOTH:
        yield ok(SERVER, f"{described}: every user of this machine may connect")
    else:
        yield ok(SERVER, described)


def job_findings(facts: Facts) -> Findings:
    database = facts.store.database
    if database is None or database.read_error is not None:
        return
    stuck = [job for job in database.active if is_stuck(job, facts.now)]
    for job in stuck:
        message = f"{job.id} was ordered to stop at {_stop_time(job)} and still runs ({job.status_reason})"
        advice = f"Examine its process; as a last resort: batchq force-fail {job.id}, which abandons its container."
        yield problem(JOBS, message, advice)
    if not stuck:
        yield ok(JOBS, f"{len(database.active)} running, none stuck")
    for engine in facts.engines:
        if isinstance(engine, RuntimeFacts):
            yield from _other_engine(engine, database)
            yield from _containers(engine, database, facts.now)


def is_stuck(job: Job, now: datetime) -> bool:
    """Whether a container still runs a minute after it was killed, or a minute after the job's grace period ended."""
    killed = min(_kill_times(job), default=None)
    if killed is not None:
        return now - killed > STUCK_AFTER
    return job.stop is not None and now - job.stop.ordered_at - job.stop.longest > STUCK_AFTER


# -------------------------------------------------------------------------------------------------------------- server
def _no_response(facts: Facts) -> Findings:
    server, store = facts.server, facts.store
    if store.locked:
        holder = f"pid {store.holder_pid}" if store.holder_pid else "a server"
        message = f"{holder} holds the lock of {store.data}, but {server.error.rstrip('.')}"
        yield problem(SERVER, message, "Use --url if it listens elsewhere. If it hangs, kill -9 it: no data is lost.")
    else:
        yield ok(SERVER, f"no server runs at {server.url}")


def _other_instance(facts: Facts, health: Mapping[str, object]) -> Findings:
    database = facts.store.database
    ours = database.instance if database is not None else None
    if health.get("instance") != ours:
        message = f"the server has instance {health.get('instance')}, but {facts.store.data} has {ours or 'none'}"
        yield warning(SERVER, message, "Use the --data of batchq serve, or the --url of the server of this directory.")


def _loops(health: Mapping[str, object]) -> Findings:
    loops = health.get("loops")
    restarted = {name: value for name, value in loops.items() if value != "ok"} if isinstance(loops, dict) else {}
    failing = health.get("failingLoops")
    for name, state in restarted.items():
        message = f"background loop {name}: {state}"
        if isinstance(failing, list) and name in failing:
            yield problem(SERVER, message, f"{SEE_LOG} Restart batchq serve (jobs keep running), and report the error.")
        else:
            yield warning(SERVER, message, SEE_LOG)


# ------------------------------------------------------------------------------------------------- jobs and containers
def _other_engine(engine: RuntimeFacts, database: DatabaseFacts) -> Findings:
    known = database.engine_id is None or engine.id in {None, *separate_ids(database.engine_id).values()}
    under_way = {tag for job in database.active for tag in tags_under_way(job)}
    if known or not under_way or not under_way.isdisjoint(inspection.tag for inspection in engine.containers):
        return
    message = (
        f"{engine.address} is not the container engine that {len(database.active)} jobs run on ({database.engine_id})"
    )
    advice = "Set DOCKER_HOST to it and restart batchq. If it is gone for good: batchq leave-safe-mode --new-engine."
    yield problem(JOBS, message, advice)


def _containers(engine: RuntimeFacts, database: DatabaseFacts, now: datetime) -> Findings:
    tags = [inspection.tag for inspection in engine.containers]
    owned = {tag for job in database.active for tag in (*tags_under_way(job), *tags_to_keep(job))}
    orphans = [tag for tag in tags if tag.job_id not in database.container_jobs and tag not in database.spared]
    leftovers = [tag for tag in tags if tag not in owned and _ended_long_ago(tag, database, now)]
    if orphans:
        yield from _orphans(orphans, database)
    if leftovers:
        message = f"{len(leftovers)} containers of ended attempts still exist: {_listed(leftovers)}"
        advice = "A running server removes them; if they remain, its log has the container engine's error."
        yield warning(CONTAINERS, message, advice)
    if not orphans and not leftovers:
        yield ok(CONTAINERS, f"{len(tags)} of this instance exist, none orphaned")


def _orphans(orphans: Collection[Tag], database: DatabaseFacts) -> Findings:
    message = f"{len(orphans)} containers of this instance have no known job: {_listed(orphans)}"
    if database.restored_at is not None:
        advice = "They are kept, also by batchq leave-safe-mode; batchq leave-safe-mode --purge removes them."
        yield warning(CONTAINERS, message, advice)
    elif len(orphans) > MAX_REMOVED_ORPHANS:
        by_hand = f"docker rm -f $(docker ps -aq --filter label=io.batchq.instance={database.instance})"
        advice = f"They are kept: the data may be an old copy. If it is not, stop batchq and run {by_hand}"
        yield problem(CONTAINERS, message, advice)
    else:
        advice = "A starting server removes those that it finds and that are older than a minute."
        yield warning(CONTAINERS, message, advice)


def _ended_long_ago(tag: Tag, database: DatabaseFacts, now: datetime) -> bool:
    """Whether the attempt ended more than a minute ago; before that its container is about to be removed."""
    job = database.container_jobs.get(tag.job_id)
    if job is None:
        return False
    ended = next((attempt.stopped_at for attempt in job.attempts if attempt.number == tag.attempt), job.stopped_at)
    return ended is not None and now - ended > STUCK_AFTER


def _kill_times(job: Job) -> Iterator[datetime]:
    """The times at which containers that have not ended were first killed."""
    containers = () if job.attempt is None else job.attempt.containers
    return (
        container.killed_at
        for container in containers
        if container.killed_at is not None and container.stopped_at is None
    )


def _stop_time(job: Job) -> str:
    time = job.stop.ordered_at if job.stop is not None else min(_kill_times(job))
    return time.strftime("%Y-%m-%d %H:%M:%S UTC")


def _listed(tags: Collection[Tag]) -> str:
    first = ", ".join(sorted(map(str, tags))[:MAX_LISTED])
    return f"{first} and others" if len(tags) > MAX_LISTED else first
