"""Delivers the events of jobs to webhooks: each webhook in order, at least once, from where its progress is.

A task for each enabled webhook reads the feed after its position, sends the events that it selects, and repeats what
fails. The progress is in memory, and saved each SAVE_INTERVAL and at the end of the server. After a crash the events
since then are delivered once more, with the same ids.
"""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller, Directory, UserName, Visibility
from batchq.domain.enums import DeliveryKind, DeliveryVerdict
from batchq.domain.webhooks import (
    DeliveryOutcome,
    DeliveryProgress,
    PendingDelivery,
    Webhook,
    WebhookId,
    after_try,
    at_start,
    disabled,
    skipped,
    without_redelivery,
)
from batchq.errors import NotFound, StoreFailed, Unavailable
from batchq.ports.clock import Clock
from batchq.ports.history import FeedEntry, FeedFilter, FeedPage
from batchq.ports.responses.records import EventResponse
from batchq.ports.webhooks import EventFeed, StoredWebhook, WebhookSender, WebhookStore, selects
from batchq.system.throttling import ConcurrencyLimit
from batchq.webhooks.bodies import WebhookMessage, event_message, gap_message, outgoing_request

PAGE_SIZE = 200  # events that are read at once
LONG_POLL = 20.0  # seconds that a read waits for events; then the rights of the owner are checked again
SAVE_INTERVAL = 1.0  # seconds between two saves of the progress of all webhooks
FAILURE_PAUSE = 5.0  # seconds after a failed read
MAX_SENDING = 4  # deliveries of the webhooks of one user at the same time
MAX_WAITING = 1000  # more than webhooks of one user

log = logging.getLogger(__name__)


