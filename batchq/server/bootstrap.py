"""The composition root: constructs the parts of a server; it starts and stops them in order."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from typing import NamedTuple

from aiohttp import web
from msgspec import Struct

from batchq.accounts.files import AccountsFile
from batchq.api.http.page_tokens import PageTokens
from batchq.api.metrics.routes import Metrics
from batchq.api.serving import app as http
from batchq.api.serving.server import ListeningSite
from batchq.audit import AuditLog, Journal
from batchq.compute.observed_runtime import ObservedRuntime
from batchq.compute.secrets import is_world_readable
from batchq.compute.simulated.script import NO_OUTCOMES, Outcomes
from batchq.domain.access.accounts import Directory
from batchq.domain.prices import Prices
from batchq.domain.scheduling.quotas import Quotas
from batchq.engine.account_limits import AccountPolicies
from batchq.engine.activity import ActivityRecorder
from batchq.engine.engine import Engine
from batchq.engine.loop_watchdog import LoopWatchdog
from batchq.engine.mailbox import Mailbox
from batchq.engine.pruner import Pruner
from batchq.errors import StartImpossible
from batchq.logs.quota import AccountLogs, LogQuota
from batchq.logs.service import CloudWatchLogs
from batchq.ports.clock import Clock
from batchq.ports.observer import Observer
from batchq.ports.runtime import ContainerRuntime
from batchq.server.dialects import make_dialects, make_parts
from batchq.server.engines import able_engines, engines_of
from batchq.server.health import ServerParts
from batchq.server.listeners import (
    GatedListener,
    authentication,
    connection_limits,
    open_listeners,
    uses_accounts,
    with_gates,
    with_inherited_sockets,
)
from batchq.server.price_file import load_prices
from batchq.server.runtimes import check_engine, make_pod_policy, make_runtime, most_millicpus, open_runtime
from batchq.server.webhook_parts import make_webhooks
from batchq.services.bulk_stop import BulkStopService
from batchq.services.catalog import CatalogService
from batchq.services.costs import BudgetService, CostService
from batchq.services.explanations import ExplanationService
from batchq.services.job_reads import JobSearchService
from batchq.services.jobs import JobService
from batchq.services.submissions import SubmissionService
from batchq.services.training import CheckpointService, MetricsService
from batchq.settings import Runtime, Settings
from batchq.store.checkpoint_files import CheckpointFiles, modified_at
from batchq.store.lock import hold_instance
from batchq.store.log_files import LogFiles
from batchq.store.reserve import SIZE as RESERVE
from batchq.store.sqlite_store import SqliteStore
from batchq.system.clock import SystemClock, align
from batchq.system.host import MIB, DiskGuard, free_disk

RESPONSE_TIMEOUT = 1.0  # seconds at shutdown for sending the responses of requests that were in progress


class Serving(Struct, frozen=True, kw_only=True):
    """A server that is ready."""

    #: Of TCP, and of the unix socket.
    urls: tuple[str, ...]
    #: Waits until the server has lost its database for good, and returns the reason.
    wait_until_lost: Callable[[], Awaitable[str]]


@asynccontextmanager
async def serving(settings: Settings, *, outcomes: Outcomes = NO_OUTCOMES) -> AsyncIterator[Serving]:
    """Start a server, yield it when it is ready, and stop it at the end. `outcomes`: of simulated containers.

    Parts stop in the reverse order of their start: the HTTP server, the engine, the database. Raises StartImpossible;
    StoreRefused for the data directory; Unavailable if the port is in use or a file of keys cannot be used.
    """
    settings, inherited = with_inherited_sockets(settings)
    check_secrets(settings)
    check_engine(settings)
    async with AsyncExitStack() as stack:
        listeners, clock = stack.enter_context(open_listeners(settings, inherited)), SystemClock()
        store = await open_store(settings)
        stack.push_async_callback(store.close)
        stack.enter_context(hold_instance(store.instance, settings.data))
        await align(store, clock)
        metrics = Metrics(now=clock.now)
        make = partial(make_runtime, settings=settings, instance=store.instance, clock=clock, outcomes=outcomes)
        runtime = ObservedRuntime(await open_runtime(stack, make, engines_of(settings), clock), metrics.engine)
        archive = stack.enter_context(closing(LogFiles(settings.data / "logs")))
        checkpoints = stack.enter_context(closing(make_checkpoints(settings, clock)))
        parts = assemble(settings, Ports(store, runtime, archive, checkpoints, clock), metrics.engine)
        stack.push_async_callback(parts.logs.close)
        await load_stored(stack, settings, parts, runtime)
        stack.push_async_callback(parts.engine.stop)
        await parts.engine.start()
        supervise(parts)
        tokens, keys = PageTokens(await store.secret()), authentication(settings, clock, instance=store.instance)
        shared = make_parts(parts, tokens, metrics=metrics, keys=keys)
        build = partial(
            http.build,
            dialects=make_dialects(shared),
            health=shared.monitoring.health,
            hosts={settings.host, *settings.allowed_hosts},
            requests=metrics.requests,
        )
        for listener in with_gates(listeners, settings, clock, keys):
            shared.urls.append(await start_site(stack, settings, listener, build))
        stack.callback(parts.engine.history_feed.close)
        store.announce(shared.urls[0])
        yield Serving(urls=tuple(shared.urls), wait_until_lost=parts.engine.store_monitor.lost)


async def open_store(settings: Settings) -> SqliteStore:
    least_free = settings.min_free_mib * MIB
    return await SqliteStore.open(settings.data, reserve=RESERVE if least_free else 0, min_free=least_free // 2)


async def start_site(
    stack: AsyncExitStack, settings: Settings, listener: GatedListener, build: Callable[..., web.Application]
) -> str:
    """Build an application with the listener's gate, serve it at the listener, and return its URL."""
    runner = http.runner(build(gate=listener.gate, signed=listener.signed), drain_seconds=RESPONSE_TIMEOUT)
    stack.push_async_callback(runner.cleanup)
    await runner.setup()
    limits = connection_limits(settings)
    site = ListeningSite(
        runner, listener=listener.listener, certificate=listener.certificate, limits=limits, path=listener.path
    )
    await site.start()
    return site.name


