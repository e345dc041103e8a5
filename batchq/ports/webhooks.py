"""The ports of webhooks: their storage, the events they read, and the HTTP client that delivers."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from msgspec import Struct

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.enums import FINISHED, EventKind
from batchq.domain.ids import parent_of
from batchq.domain.webhooks import (
    DeliveryOutcome,
    DeliveryProgress,
    EventSelection,
    Webhook,
    WebhookId,
    matches_pattern,
)
from batchq.ports.history import FeedEntry, FeedFilter, FeedPage

MAX_MATCHED = 256  # cached results of comparisons of a name with patterns


class StoredWebhook(Struct, frozen=True, kw_only=True):
    """A webhook with its progress."""

    webhook: Webhook
    progress: DeliveryProgress


class WebhookStore(Protocol):
    """Storage of webhooks. Each call is one transaction, and raises StoreFailed if it cannot be committed."""

    async def webhooks(self) -> Sequence[StoredWebhook]:
        """All webhooks, oldest first. Unreadable ones are left out."""

    async def put_webhook(self, stored: StoredWebhook, *, caller: Caller | None) -> None:
        """Insert or replace a webhook, with the audit record of the caller."""

    async def delete_webhook(self, webhook: Webhook, *, caller: Caller | None) -> None:
        """Delete a webhook, with the audit record of the caller."""

    async def save_delivery_progress(self, progress: Mapping[WebhookId, DeliveryProgress]) -> None:
        """Save the progress of webhooks. Deleted ones are ignored."""


class EventFeed(Protocol):
    """The events of all jobs."""

    @property
    def last(self) -> int:
        """The number of the newest event."""

    @property
    def closed(self) -> bool:
        """Whether the server shuts down: `page` does not wait."""

    async def page(self, after: int, wanted: FeedFilter, *, limit: int, wait: float, reader: UserName) -> FeedPage:
        """Events above the number `after`: at once if there are any, else within `wait` seconds. Raises StoreFailed."""


class OutgoingRequest(Struct, frozen=True, kw_only=True):
    """An HTTP request that delivers a message."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


class WebhookSender(Protocol):
    """The HTTP client of webhooks. It connects only to addresses that the server's operator permits."""

    def check_url(self, url: str) -> None:
        """Raise Invalid for a URL to which nothing would be sent. The text contains its host only."""

    async def send(self, request: OutgoingRequest, *, user: UserName) -> DeliveryOutcome:
        """Send a request once, for the webhook of a user.

        It never raises an error of the network, and ends within some seconds.
        """

    async def close(self) -> None:
        """Close all connections."""


def selects(webhook: Webhook, entry: FeedEntry) -> bool:
    """Whether the webhook selects the event. Whether its owner may see the job is not checked."""
    return _notifies(webhook, entry) or _matches(webhook.selection, entry)


def _notifies(webhook: Webhook, entry: FeedEntry) -> bool:
    """Whether the event is the end that the job's tag `batchq:notify` requests of this webhook.

    It is the end of the job itself or, for a job of a group, the end of the group.
    """
    if entry.notify != webhook.name or entry.owner.user != webhook.owner.user:
        return False
    if entry.group is not None:
        return entry.entry.kind is EventKind.GROUP_ENDED
    return entry.entry.is_status and entry.entry.status in FINISHED and parent_of(entry.entry.job_id) is None


def _matches(selection: EventSelection, entry: FeedEntry) -> bool:
    kind = entry.entry.kind
    return (
        kind in selection.kinds
        and (selection.children or kind is EventKind.GROUP_ENDED or parent_of(entry.entry.job_id) is None)
        and (not selection.queues or entry.queue in selection.queues)
        and (not selection.accounts or entry.owner.account in selection.accounts)
        and (not selection.users or entry.owner.user in selection.users)
        and (not selection.groups or (entry.group is not None and _matches_any(entry.group, selection.groups)))
        and (not selection.names or _matches_any(entry.job_name, selection.names))
    )


@lru_cache(MAX_MATCHED)
def _matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern matches. The result is cached: children of an array, and events of a job, have one name."""
    return any(matches_pattern(name, pattern) for pattern in patterns)
