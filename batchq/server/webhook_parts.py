"""The parts of a server that deliver events to webhooks."""

from batchq.accounts.files import AccountsFile
from batchq.api.native.long_polls import event_answer
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
