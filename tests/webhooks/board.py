"""A dispatcher of webhooks on a store in memory and virtual time, with a sender that answers as a test says."""

import asyncio
import json
from contextlib import suppress
from datetime import timedelta

from batchq.api.native.long_polls import event_answer
from batchq.domain.access.accounts import NO_OWNER
from batchq.domain.enums import DeliveryVerdict, EventKind, Status
from batchq.domain.webhooks import DeliveryOutcome, DeliveryProgress, EventSelection, Webhook
from batchq.engine.history_feed import HistoryFeed
from batchq.ports.history import GroupEnd
from batchq.ports.jobs import Changes
from batchq.ports.webhooks import StoredWebhook
from batchq.services.webhooks import WebhookService
from batchq.webhooks.addresses import parse_url
from batchq.webhooks.dispatcher import WebhookDispatcher
from tests.support.builders import ADMIN, NOON, job, moment
from tests.support.clock import VirtualClock
from tests.support.inline import InlineStore

URL = "https://hooks.example.com/services/T0/secret-path"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
EVERYTHING = EventSelection(kinds=tuple(EventKind), children=True)

OK = DeliveryOutcome(verdict=DeliveryVerdict.DELIVERED, text="answered 200")
AWAY = DeliveryOutcome(verdict=DeliveryVerdict.FAILED, text="connection refused")
REJECTED = DeliveryOutcome(verdict=DeliveryVerdict.REJECTED, text="answered 400")
GONE = DeliveryOutcome(verdict=DeliveryVerdict.GONE, text="answered 410")


def number_of(request):
    """The number of the event in a request; None for another message."""
    return json.loads(request.body)["data"].get("number")


class RecordingSender:
    """Records each request. `answer` returns its outcome."""

    def __init__(self):
        self.requests = []
        self.answer = lambda request: OK

    def check_url(self, url):
        parse_url(url, ())

    async def send(self, request, *, user):
        self.requests.append(request)
        return self.answer(request)

    async def close(self):
        """Nothing is open."""


class Board:
    """`users`: the directory of the server; None: every caller sees all jobs."""

    def __init__(self):
        self.store = InlineStore()
        self.clock = VirtualClock()
        self.sender = RecordingSender()
        self.users = None
        self.is_suspended = False
        self._serving = None

    async def start(self):
        """Start a server on the stored data."""
        self.feed = HistoryFeed(self.store)
        await self.feed.load()
        self.dispatcher = WebhookDispatcher(
            store=self.store,
            feed=self.feed,
            sender=self.sender,
            clock=self.clock,
            instance="an-instance",
            encode=event_answer,
            directory=None if self.users is None else lambda: self.users,
            suspended=lambda: self.is_suspended,
        )
        self.service = WebhookService(
            dispatcher=self.dispatcher,
            sender=self.sender,
            feed=self.feed,
            queues=lambda caller: {"a-queue"},
            clock=self.clock,
        )
        await self.dispatcher.load()
        self._serving = asyncio.create_task(self.dispatcher.run())
        return self

    async def kill(self):
        """End the server without saving anything."""
        self._serving.cancel()
        with suppress(asyncio.CancelledError):
            await self._serving
        self._serving = None

    async def stop(self):
        """End the server as it ends by itself."""
        self.feed.close()
        await self.kill()
        await self.dispatcher.close()

    async def close(self):
        if self._serving is not None:
            await self.stop()
        await self.store.close()

    async def webhook(self, number=1, *, owner=NO_OWNER, position=0, **changes):
        """Store a webhook before the server starts."""
        fields = {"selection": EVERYTHING, "url": URL, "secret": SECRET, "created_at": NOON}
        webhook = Webhook(**{"id": f"wh-{number}", "name": f"hook-{number}", "owner": owner} | fields | changes)
        await self.store.put_webhook(
            StoredWebhook(webhook=webhook, progress=DeliveryProgress(position=position)), caller=ADMIN
        )
        return webhook

    async def events(self, count=1, *, status=Status.RUNNABLE, **changes):
        """Save events of new jobs, one each. Returns their numbers."""
        jobs = [job(status=status, **changes) for _ in range(count)]
        return await self.save(jobs, [moment(each) for each in jobs])

    async def save(self, jobs, entries):
        first = await self.store.commit(Changes(inserted=tuple(jobs), history=tuple(entries)))
        if self._serving is not None:
            await self.feed.load()
        return list(range(first, first + len(entries)))

    async def until(self, condition, seconds=10):
        """Let virtual time pass until the condition holds."""
        end = self.clock.now() + timedelta(seconds=seconds)
        while not condition():
            assert self.clock.now() < end
            await self.clock.sleep(0.05)

    async def pass_by(self, seconds):
        await asyncio.sleep(seconds)

    def progress(self, webhook):
        return self.dispatcher.webhooks[webhook.id].progress

    async def saved(self, webhook):
        """The stored progress."""
        return {each.webhook.id: each.progress for each in await self.store.webhooks()}[webhook.id]

    @property
    def numbers(self):
        """The numbers of the events in all requests so far."""
        return [number_of(request) for request in self.sender.requests]


def group_end(of, **changes):
    return moment(of, group_end=GroupEnd(**{"group_id": "g-1", "name": "fit", "succeeded": 1} | changes))
