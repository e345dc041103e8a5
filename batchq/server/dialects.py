"""The dialects of the API with the services that they use."""

from functools import partial

from batchq.accounts.admin import AccountAdmin
from batchq.api.auth.authentication import KeyAuthentication
from batchq.api.batch import routes as batch
from batchq.api.batch.context import BatchContext
from batchq.api.batch.validation import ServerLimits
from batchq.api.console import routes as console
from batchq.api.console.context import ConsoleContext
from batchq.api.console.refresh import Hints, Load, SharedFragments
from batchq.api.http.http import Dialect
from batchq.api.http.page_tokens import PageTokens
from batchq.api.logs import routes as cloudwatch
from batchq.api.metrics import routes as monitoring
from batchq.api.metrics.routes import Metrics, MetricsContext, token_in
from batchq.api.native import accounts, bulk_stop, costs, job_details, job_search, jobs, long_polls, overview
from batchq.api.training.common.training_jobs import BucketFolders
from batchq.api.training.modelarts import operations as modelarts
from batchq.api.training.modelarts.context import ModelArtsContext, read_settings
from batchq.api.training.rest import operations as training
from batchq.api.training.rest.context import TrainingContext
from batchq.api.training.sagemaker import routes as sagemaker
from batchq.api.training.sagemaker.create_job import S3, CreateLimits
from batchq.api.training.sagemaker.job_document import is_training_job
from batchq.domain import status_reasons
from batchq.domain.container import Resources
from batchq.ports.clock import Clock
from batchq.server.health import Parts, existing_names, health, is_alive, is_ready, read_gauges
from batchq.server.listeners import uses_accounts
from batchq.services.direct_submission import DirectSubmissionService
from batchq.services.job_log import LogFollower
from batchq.services.job_reads import NamedJobService, TrainingLogStreams
from batchq.services.log_windows import LogPages
from batchq.services.overview import OverviewService
from batchq.services.records import AuditRecordService, EventService
from batchq.settings import Privileged, Settings, shown_settings
from batchq.system.clock import wall_time
from batchq.system.host import host_resources


def make_dialects(
    settings: Settings,
    parts: Parts,
    clock: Clock,
    tokens: PageTokens,
    *,
    metrics: Metrics,
    logins: accounts.ConsoleLoginContext,
) -> tuple[Dialect, ...]:
    named = NamedJobService(parts.job_search, is_named=is_training_job)
    logs_context = cloudwatch.LogsContext(
        logs=parts.logs,
        account=settings.account_id,
        region=settings.region,
        tokens=tokens,
        training=TrainingLogStreams(named),
        since=min((environment.created_at for environment in parts.catalog.environments.values()), default=clock.now()),
    )
    return (
        batch.dialect(make_batch_context(settings, parts, clock, tokens)),
        training.dialect(make_training_context(settings, parts, clock, tokens)),
        cloudwatch.dialect(logs_context),
        sagemaker.dialect(make_sagemaker_context(settings, parts, clock, tokens, named)),
        modelarts.dialect(make_modelarts_context(settings, parts, clock)),
        *read_dialects(settings, parts, clock, tokens),
        long_polls.operations.dialect(long_polls.EventsContext(events=EventService(parts.engine.history_feed))),
        long_polls.log_operations.dialect(make_job_log(parts, clock)),
        bulk_stop.operations.dialect(parts.bulk_stops),
        costs.operations.dialect(costs.CostContext(costs=parts.costs, jobs=parts.jobs)),
        costs.budget_operations.dialect(parts.budgets),
        jobs.operations.dialect(parts.jobs),
        jobs.queue_operations.dialect(parts.catalog),
        jobs.checkpoint_operations.dialect(parts.checkpoints),
        accounts.dialect(AccountAdmin(settings.data, now=wall_time)),
        monitoring.dialect(make_metrics_context(settings, parts, clock, metrics)),
        accounts.audit_operations.dialect(accounts.AuditContext(records=make_audit_records(parts), tokens=tokens)),
        accounts.login_operations.dialect(logins),
        console.dialect(make_console_context(settings, parts, clock, tokens, logins.keys)),
    )


def make_job_log(parts: Parts, clock: Clock) -> LogFollower:
    return LogFollower(store=parts.store, logs=parts.logs, feed=parts.engine.history_feed, clock=clock)


def make_audit_records(parts: Parts) -> AuditRecordService:
    return AuditRecordService(audit=parts.audit, jobs=parts.jobs)


def make_batch_context(settings: Settings, parts: Parts, clock: Clock, tokens: PageTokens) -> BatchContext:
    return BatchContext(
        jobs=parts.jobs,
        catalog=parts.catalog,
        explanations=parts.explanations,
        clock=clock,
        account=settings.account_id,
        region=settings.region,
        tokens=tokens,
        limits=ServerLimits(
            min_timeout=settings.min_timeout,
            vcpus=host_resources().millicpus // 1000,
            privileged=settings.privileged is not Privileged.REFUSE,
        ),
    )


