"""The parts of a server that deliver events to webhooks, and their metrics."""

from collections.abc import Iterator
from datetime import datetime

from batchq.accounts.files import AccountsFile
from batchq.api.metrics.gauges import Reading
from batchq.api.native.long_polls import event_answer
from batchq.domain.enums import DeliveryVerdict
from batchq.engine.engine import Engine
from batchq.ports.clock import Clock
from batchq.server.listeners import uses_accounts
from batchq.services.catalog import CatalogService
from batchq.services.webhooks import WebhookService
from batchq.settings import Settings
from batchq.store.sqlite_store import SqliteStore
from batchq.webhooks.dispatcher import WebhookDispatcher
from batchq.webhooks.http_sender import HttpSender


def make_webhooks(
    settings: Settings, engine: Engine, *, store: SqliteStore, catalog: CatalogService, clock: Clock
) -> tuple[WebhookDispatcher, WebhookService]:
    sender, feed, state = HttpSender(settings.webhook_hosts), engine.history_feed, engine.loop.state
    dispatcher = WebhookDispatcher(
        store=store,
        feed=feed,
        sender=sender,
        clock=clock,
        instance=store.instance,
        encode=event_answer,
        directory=AccountsFile(settings.data).load if uses_accounts(settings) else None,
        suspended=lambda: state.safe_mode.active,
    )
    service = WebhookService(dispatcher=dispatcher, sender=sender, feed=feed, queues=catalog.queues_of, clock=clock)
    return dispatcher, service


def webhook_readings(dispatcher: WebhookDispatcher, *, newest: int, now: datetime) -> Iterator[Reading]:
    """The tries by outcome, and what enabled webhooks have not handled. `newest`: the number of the newest event."""
    for verdict in DeliveryVerdict:
        count = dispatcher.outcomes[verdict]
        yield Reading(gauge="batchq_webhook_deliveries_total", value=count, labels=(verdict.value.lower(),))
    enabled = [stored.progress for stored in dispatcher.webhooks.values() if stored.progress.disabled is None]
    waiting = sum(max(0, newest - progress.position) + len(progress.again) for progress in enabled)
    yield Reading(gauge="batchq_webhook_waiting_events", value=waiting)
    failing = [progress.failing_since for progress in enabled if progress.failing_since is not None]
    oldest = max(0.0, (now - min(failing)).total_seconds()) if failing else 0
    yield Reading(gauge="batchq_webhook_oldest_failure_seconds", value=oldest)