async def load_stored(stack: AsyncExitStack, settings: Settings, parts: ServerParts, runtime: ContainerRuntime) -> None:
    """Read what is in memory while the server runs, beside the engine's state."""
    await parts.catalog.load()
    await parts.catalog.install_defaults(max_millicpus=await most_millicpus(settings, runtime))
    await parts.webhook_dispatcher.load()
    stack.push_async_callback(parts.webhook_dispatcher.close)


def supervise(parts: ServerParts) -> None:
    """Start the background loops that do not belong to the engine, under its supervisor."""
    parts.engine.tasks.supervise("event loop", parts.loop_watchdog.run)
    parts.engine.tasks.supervise("pruning", parts.pruner.run)
    parts.engine.tasks.supervise("audit", parts.audit.run)
    parts.engine.tasks.supervise("activity", parts.activity.run)
    parts.engine.tasks.supervise("webhooks", parts.webhook_dispatcher.run)


def check_secrets(settings: Settings) -> None:
    """Raise StartImpossible if every user of the machine may read the secrets file or the token of /metrics."""
    for file in (settings.secrets_file, settings.metrics_token_file):
        if file is not None and is_world_readable(file):
            raise StartImpossible(f"all users can read the secrets in {file}: chmod 600 {file}")


def make_disk_guard(settings: Settings) -> DiskGuard:
    return DiskGuard(free=partial(free_disk, settings.data), min_free=settings.min_free_mib * MIB)


def make_checkpoints(settings: Settings, clock: Clock) -> CheckpointFiles:
    """The checkpoint directories. Simulated containers set the times of their files; real ones cannot be trusted."""
    if settings.runtime is Runtime.SIMULATED:
        return CheckpointFiles(settings.checkpoint_root, now=clock.now, changed_at=modified_at)
    return CheckpointFiles(settings.checkpoint_root)


def make_accounts(settings: Settings) -> tuple[Callable[[], Directory], AccountPolicies]:
    """How to read the accounts and users, and the policies that follow from them."""
    directory = AccountsFile(settings.data).load
    return directory, AccountPolicies(directory=directory, enforced=uses_accounts(settings))


class Ports(NamedTuple):
    """The concrete classes that a server's parts use."""

    store: SqliteStore
    runtime: ContainerRuntime
    archive: LogFiles
    checkpoints: CheckpointFiles
    clock: Clock