def make_console_context(
    settings: Settings, parts: Parts, clock: Clock, tokens: PageTokens, keys: KeyAuthentication | None
) -> ConsoleContext:
    events, pressure = EventService(parts.engine.history_feed), Load(lambda: parts.loop_watchdog.latest_delay)
    return ConsoleContext(
        overviews=OverviewService(engine=parts.engine, store=parts.store, catalog=parts.catalog, clock=clock),
        explanations=parts.explanations,
        jobs=parts.jobs,
        search=parts.job_search,
        job_log=make_job_log(parts, clock),
        log_windows=LogPages(job_logs=make_job_log(parts, clock), logs=parts.logs),
        events=events,
        pressure=pressure,
        hints=Hints(events=events, clock=clock, pressure=pressure),
        live_parts=SharedFragments(events=events, clock=clock),
        catalog=parts.catalog,
        bulk_stops=parts.bulk_stops,
        checkpoints=parts.checkpoints,
        costs=parts.costs,
        budgets=parts.budgets,
        accounts=AccountAdmin(settings.data, now=wall_time),
        audit=make_audit_records(parts),
        system_settings=shown_settings(settings),
        health=lambda: health(settings, parts, clock),
        tokens=tokens,
        clock=clock,
        batch=batch.InProcessCalls(make_batch_context(settings, parts, clock, tokens)),
        keys=keys,
        account=settings.account_id,
        region=settings.region,
    )


def make_training_context(settings: Settings, parts: Parts, clock: Clock, tokens: PageTokens) -> TrainingContext:
    return TrainingContext(
        jobs=parts.jobs,
        direct=DirectSubmissionService(jobs=parts.jobs, definitions=parts.catalog.definitions, clock=clock),
        search=parts.job_search,
        job_log=make_job_log(parts, clock),
        events=EventService(parts.engine.history_feed),
        costs=parts.costs,
        checkpoints=parts.checkpoints,
        tokens=tokens,
        clock=clock,
        min_timeout=settings.min_timeout,
    )


def make_modelarts_context(settings: Settings, parts: Parts, clock: Clock) -> ModelArtsContext:
    def capacity() -> Resources:
        cluster = parts.engine.scheduler_state().cluster
        return host_resources() if cluster is None else cluster.host

    return ModelArtsContext(
        jobs=parts.jobs,
        submissions=DirectSubmissionService(jobs=parts.jobs, definitions=parts.catalog.definitions, clock=clock),
        search=parts.job_search,
        catalog=parts.catalog,
        logs=make_job_log(parts, clock),
        clock=clock,
        settings=read_settings(settings.modelarts_config),
        capacity=capacity,
        engine_answers=lambda: parts.engine.start_obstacle() != status_reasons.ENGINE_AWAY,
    )


def make_sagemaker_context(
    settings: Settings, parts: Parts, clock: Clock, tokens: PageTokens, named: NamedJobService
) -> sagemaker.SageMakerContext:
    return sagemaker.SageMakerContext(
        jobs=parts.jobs,
        submissions=DirectSubmissionService(jobs=parts.jobs, definitions=parts.catalog.definitions, clock=clock),
        search=parts.job_search,
        named=named,
        metrics=parts.costs.metrics,
        catalog=parts.catalog,
        tokens=tokens,
        account=settings.account_id,
        region=settings.region,
        limits=CreateLimits(min_timeout=settings.min_timeout, folders=BucketFolders(settings.s3_root, S3)),
    )


def read_dialects(settings: Settings, parts: Parts, clock: Clock, tokens: PageTokens) -> tuple[Dialect, ...]:
    """The native operations that read jobs."""
    context = job_search.SearchContext(
        jobs=parts.jobs,
        search=parts.job_search,
        overviews=OverviewService(engine=parts.engine, store=parts.store, catalog=parts.catalog, clock=clock),
        explanations=parts.explanations,
        tokens=tokens,
        account=settings.account_id,
        region=settings.region,
    )
    return (
        job_search.operations.dialect(context),
        job_details.operations.dialect(context),
        overview.operations.dialect(context),
    )


def make_metrics_context(settings: Settings, parts: Parts, clock: Clock, metrics: Metrics) -> MetricsContext:
    file = settings.metrics_token_file
    return MetricsContext(
        metrics=metrics,
        read=lambda: read_gauges(settings, parts, clock),
        existing=partial(existing_names, parts),
        token=None if not uses_accounts(settings) else lambda: None if file is None else token_in(file),
        alive=lambda: is_alive(parts),
        ready=lambda: is_ready(parts),
    )
