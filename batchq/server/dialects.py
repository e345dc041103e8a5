"""The dialects of the API, and the parts of the server that their handlers use."""

from datetime import datetime
from functools import partial

from batchq.accounts.admin import AccountAdmin
from batchq.api.auth.authentication import KeyAuthentication
from batchq.api.batch import routes as batch
from batchq.api.console import routes as console
from batchq.api.console.activity_pictures import PictureCache
from batchq.api.console.refresh import ChangeNotices, Load, SharedFragments
from batchq.api.console.state import ConsoleState
from batchq.api.http.http import Dialect
from batchq.api.http.page_tokens import PageTokens
from batchq.api.logs import routes as cloudwatch
from batchq.api.metrics import routes as monitoring
from batchq.api.metrics.routes import Metrics, token_in
from batchq.api.native import (
    accounts,
    activity,
    bulk_stop,
    costs,
    definition_use,
    exec_command,
    groups,
    job_details,
    job_search,
    jobs,
    long_polls,
    machines,
    overview,
    webhooks,
)
from batchq.api.operations.parts import Monitoring, Parts, ServerLimits, Services
from batchq.api.training.common.training_jobs import root_names
from batchq.api.training.modelarts import operations as modelarts
from batchq.api.training.modelarts.context import ModelArtsSettings, read_settings
from batchq.api.training.rest import operations as training
from batchq.api.training.sagemaker import routes as sagemaker
from batchq.api.training.sagemaker.job_document import is_training_job
from batchq.audit import Journal
from batchq.compute.kubernetes.connection import load_cluster
from batchq.domain import status_reasons
from batchq.domain.container import Resources
from batchq.server.facts import system_facts
from batchq.server.health import ServerParts, existing_names, health, is_alive, is_ready, read_gauges
from batchq.server.listeners import caller_reader, uses_accounts
from batchq.services.exec_sessions import ExecLimits, ExecService
from batchq.services.job_log import LogFollower
from batchq.services.job_reads import NamedJobService, TrainingLogStreams
from batchq.services.job_views import JobViewService
from batchq.services.log_windows import LogPages
from batchq.services.overview import OverviewService
from batchq.services.records import AuditRecordService, EventService
from batchq.settings import Privileged, Settings, shown_settings
from batchq.system.clock import wall_time
from batchq.system.host import host_resources


def make_dialects(parts: Parts) -> tuple[Dialect, ...]:
    tables = (
        job_search.operations,
        groups.operations,
        machines.operations,
        job_details.operations,
        overview.operations,
        activity.operations,
        long_polls.operations,
        long_polls.log_operations,
        bulk_stop.operations,
        exec_command.operations,
        costs.operations,
        definition_use.operations,
        webhooks.operations,
        jobs.operations,
        jobs.queue_operations,
        accounts.admin_operations,
        accounts.operations,
    )
    for root in (parts.limits.s3_root, parts.state(ModelArtsSettings).obs_root):
        if root is not None:
            root_names(root)
    modules = batch, training, cloudwatch, sagemaker, modelarts, monitoring, console
    return *(table.dialect(parts) for table in tables), *(module.dialect(parts) for module in modules)


def make_parts(server: ServerParts, tokens: PageTokens, *, metrics: Metrics, keys: KeyAuthentication | None) -> Parts:
    """Raises StartImpossible for a file of ModelArts settings that cannot be used."""
    settings, engine, clock = server.settings, server.engine, server.clock
    events, named = EventService(engine.history_feed), NamedJobService(server.search, is_named=is_training_job)
    job_log = LogFollower(store=server.store, logs=server.logs, feed=engine.history_feed, clock=clock)
    return Parts(
        **{name: getattr(server, name) for name in Services.__struct_fields__},
        views=make_views(server),
        named=named,
        overviews=make_overviews(server),
        events=events,
        training_logs=TrainingLogStreams(named),
        job_log=job_log,
        log_windows=LogPages(job_logs=job_log, logs=server.logs),
        accounts=AccountAdmin(settings.data, now=wall_time),
        audit=AuditRecordService(audit=server.audit, jobs=server.jobs),
        tokens=tokens,
        account=settings.account_id,
        region=settings.region,
        limits=make_limits(settings),
        installed_at=installed_at(server),
        system_settings=shown_settings(settings),
        capacity=partial(machine_capacity, server),
        runtime_answers=lambda: engine.start_obstacle() != status_reasons.ENGINE_AWAY,
        monitoring=make_monitoring(server, metrics),
        keys=keys,
        batch_calls=batch.InProcessCalls,
        states=make_states(server, events),
    )


def make_overviews(server: ServerParts) -> OverviewService:
    return OverviewService(
        engine=server.engine,
        store=server.store,
        catalog=server.catalog,
        clock=server.clock,
        currency=server.budgets.currency,
    )


def make_views(server: ServerParts) -> JobViewService:
    return JobViewService(
        jobs=server.jobs,
        definitions=server.catalog.definitions,
        explanations=server.explanations,
        search=server.search,
        costs=server.costs,
        checkpoints=server.checkpoints,
    )


def make_exec_sessions(server: ServerParts) -> ExecService:
    settings = server.settings
    return ExecService(
        engine=server.engine,
        jobs=server.jobs,
        journal=Journal(settings.data),
        clock=server.clock,
        limits=ExecLimits(sessions=settings.exec_sessions, idle=settings.exec_idle),
        present_caller=caller_reader(settings),
    )


def make_limits(settings: Settings) -> ServerLimits:
    return ServerLimits(
        min_timeout=settings.min_timeout,
        vcpus=host_resources().millicpus // 1000,
        privileged=settings.privileged is not Privileged.REFUSE,
        s3_root=settings.s3_root,
        kubernetes_namespace=None if settings.kubernetes is None else load_cluster(settings.kubernetes).namespace,
    )


def installed_at(server: ServerParts) -> datetime:
    """When the first compute environment was created."""
    environments = server.catalog.environments.values()
    return min((environment.created_at for environment in environments), default=server.clock.now())


def machine_capacity(server: ServerParts) -> Resources:
    cluster = server.engine.scheduler_state().cluster
    return host_resources() if cluster is None else cluster.host


def make_monitoring(server: ServerParts, metrics: Metrics) -> Monitoring:
    file = server.settings.metrics_token_file
    return Monitoring(
        health=lambda: health(server),
        facts=partial(system_facts, server, server.clock.now()),
        is_alive=lambda: is_alive(server),
        is_ready=lambda: is_ready(server),
        scrape=lambda: metrics.scrape(lambda: read_gauges(server), partial(existing_names, server)),
        token=None if not uses_accounts(server.settings) else lambda: None if file is None else token_in(file),
    )


def make_states(server: ServerParts, events: EventService) -> dict[type, object]:
    """What single dialects keep between requests."""
    load = Load(lambda: server.loop_watchdog.latest_delay)
    notices = ChangeNotices(events=events, clock=server.clock, load=load)
    fragments = SharedFragments(events=events, clock=server.clock)
    return {
        ConsoleState: ConsoleState(
            load=load, notices=notices, fragments=fragments, pictures=PictureCache(server.clock)
        ),
        ModelArtsSettings: read_settings(server.settings.modelarts_config),
        ExecService: make_exec_sessions(server),
        long_polls.EncodedEvents: long_polls.EncodedEvents(),
    }
