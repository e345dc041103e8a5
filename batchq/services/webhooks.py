"""Requests about webhooks: create, list, change, delete, test, and deliver again. Webhooks belong to their creators.

A webhook of another owner is visible to those who see the jobs of that owner. They may disable and delete it, and have
events delivered again, but cannot change where its events go, and cannot get its secret.
"""

import re
import secrets
from collections.abc import Callable, Collection, Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.enums import WebhookFormat
from batchq.domain.ids import QueueName
from batchq.domain.webhooks import (
    MAX_UNDELIVERED,
    SECRET_OVERLAP,
    DeliveryOutcome,
    DeliveryProgress,
    EventSelection,
    Webhook,
    WebhookId,
    check_webhook_name,
    disabled,
    enabled,
    redelivered,
)
from batchq.errors import Forbidden, Invalid, LimitExceeded, NotFound
from batchq.ports.clock import Clock
from batchq.ports.webhooks import EventFeed, StoredWebhook, WebhookSender
from batchq.webhooks.bodies import trial_message
from batchq.webhooks.dispatcher import WebhookDispatcher
from batchq.webhooks.signatures import new_secret

MAX_PER_USER = 20  # webhooks
MAX_WEBHOOKS = 500  # of all users: each has a task that reads all events
_MATRIX_PATH = "/send/m.room.message"
_TOKEN = re.compile(r"[\x21-\x7e]{1,1024}", re.ASCII)


class NewWebhook(Struct, frozen=True, kw_only=True):
    """A webhook to be created."""

    name: str
    url: str
    format: WebhookFormat
    selection: EventSelection
    #: Empty: no header `Authorization`.
    token: str = ""