def assemble(settings: Settings, ports: Ports, observer: Observer) -> ServerParts:
    """Raises StartImpossible for a file of prices that cannot be used."""
    store, _, archive, checkpoints, clock = ports
    prices = load_prices(settings.prices)
    (directory, accounts), inbox, guard = make_accounts(settings), Mailbox(), make_disk_guard(settings)
    stored = AccountLogs(store=store, archive=archive)
    logs = make_logs(settings, ports, quotas=accounts.quotas, usage=stored, disk_guard=guard)
    catalog = CatalogService(store=store, jobs=store, clock=clock, disk_guard=guard, changed=inbox.catalog_changed)
    metrics = MetricsService(logs=logs, checkpoints=checkpoints)
    engine = make_engine(settings, ports, inbox, catalog, accounts, logs=logs, metrics=metrics, observer=observer)
    catalog.consumable_resources.usage, catalog.unit_lock = engine, engine.loop.unit_lock
    dispatcher, webhooks = make_webhooks(settings, engine, store=store, catalog=catalog, clock=clock)
    return ServerParts(
        settings=settings,
        clock=clock,
        store=store,
        catalog=catalog,
        engine=engine,
        logs=logs,
        jobs=JobService(engine=engine, store=store, catalog=catalog),
        submissions=make_submissions(settings, ports, engine=engine, catalog=catalog, disk_guard=guard, prices=prices),
        explanations=ExplanationService(engine=engine, store=store),
        bulk_stops=make_bulk_stops(engine, store, directory, catalog),
        search=JobSearchService(engine=engine, store=store, directory=directory, queues=catalog.queues_of),
        checkpoints=CheckpointService(
            engine=engine, store=store, checkpoints=checkpoints, journal=Journal(settings.data), clock=clock
        ),
        costs=CostService(engine=engine, store=store, metrics=metrics, checkpoints=checkpoints, clock=clock),
        budgets=BudgetService(engine=engine, directory=directory, queues=catalog.queues_of, prices=prices),
        webhooks=webhooks,
        webhook_dispatcher=dispatcher,
        loop_watchdog=LoopWatchdog(clock),
        pruner=make_pruner(settings, engine, store=store, archive=stored, clock=clock),
        activity=ActivityRecorder(engine=engine, store=store, catalog=catalog, clock=clock, prices=prices),
        audit=AuditLog(store=store, journal=Journal(settings.data), clock=clock, retention=settings.audit),
        disk_guard=guard,
    )


def make_logs(
    settings: Settings, ports: Ports, *, quotas: Callable[[], Quotas], usage: AccountLogs, disk_guard: DiskGuard
) -> CloudWatchLogs:
    limit = settings.log_mib or None
    quota = LogQuota(container_mib=limit, disk_guard=disk_guard, quotas=quotas, usage=usage, clock=ports.clock)
    return CloudWatchLogs(
        store=ports.store,
        archive=ports.archive,
        runtime=ports.runtime,
        clock=ports.clock,
        quota=quota,
        is_following=settings.kubernetes_follow,
    )


def make_bulk_stops(
    engine: Engine, store: SqliteStore, directory: Callable[[], Directory], catalog: CatalogService
) -> BulkStopService:
    return BulkStopService(
        engine=engine,
        store=store,
        directory=directory,
        queues=catalog.queues_of,
        environments=lambda: catalog.environments,
    )


def make_engine(
    settings: Settings,
    ports: Ports,
    mailbox: Mailbox,
    catalog: CatalogService,
    accounts: AccountPolicies,
    *,
    logs: CloudWatchLogs,
    metrics: MetricsService,
    observer: Observer,
) -> Engine:
    return Engine(
        mailbox=mailbox,
        store=ports.store,
        catalog=catalog,
        runtime=ports.runtime,
        accounts=accounts,
        checkpoints=ports.checkpoints,
        checkpoint_retention=settings.checkpoint_retention,
        capture_log=logs.capture,
        follow_logs=logs.on_saved,
        read_metrics=metrics.of_ended,
        clock=ports.clock,
        survey_interval=settings.survey_every,
        observer=observer,
    )


def make_submissions(
    settings: Settings,
    ports: Ports,
    *,
    engine: Engine,
    catalog: CatalogService,
    disk_guard: DiskGuard,
    prices: Prices | None,
) -> SubmissionService:
    engines = engines_of(settings)
    select = partial(able_engines, engines, catalog, make_pod_policy(settings))
    return SubmissionService(
        engine=engine,
        store=ports.store,
        catalog=catalog,
        clock=ports.clock,
        disk_guard=disk_guard,
        checkpoint_guard=ports.checkpoints.disk_guard(min_free=settings.min_free_mib * MIB),
        stop_grace=settings.grace,
        able_engines=select if Runtime.KUBERNETES in engines else None,
        prices=prices,
    )


def make_pruner(
    settings: Settings, engine: Engine, *, store: SqliteStore, archive: AccountLogs, clock: Clock
) -> Pruner:
    return Pruner(
        store=store,
        archive=archive,
        clock=clock,
        retention=settings.retention,
        unit_lock=engine.loop.unit_lock,
        jobs_with_containers=lambda: engine.loop.state.jobs_with_containers,
    )
