"""The requests of webhooks: the signed JSON of Standard Webhooks, and messages for Slack, Discord, ntfy and Matrix.

A message has an id that is the same for each try, by which the receiver recognizes a repetition. Names and reasons in
its text are chosen by users, so that no format may take them for markup, a mention or a header.
"""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct, to_builtins

from batchq.domain.enums import DeliveryKind, EventKind, Status, WebhookFormat
from batchq.domain.ids import short_id
from batchq.domain.times import EPOCH
from batchq.domain.webhooks import PendingDelivery, Webhook
from batchq.ports.responses.records import EventResponse
from batchq.ports.webhooks import OutgoingRequest
from batchq.system.escapes import escape
from batchq.webhooks.signatures import signature_header

MAX_TEXT = 1500  # characters of a message in a chat; Discord permits 2,000
_MESSAGES = UUID("0b9fbb2c-9d61-4c43-8d2a-6b6f6f3f7c11")  # the namespace of message ids


class WebhookMessage(Struct, frozen=True, kw_only=True):
    """A message, in terms of no format."""

    #: The same for each try.
    id: str
    #: As `job.failed`.
    type: str
    at: datetime
    #: The member `data` of Standard Webhooks.
    data: Mapping[str, object] | EventResponse
    #: For people, in one line.
    text: str


def event_message(event: EventResponse, kind: EventKind, *, instance: str) -> WebhookMessage:
    """`instance`: the permanent name of the server's data."""
    name = "group.ended" if kind is EventKind.GROUP_ENDED else f"job.{kind.lower()}"
    return WebhookMessage(
        id=_message_id(instance, str(event.number)),
        type=name,
        at=EPOCH + timedelta(milliseconds=event.at),
        data=event,
        text=_event_text(event),
    )


def gap_message(delivery: PendingDelivery, now: datetime, *, instance: str) -> WebhookMessage:
    """Events after the number of the delivery may be missing."""
    assert delivery.kind is DeliveryKind.GAP, delivery
    return WebhookMessage(
        id=_message_id(instance, f"gap after {delivery.number}"),
        type="events.gap",
        at=now,
        data={"after": delivery.number},
        text=f"batchq: events after number {delivery.number} may be missing",
    )


def trial_message(webhook: Webhook, now: datetime, *, instance: str, number: str) -> WebhookMessage:
    """The message of a test. `number`: unique."""
    return WebhookMessage(
        id=_message_id(instance, f"test {number}"),
        type="webhook.test",
        at=now,
        data={"webhookId": webhook.id, "webhookName": webhook.name},
        text=f"batchq: this is a test of the webhook {webhook.name}",
    )


def outgoing_request(webhook: Webhook, message: WebhookMessage, now: datetime) -> OutgoingRequest:
    """The request that delivers the message."""
    headers = {"Authorization": f"Bearer {webhook.token}"} if webhook.token else {}
    text = message.text if len(message.text) <= MAX_TEXT else f"{message.text[: MAX_TEXT - 1]}…"
    match webhook.format:
        case WebhookFormat.STANDARD:
            return _standard_request(webhook, message, headers, now)
        case WebhookFormat.SLACK:
            return _json_request(webhook.url, {"text": _slack_text(text)}, headers)
        case WebhookFormat.DISCORD:
            content = {"content": _discord_text(text), "allowed_mentions": {"parse": []}, "flags": 4}
            return _json_request(webhook.url, content, headers)
        case WebhookFormat.NTFY:
            about = {"Content-Type": "text/plain; charset=utf-8", "Title": "batchq", "Tags": message.type}
            return OutgoingRequest(
                method="POST", url=webhook.url, headers=headers | about, body=text.encode(errors="replace")
            )
        case WebhookFormat.MATRIX:
            content = {"msgtype": "m.notice", "body": text, "m.mentions": {}}
            return _json_request(f"{webhook.url.rstrip('/')}/{message.id}", content, headers, method="PUT")


def _standard_request(
    webhook: Webhook, message: WebhookMessage, headers: Mapping[str, str], now: datetime
) -> OutgoingRequest:
    timestamp = int(now.timestamp())
    body = _json_of({"type": message.type, "timestamp": message.at, "data": message.data})
    signatures = signature_header(webhook.secrets(now), message_id=message.id, timestamp=timestamp, body=body)
    signed = {"webhook-id": message.id, "webhook-timestamp": str(timestamp), "webhook-signature": signatures}
    content = {"Content-Type": "application/json"}
    return OutgoingRequest(method="POST", url=webhook.url, headers={**headers, **content, **signed}, body=body)


def _json_request(
    url: str, content: Mapping[str, object], headers: Mapping[str, str], *, method: str = "POST"
) -> OutgoingRequest:
    about = {**headers, "Content-Type": "application/json"}
    return OutgoingRequest(method=method, url=url, headers=about, body=_json_of(content))


def _json_of(content: Mapping[str, object]) -> bytes:
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can escape
        return json.dumps(to_builtins(content)).encode()


def _message_id(instance: str, name: str) -> str:
    return f"msg_{uuid5(_MESSAGES, f'{instance}/{name}').hex}"


def _event_text(event: EventResponse) -> str:
    """`train FAILED: exit code 1 (job 6f1c2a3b, queue gpu)`."""
    if event.group_end is not None:
        return escape(event.group_end.text)
    has_reason = event.status_reason and event.status is not Status.SUCCEEDED
    reason = f": {event.status_reason}" if has_reason else ""
    what = event.status if event.stop_order is None and event.hold is None else f"{_change(event)}, {event.status}"
    return escape(f"{event.job_name} {what}{reason} (job {short_id(event.job_id)}, queue {event.job_queue})")


def _change(event: EventResponse) -> str:
    if event.stop_order is not None:
        return "stop order"
    assert event.hold is not None, event.number
    return "hold changed"


def _slack_text(text: str) -> str:
    """Slack's escapes: without them `<!channel>` is a mention, and `<URL|text>` a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _discord_text(text: str) -> str:
    """The text with a backslash before each character of Discord's markup."""
    return "".join(f"\\{letter}" if letter in r"\*_~`|<>[]" else letter for letter in text)