class WebhookService:
    """Webhooks that are not visible to the caller are treated as missing."""

    def __init__(
        self,
        *,
        dispatcher: WebhookDispatcher,
        sender: WebhookSender,
        feed: EventFeed,
        queues: Callable[[Caller], Collection[QueueName]],
        clock: Clock,
    ) -> None:
        self._dispatcher = dispatcher
        self._sender = sender
        self._feed = feed
        self._queues = queues
        self._clock = clock

    def list(self, *, caller: Caller) -> Sequence[StoredWebhook]:
        """The webhooks that the caller sees, oldest first."""
        return [stored for stored in self._dispatcher.webhooks.values() if caller.reaches(stored.webhook.owner)]

    async def create(self, new: NewWebhook, *, caller: Caller) -> StoredWebhook:
        """Create a webhook, which receives the events from now on.

        Raises Invalid; LimitExceeded; NotFound for a queue; StoreFailed.
        """
        check_webhook_name(new.name)
        self._sender.check_url(new.url)
        _check_format(new)
        for queue in sorted(new.selection.queues - set(self._queues(caller))):
            raise NotFound(f"JobQueue {queue} not found.")
        return await self._dispatcher.add(lambda: self._new(new, caller), caller=caller)

    async def update(
        self, webhook_id: WebhookId, *, enable: bool | None, rotate: bool, caller: Caller
    ) -> StoredWebhook:
        """Enable or disable a webhook (`enable` None: neither), and replace its secret if `rotate`.

        An enabled webhook receives also what occurred while it was disabled. The old secret signs too, for
        SECRET_OVERLAP. Raises Forbidden; Invalid.
        """
        webhook = self._visible(webhook_id, caller).webhook
        if rotate:
            _check_rotation(webhook, caller)

        def changed(stored: StoredWebhook) -> StoredWebhook:
            progress = stored.progress
            if enable is not None:
                progress = enabled(progress) if enable else disabled(progress, f"disabled by {caller.user}")
            after = _with_new_secret(stored.webhook, self._clock.now()) if rotate else stored.webhook
            return StoredWebhook(webhook=after, progress=progress)

        return await self._dispatcher.change(webhook_id, changed, caller=caller)

    async def delete(self, webhook_id: WebhookId, *, caller: Caller) -> None:
        self._visible(webhook_id, caller)
        await self._dispatcher.remove(webhook_id, caller=caller)

    async def test(self, webhook_id: WebhookId, *, caller: Caller) -> DeliveryOutcome:
        """Send a test message at once, and return the outcome. It is not repeated."""
        webhook = self._visible(webhook_id, caller).webhook
        number, instance = secrets.token_hex(8), self._dispatcher.instance
        message = trial_message(webhook, self._clock.now(), instance=instance, number=number)
        return await self._dispatcher.send(webhook, message)

    async def redeliver(
        self, webhook_id: WebhookId, *, numbers: Sequence[int], after: int | None, caller: Caller
    ) -> StoredWebhook:
        """Deliver events again: those with these numbers; all after the number `after`; or those that are undelivered.

        Raises NotFound for the number of an event that does not exist, or whose job the owner may not see; Invalid.
        """
        stored = self._visible(webhook_id, caller)
        for number in numbers:
            if await self._dispatcher.visible_event(stored.webhook, number) is None:
                raise NotFound(f"Event {number} not found.")

        def changed(stored: StoredWebhook) -> StoredWebhook:
            if after is not None:
                return replace(stored, progress=_rewound(stored.progress, after))
            again = tuple(numbers) or tuple(event.number for event in stored.progress.undelivered)
            progress = redelivered(stored.progress, again)
            if len(progress.again) > MAX_UNDELIVERED:
                raise LimitExceeded(f"At most {MAX_UNDELIVERED} events can be delivered again at the same time.")
            return replace(stored, progress=progress)

        return await self._dispatcher.change(webhook_id, changed, caller=caller)

    def _visible(self, webhook_id: WebhookId, caller: Caller) -> StoredWebhook:
        stored = self._dispatcher.webhooks.get(webhook_id)
        if stored is None or not caller.reaches(stored.webhook.owner):
            raise NotFound(f"Webhook {webhook_id} not found.")
        return stored

    def _new(self, new: NewWebhook, caller: Caller) -> StoredWebhook:
        present = [stored.webhook for stored in self._dispatcher.webhooks.values()]
        own = {webhook.name for webhook in present if webhook.owner.user == caller.user}
        if new.name in own:
            raise Invalid(f"Webhook {new.name} exists already.")
        if len(own) >= MAX_PER_USER:
            raise LimitExceeded(f"A user may have at most {MAX_PER_USER} webhooks.")
        if len(present) >= MAX_WEBHOOKS:
            raise LimitExceeded(f"The server has {MAX_WEBHOOKS} webhooks, and takes no more.")
        webhook = Webhook(
            id=WebhookId(f"wh-{secrets.token_hex(8)}"),
            name=new.name,
            owner=caller.owner,
            url=new.url,
            format=new.format,
            selection=new.selection,
            token=new.token,
            secret=new_secret() if new.format is WebhookFormat.STANDARD else "",
            created_at=self._clock.now(),
        )
        return StoredWebhook(webhook=webhook, progress=DeliveryProgress(position=self._feed.last))


def _check_format(new: NewWebhook) -> None:
    """Raises Invalid for a token or a URL that the format does not permit."""
    if new.token and _TOKEN.fullmatch(new.token) is None:
        raise Invalid("The token of a webhook has up to 1,024 printable ASCII characters without spaces.")
    if new.format is not WebhookFormat.MATRIX:
        return
    if not new.token:
        raise Invalid("A webhook of the format MATRIX requires the access token of a user of the room.")
    if not new.url.endswith(_MATRIX_PATH):
        raise Invalid(f"The URL of the format MATRIX is https://HOST/_matrix/client/v3/rooms/ROOM{_MATRIX_PATH}.")


def _check_rotation(webhook: Webhook, caller: Caller) -> None:
    if webhook.owner.user != caller.user:
        raise Forbidden("Only the owner of a webhook may replace its secret.")
    if not webhook.secret:
        raise Invalid(f"Webhooks of the format {webhook.format} are not signed.")


def _with_new_secret(webhook: Webhook, now: datetime) -> Webhook:
    return replace(webhook, secret=new_secret(), old_secret=webhook.secret, old_secret_until=now + SECRET_OVERLAP)


def _rewound(progress: DeliveryProgress, after: int) -> DeliveryProgress:
    """The progress of a webhook that receives all events after this number once more."""
    if after > progress.position:
        raise Invalid(f"The webhook is at event {progress.position}: events after {after} were not delivered yet.")
    return replace(progress, position=after, gap_reported=False, tries=0, next_at=None)
