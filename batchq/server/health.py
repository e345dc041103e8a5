"""The parts of a running server, its health report (`GET /healthz`), and the values of the gauges of /metrics."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from batchq import __version__
from batchq.api.metrics.gauges import Reading
from batchq.api.operations.parts import Services
from batchq.audit import AuditLog
from batchq.domain.enums import MachineState, Status
from batchq.domain.scheduling.machine_rooms import NOTHING
from batchq.domain.scheduling.resources import GPUS, MEMORY, units, vcpus
from batchq.domain.task import total
from batchq.engine.activity import ActivityRecorder
from batchq.engine.engine import Engine
from batchq.engine.loop_watchdog import LoopWatchdog
from batchq.engine.pruner import Pruner
from batchq.errors import StoreFailed, StoreLost
from batchq.ports.responses.server import HealthReport
from batchq.server.webhook_parts import webhook_readings
from batchq.settings import Settings
from batchq.store.sqlite_store import SqliteStore
from batchq.system.host import DiskGuard
from batchq.webhooks.dispatcher import WebhookDispatcher

MIB = 2**20


class ServerParts(Services, frozen=True, kw_only=True):
    """The services, the engine and the background loops of a server, as `bootstrap` assembles them."""

    settings: Settings
    store: SqliteStore
    engine: Engine
    webhook_dispatcher: WebhookDispatcher
    loop_watchdog: LoopWatchdog
    pruner: Pruner
    activity: ActivityRecorder
    audit: AuditLog
    disk_guard: DiskGuard


async def health(parts: ServerParts) -> HealthReport:
    seen = parts.engine.health()
    store, aside = seen.store, 0
    try:
        await parts.store.check()
        aside = await parts.store.quarantined_values()
    except StoreFailed as failure:
        store = str(failure)
    disk, reserve = parts.disk_guard.problem, parts.store.reserve_trouble
    well = seen.healthy and store is None and disk is None and reserve is None
    return HealthReport(
        status="failing" if seen.failing else "ok" if well else "degraded",
        store=store or "ok",
        engine=seen.engine or "ok",
        data=seen.safe_mode or "ok",
        disk=disk or "ok",
        reserve=reserve or "ok",
        logs=parts.logs.trouble or "ok",
        loops=seen.loops,
        failing_loops=seen.failing,
        event_loop=parts.loop_watchdog.health(),
        put_aside=aside,
        instance=parts.store.instance,
        runtime=parts.settings.runtime.value,
        version=__version__,
        now=parts.clock.now().isoformat(),
    )


async def is_alive(parts: ServerParts) -> bool:
    """Whether the server can work at all: its data is still its own, and no background loop fails for good."""
    try:
        await parts.store.check()
    except StoreLost:
        return False
    except StoreFailed:  # retried; a restart would not help
        pass
    return not parts.engine.health().failing


async def is_ready(parts: ServerParts) -> bool:
    """Whether requests should be sent to the server. A degraded server is ready.

    It is not ready before its containers are known, while it fails, and once it is shutting down.
    """
    return parts.engine.recovered and not parts.engine.loop.closing and await is_alive(parts)


async def read_gauges(parts: ServerParts) -> Collection[Reading]:
    """All values. A store that fails has no values of its own; the others are read from memory."""
    now = parts.clock.now()
    try:
        oldest = await parts.store.oldest_runnable(tuple(parts.catalog.queues))
    except StoreFailed:
        oldest = {}
    stored = await parts.logs.stored_bytes()
    return (
        *_jobs(parts),
        *(
            Reading(
                gauge="batchq_queue_oldest_runnable_seconds",
                value=max(0.0, (now - since).total_seconds()),
                labels=(queue,),
            )
            for queue, since in oldest.items()
        ),
        *(
            Reading(
                gauge="batchq_queue_blocked_seconds",
                value=max(0.0, (now - since).total_seconds()),
                labels=(queue, reason),
            )
            for queue, reason, since in parts.engine.blocked_heads()
        ),
        *_resources(parts),
        *machine_readings(parts.engine),
        *_server(parts),
        *webhook_readings(parts.webhook_dispatcher, newest=parts.engine.history_feed.last, now=now),
        *(() if stored is None else (Reading(gauge="batchq_logs_bytes", value=stored),)),
    )


def existing_names(parts: ServerParts, label: str) -> Collection[str]:
    """The names that exist for a label of the gauges."""
    accounts = parts.engine.accounts.quotas().directory.accounts
    machines = parts.engine.machines()
    names: Mapping[str, Collection[str]] = {
        "queue": parts.catalog.queues,
        "environment": parts.catalog.environments,
        "account": accounts,
        "resource": parts.catalog.consumables,
        "machine": () if machines is None else {machine.name for machine in machines},
    }
    return names[label]


def _jobs(parts: ServerParts) -> Iterator[Reading]:
    """Every queue has all states, so that a queue without jobs shows 0."""
    unfinished = (Status.SUBMITTED, Status.PENDING, Status.RUNNABLE, Status.STARTING, Status.RUNNING)
    numbers = {(queue, status): 0 for queue in parts.catalog.queues for status in unfinished}
    for group, number in parts.engine.loop.state.counts.read().items():
        if not group.array:
            key = group.queue, group.status
            numbers[key] = numbers.get(key, 0) + number
    for (queue, status), number in numbers.items():
        yield Reading(gauge="batchq_jobs", value=number, labels=(queue, status.value))


def _resources(parts: ServerParts) -> Iterator[Reading]:
    usage = parts.engine.usage()
    for name, environment in parts.catalog.environments.items():
        yield Reading(gauge="batchq_vcpus", value=environment.max_millicpus / 1000, labels=(name, "limit"))
        yield Reading(gauge="batchq_vcpus", value=usage.sums.get(vcpus(name), 0) / 1000, labels=(name, "reserved"))
    machines = parts.engine.machines()
    host = None if machines is None else total(machine.resources for machine in machines)
    for gauge, limit, dimension, unit in (
        ("batchq_memory_bytes", None if host is None else host.memory_mib, MEMORY, MIB),
        ("batchq_gpus", None if host is None else host.gpus, GPUS, 1),
    ):
        if limit is not None:
            yield Reading(gauge=gauge, value=limit * unit, labels=("limit",))
        yield Reading(gauge=gauge, value=usage.sums.get(dimension, 0) * unit, labels=("reserved",))
    for account, limit in parts.engine.accounts.quotas().millicpus.items():
        yield Reading(gauge="batchq_account_vcpus", value=limit / 1000, labels=(account, "limit"))
    for account, millicpus in usage.accounts.items():
        yield Reading(gauge="batchq_account_vcpus", value=millicpus / 1000, labels=(account, "reserved"))
    for resource in parts.catalog.consumables.values():
        held = usage.sums.get(units(resource.name), 0)
        yield Reading(gauge="batchq_resource_units", value=resource.total, labels=(resource.name, "total"))
        yield Reading(gauge="batchq_resource_units", value=held, labels=(resource.name, "reserved"))


def machine_readings(engine: Engine) -> Iterator[Reading]:
    """The machines by state, and the room of each. Nothing before the container engine has reported its machines."""
    machines = engine.machines()
    if machines is None:
        return
    numbers = Counter(machine.state for machine in machines)
    for state in MachineState:
        yield Reading(gauge="batchq_machines", value=numbers[state], labels=(state.value,))
    held = engine.usage().held()
    for machine in machines:
        name, resources = machine.name, machine.resources
        millicpus, memory_mib, gpus, _ = held.get(name, NOTHING)
        for gauge, limit, reserved in (
            ("batchq_machine_vcpus", resources.millicpus / 1000, millicpus / 1000),
            ("batchq_machine_memory_bytes", resources.memory_mib * MIB, memory_mib * MIB),
            *([("batchq_machine_gpus", resources.gpus, gpus)] if resources.gpus else []),
        ):
            yield Reading(gauge=gauge, value=limit, labels=(name, "limit"))
            yield Reading(gauge=gauge, value=reserved, labels=(name, "reserved"))


def _server(parts: ServerParts) -> Iterator[Reading]:
    health = parts.engine.health()
    yield Reading(gauge="batchq_engine_up", value=float(health.engine is None))
    yield Reading(gauge="batchq_store_up", value=float(health.store is None))
    yield Reading(gauge="batchq_safe_mode", value=float(health.safe_mode is not None))
    yield Reading(gauge="batchq_event_loop_late_seconds", value=parts.loop_watchdog.longest_delay().total_seconds())
    feed = parts.engine.history_feed
    yield Reading(gauge="batchq_watchers", value=feed.waiting + parts.logs.followers)
    yield Reading(gauge="batchq_feed_number", value=feed.last)
    yield Reading(gauge="batchq_store_bytes", value=parts.store.size())
    with suppress(StoreFailed):  # what cannot be measured is absent
        yield Reading(gauge="batchq_disk_free_bytes", value=parts.disk_guard.free())
    labels = (__version__, parts.settings.runtime.value, parts.store.instance)
    yield Reading(gauge="batchq_info", value=1, labels=labels)