class WebhookDispatcher:
    """The webhooks of a server, and their deliveries."""

    def __init__(
        self,
        *,
        store: WebhookStore,
        feed: EventFeed,
        sender: WebhookSender,
        clock: Clock,
        instance: str,
        encode: Callable[[FeedEntry], EventResponse],
        directory: Callable[[], Directory] | None,
        suspended: Callable[[], bool],
    ) -> None:
        """`directory`: the present users; None: every caller sees all jobs.

        `suspended`: whether nothing is delivered at present, because the data was restored.
        """
        self._store = store
        self._feed = feed
        self._sender = sender
        self._clock = clock
        #: The permanent name of the data, in ids of messages.
        self.instance = instance
        self._encode = encode
        self._directory = directory
        self._suspended = suspended
        self._stored: dict[WebhookId, StoredWebhook] = {}
        self._tasks: dict[WebhookId, asyncio.Task[None]] = {}
        #: Webhooks whose progress differs from the stored one.
        self._unsaved: set[WebhookId] = set()
        self._unsaved_event = asyncio.Event()
        self._changing = asyncio.Lock()
        self._sending = ConcurrencyLimit[UserName](at_once=MAX_SENDING, waiting=MAX_WAITING)
        self._matching = ConcurrencyLimit[UserName](at_once=1, waiting=MAX_WAITING)
        #: The tries since the start of the server by outcome, without test messages.
        self.outcomes: Counter[DeliveryVerdict] = Counter()

    async def load(self) -> None:
        """Read the stored webhooks. Raises StoreFailed."""
        now = self._clock.now()
        for stored in await self._store.webhooks():
            self._stored[stored.webhook.id] = replace(stored, progress=at_start(stored.progress, now))

    async def run(self) -> None:
        """Deliver until the task is cancelled. Each change of the progress is saved soon after it."""
        try:
            for webhook_id in self._stored:
                self._start(webhook_id)
            while True:
                await self._unsaved_event.wait()
                self._unsaved_event.clear()
                await self._clock.sleep(SAVE_INTERVAL)
                try:
                    async with self._changing:
                        await self._save()
                except StoreFailed as failure:
                    log.warning("the progress of webhooks cannot be saved at present: %s", failure)
                    self._unsaved_event.set()
        finally:
            for webhook_id in tuple(self._tasks):
                await self._stop(webhook_id)

    async def close(self) -> None:
        """Save the progress at the end of the server, when no task runs any more."""
        try:
            await self._save()
        except StoreFailed as failure:
            log.warning("the progress of webhooks was not saved; some events will be delivered again: %s", failure)
        await self._sender.close()

    @property
    def webhooks(self) -> Mapping[WebhookId, StoredWebhook]:
        """The webhooks by id, oldest first."""
        return self._stored

    async def add(self, make: Callable[[], StoredWebhook], *, caller: Caller) -> StoredWebhook:
        """Save a new webhook, and deliver by it from now on. Raises StoreFailed.

        `make`: returns it, or raises an error. No other webhook is added between this call and the save.
        """
        async with self._changing:
            stored = make()
            await self._store.put_webhook(stored, caller=caller)
            self._stored[stored.webhook.id] = stored
            self._start(stored.webhook.id)
        return stored

    async def change(
        self, webhook_id: WebhookId, change: Callable[[StoredWebhook], StoredWebhook], *, caller: Caller
    ) -> StoredWebhook:
        """Change and save a webhook. Its delivery that is under way is begun again. Raises StoreFailed; NotFound."""
        async with self._stopped(webhook_id) as stored:
            after = change(stored)
            await self._store.put_webhook(after, caller=caller)
            self._stored[webhook_id] = after
            self._unsaved.discard(webhook_id)
        return after

    async def remove(self, webhook_id: WebhookId, *, caller: Caller) -> None:
        """Delete a webhook. Raises StoreFailed; NotFound."""
        async with self._stopped(webhook_id) as stored:
            await self._store.delete_webhook(stored.webhook, caller=caller)
            del self._stored[webhook_id]
            self._unsaved.discard(webhook_id)

    async def send(self, webhook: Webhook, message: WebhookMessage) -> DeliveryOutcome:
        """Send a message once. At most MAX_SENDING requests of a user are sent at the same time."""
        async with self._sending.of(webhook.owner.user):
            request = outgoing_request(webhook, message, self._clock.now())
            return await self._sender.send(request, user=webhook.owner.user)

    async def visible_event(self, webhook: Webhook, number: int) -> FeedEntry | None:
        """The event of this number; None if it does not exist, or the owner of the webhook may not see its job."""
        page = await self._read(webhook, number - 1, limit=1, wait=0)
        return page.entries[0] if page.entries and page.entries[0].number == number else None

    def _start(self, webhook_id: WebhookId) -> None:
        stored = self._stored.get(webhook_id)
        if stored is None or stored.progress.disabled is not None or webhook_id in self._tasks:
            return
        task = asyncio.create_task(self._deliver(webhook_id), name=f"webhook {webhook_id}")
        self._tasks[webhook_id] = task
        task.add_done_callback(lambda done: self._restart(webhook_id, done))

    def _restart(self, webhook_id: WebhookId, task: asyncio.Task[None]) -> None:
        """Start the task of a webhook again after an unexpected error."""
        failure = None if task.cancelled() else task.exception()
        if self._tasks.get(webhook_id) is task:
            del self._tasks[webhook_id]
        if failure is not None:
            log.error("the deliveries of webhook %s failed", webhook_id, exc_info=failure)
            asyncio.get_running_loop().call_later(FAILURE_PAUSE, self._start, webhook_id)

    @asynccontextmanager
    async def _stopped(self, webhook_id: WebhookId) -> AsyncIterator[StoredWebhook]:
        """Deliver nothing by a webhook, and save no progress, inside the block."""
        async with self._changing:
            if webhook_id not in self._stored:
                raise NotFound(f"Webhook {webhook_id} not found.")
            await self._stop(webhook_id)
            try:
                yield self._stored[webhook_id]
            finally:
                self._start(webhook_id)

    async def _stop(self, webhook_id: WebhookId) -> None:
        task = self._tasks.pop(webhook_id, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _save(self) -> None:
        unsaved, self._unsaved = self._unsaved, set()
        if not unsaved:
            return
        try:
            await self._store.save_delivery_progress(
                {name: self._stored[name].progress for name in unsaved if name in self._stored}
            )
        except StoreFailed:
            self._unsaved |= unsaved
            raise

    def _set_progress(self, webhook_id: WebhookId, progress: DeliveryProgress) -> None:
        stored = self._stored[webhook_id]
        if progress == stored.progress:
            return
        self._stored[webhook_id] = replace(stored, progress=progress)
        self._unsaved.add(webhook_id)
        self._unsaved_event.set()
        if progress.disabled is not None:
            log.warning("webhook %s of %r is disabled: %s", webhook_id, stored.webhook.owner.user, progress.disabled)

    async def _deliver(self, webhook_id: WebhookId) -> None:
        """Deliver until the webhook is disabled, the server ends, or the task is cancelled."""
        while not self._feed.closed and (stored := self._stored[webhook_id]).progress.disabled is None:
            pause = self._pause(stored)
            if pause > 0:
                await self._clock.sleep(pause)
            elif self._owner_is_gone(stored.webhook):
                reason = f"user {stored.webhook.owner.user} was deleted"
                self._set_progress(webhook_id, disabled(stored.progress, reason))
            else:
                try:
                    await self._deliver_page(stored)
                except Unavailable as failure:
                    log.warning("webhook %s cannot read events at present: %s", webhook_id, failure)
                    await self._clock.sleep(FAILURE_PAUSE)

    def _pause(self, stored: StoredWebhook) -> float:
        """The seconds for which nothing is delivered by a webhook; 0: it is due."""
        if self._suspended():
            return FAILURE_PAUSE
        next_at = stored.progress.next_at
        return 0.0 if next_at is None else max(0.0, (next_at - self._clock.now()).total_seconds())

    async def _deliver_page(self, stored: StoredWebhook) -> None:
        """Deliver events for another time, then the next ones, until a try fails or the owner's rights change."""
        webhook, progress = stored.webhook, stored.progress
        visible = self._visibility(webhook)
        for number in progress.again:
            entry = await self.visible_event(webhook, number)
            again = PendingDelivery(kind=DeliveryKind.AGAIN, number=number)
            if entry is None:  # deleted since, or hidden
                self._set_progress(webhook.id, without_redelivery(self._progress(webhook), number))
            elif not await self._try(webhook, again, self._message(entry), visible=visible):
                return
        page = await self._read(webhook, progress.position, limit=PAGE_SIZE, wait=LONG_POLL)
        if page.gap and not progress.gap_reported:
            gap = PendingDelivery(kind=DeliveryKind.GAP, number=progress.position)
            message = gap_message(gap, self._clock.now(), instance=self.instance)
            if not await self._try(webhook, gap, message, visible=visible):
                return
        for entry in page.entries:
            if await self._selects(webhook, entry):
                event = PendingDelivery(kind=DeliveryKind.EVENT, number=entry.number)
                if not await self._try(webhook, event, self._message(entry), visible=visible):
                    return
        self._set_progress(webhook.id, skipped(self._progress(webhook), page.next, gap=page.gap))

    async def _selects(self, webhook: Webhook, entry: FeedEntry) -> bool:
        """As `selects`. Each pass of the event loop compares one event of a user: 100 patterns take milliseconds."""
        async with self._matching.of(webhook.owner.user):
            await asyncio.sleep(0)  # noqa: TID251 - yields the event loop
            return selects(webhook, entry)

    async def _try(
        self, webhook: Webhook, delivery: PendingDelivery, message: WebhookMessage, *, visible: Visibility | None
    ) -> bool:
        """Try a delivery once. Whether it needs no further try.

        `visible`: what the owner saw when the event was read. Nothing is sent if that has changed since.
        """
        if self._suspended() or self._owner_is_gone(webhook) or self._visibility(webhook) != visible:
            return False
        outcome = await self.send(webhook, message)
        self.outcomes[outcome.verdict] += 1
        jitter = random.uniform(0.9, 1.1)  # noqa: S311 - no secret
        after = after_try(self._progress(webhook), delivery, outcome, now=self._clock.now(), jitter=jitter)
        self._set_progress(webhook.id, after)
        return after.disabled is None and not after.tries

    def _progress(self, webhook: Webhook) -> DeliveryProgress:
        return self._stored[webhook.id].progress

    def _message(self, entry: FeedEntry) -> WebhookMessage:
        return event_message(self._encode(entry), entry.entry.kind, instance=self.instance)

    async def _read(self, webhook: Webhook, after: int, *, limit: int, wait: float) -> FeedPage:
        """Events above the number `after` that the owner may see now. Raises Unavailable."""
        wanted = FeedFilter(visibility=self._visibility(webhook))
        return await self._feed.page(after, wanted, limit=limit, wait=wait, reader=webhook.owner.user)

    def _visibility(self, webhook: Webhook) -> Visibility | None:
        """The owners whose jobs the owner of the webhook may see now; None: all."""
        if self._directory is None:
            return None
        caller = self._directory().caller(webhook.owner.user)
        nothing = Visibility(user=webhook.owner.user)
        return nothing if caller is None else caller.visibility

    def _owner_is_gone(self, webhook: Webhook) -> bool:
        return self._directory is not None and webhook.owner.user not in self._directory().users
