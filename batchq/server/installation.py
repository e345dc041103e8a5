"""Collects the facts that `batchq doctor` evaluates."""

import os
from pathlib import Path

from msgspec.structs import replace

from batchq import __version__
from batchq.api.http.unix_socket import socket_facts
from batchq.compute.docker import host
from batchq.compute.kubernetes.examination import examine_cluster
from batchq.doctor.facts import EngineFacts, Facts, RuntimeFacts, ServerFacts, StoreFacts, UnavailableRuntime
from batchq.ports.clock import Clock
from batchq.settings import Runtime, Settings
from batchq.store import inspection
from batchq.system.clock import SystemClock

MIB = 2**20
UNIX = "unix://"  # the beginning of the URL of a unix socket


def collect_facts(settings: Settings, server: ServerFacts) -> Facts:
    """The facts that `batchq doctor` evaluates. Nothing is changed, and a server may run or not."""
    clock = SystemClock()
    runtimes = {settings.runtime, (server.health or {}).get("runtime")}
    has_docker = settings.docker or runtimes.isdisjoint({Runtime.KUBERNETES, Runtime.SIMULATED})
    path = Path(server.url.removeprefix(UNIX)) if server.url.startswith(UNIX) else settings.socket
    store = inspection.examine_data(settings.data)
    engines: list[EngineFacts] = [_docker(settings, store, clock)] if has_docker else []
    if settings.kubernetes is not None:
        engines.append(
            examine_cluster(settings.kubernetes, clock, refuses_drains=bool(settings.kubernetes_refuse_drains))
        )
    containers = [each for engine in engines if isinstance(engine, RuntimeFacts) for each in engine.containers]
    if containers:
        store = inspection.with_container_jobs(store, {container.tag.job_id for container in containers})
    return Facts(
        now=clock.now(),
        uid=os.geteuid(),
        version=__version__,
        min_free_bytes=settings.min_free_mib * MIB,
        engines=tuple(engines),
        store=store,
        checkpoints=inspection.examine_checkpoints(settings.checkpoint_root),
        server=server,
        socket=None if path is None else socket_facts(path),
    )


def _docker(settings: Settings, store: StoreFacts, clock: Clock) -> EngineFacts:
    """The engine of DOCKER_HOST, with the OCI runtimes that the settings and the compute environments select."""
    database = store.database
    engine = host.examine_engine(database.instance if database is not None else None, clock)
    if isinstance(engine, UnavailableRuntime):
        return engine
    selected = database.selected_runtimes if database is not None else frozenset[str]()
    if settings.container_runtime is not None:
        selected |= {settings.container_runtime}
    return replace(engine, selected_runtimes=selected)
