"""Webhooks in SQL. Each function runs inside one transaction. The ports document them."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from sqlite3 import Connection

from msgspec.json import Decoder

from batchq.domain.times import microseconds
from batchq.domain.webhooks import DeliveryProgress, Webhook, WebhookId
from batchq.ports.webhooks import StoredWebhook
from batchq.store import rows
from batchq.store.statements import Row, execute_each, load_statements

SQL = load_statements("webhooks.sql")

WEBHOOK = Decoder(Webhook)
DELIVERY_PROGRESS = Decoder(DeliveryProgress)

log = logging.getLogger(__name__)


def all_webhooks(connection: Connection) -> Sequence[StoredWebhook]:
    return tuple(_readable(connection))


def _readable(connection: Connection) -> Iterator[StoredWebhook]:
    """The readable rows. The value of an unreadable one is not logged: it contains secrets."""
    for webhook_id, value, progress in connection.execute(SQL["webhooks"]):
        try:
            yield StoredWebhook(webhook=WEBHOOK.decode(value), progress=DELIVERY_PROGRESS.decode(progress))
        except rows.DECODE_ERRORS:
            log.warning("webhook %s is unreadable and delivers nothing", webhook_id)


def put_webhook(connection: Connection, stored: StoredWebhook) -> None:
    connection.execute(
        SQL["put_webhook"],
        {
            "id": stored.webhook.id,
            "created_at": microseconds(stored.webhook.created_at),
            "value": rows.as_json(stored.webhook),
            "progress": rows.as_json(stored.progress),
        },
    )


def drop_webhook(connection: Connection, webhook_id: WebhookId) -> None:
    connection.execute(SQL["delete_webhook"], {"id": webhook_id})


def save_progress(connection: Connection, progress: Mapping[WebhookId, DeliveryProgress]) -> None:
    changed: list[Row] = [{"id": name, "progress": rows.as_json(each)} for name, each in progress.items()]
    execute_each(connection, SQL["put_progress"], changed)
