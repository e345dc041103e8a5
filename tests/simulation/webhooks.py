"""A webhook that selects every event, its receiver, which is away at times, and what must hold of its deliveries."""

import asyncio
import json
import random
from datetime import timedelta

from batchq.api.native.long_polls import event_answer
from batchq.domain.access.accounts import NO_OWNER
from batchq.domain.enums import DeliveryVerdict, EventKind
from batchq.domain.webhooks import DeliveryOutcome, DeliveryProgress, EventSelection, Webhook, WebhookId
from batchq.ports.clock import Clock
from batchq.ports.webhooks import OutgoingRequest, StoredWebhook
from batchq.webhooks.dispatcher import WebhookDispatcher
from tests.simulation.choices import Choices
from tests.simulation.history_checks import HistoryChecks
from tests.simulation.lifetime import Lifetime
from tests.simulation.run_log import RunLog
from tests.support.builders import ADMIN, NOON
from tests.support.in_process_server import InProcessServer

ID = WebhookId("wh-1")
WEBHOOK = Webhook(
    id=ID,
    name="all",
    owner=NO_OWNER,
    url="https://hooks.example.com/all",
    secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    selection=EventSelection(kinds=tuple(EventKind), children=True),
    created_at=NOON,
)
OK = DeliveryOutcome(verdict=DeliveryVerdict.DELIVERED, text="answered 200")
FAILED = DeliveryOutcome(verdict=DeliveryVerdict.FAILED, text="no answer")
LONGEST_DELAY = timedelta(minutes=12)  # until the last events are delivered: the longest pause after a failure


class Receiver:
    """The endpoint, which outlives servers. It checks the order of what it receives."""

    def __init__(self, choices: Choices, run_log: RunLog) -> None:
        self._choices = choices
        self._rng = choices.webhooks
        self._run_log = run_log
        #: The numbers of the received events, in the order of their first delivery.
        self.received: dict[int, None] = {}
        #: By the notices of missing events: the number of the last event before each gap.
        self.gaps: list[int] = []
        self._is_away = False
        random.seed(self._rng.random())  # the dispatcher's jitter

    def outcome(self, request: OutgoingRequest) -> DeliveryOutcome:
        """Receive a request, or not."""
        if self._rng.random() < 0.08:
            self._is_away = not self._is_away
        if not self._choices.faults_occur:
            self._is_away = False
        if self._is_away:
            self._run_log.counts["webhook: the receiver is away"] += 1
            return FAILED
        self._receive(json.loads(request.body)["data"])
        if self._choices.faults_occur and self._rng.random() < 0.1:
            self._run_log.counts["webhook: lost answers"] += 1
            return FAILED
        return OK

    def _receive(self, event: dict[str, int]) -> None:
        self._run_log.counts["webhook: requests"] += 1
        if "after" in event:
            self.gaps.append(event["after"])
            return
        number = event["number"]
        last = max(self.received, default=0)
        if number > last:
            self.received[number] = None
        elif number not in self.received:
            self._run_log.fail("events are first delivered in their order", f"{number} after {last}")


class Sender:
    """The HTTP client of one server."""

    def __init__(self, receiver: Receiver, lifetime: Lifetime, choices: Choices) -> None:
        self._receiver = receiver
        self._lifetime = lifetime
        self._choices = choices

    def check_url(self, url: str) -> None:
        """Every URL is permitted."""

    async def send(self, request: OutgoingRequest, *, user: str) -> DeliveryOutcome:
        await self._lifetime.fault_point("before", "a delivery")
        await asyncio.sleep(self._choices.webhooks.choice([0.001, 0.001, 0.5]))
        await self._lifetime.fault_point("during", "a delivery")
        outcome = self._receiver.outcome(request)
        await self._lifetime.fault_point("after", "a delivery")
        return outcome

    async def close(self) -> None:
        """Nothing is open."""


def dispatcher(server: InProcessServer, sender: Sender, clock: Clock) -> WebhookDispatcher:
    """The dispatcher of a server, as `webhook_parts` makes it."""
    return WebhookDispatcher(
        store=server.store,
        feed=server.engine.history_feed,
        sender=sender,
        clock=clock,
        instance="simulated",
        encode=event_answer,
        directory=None,
        suspended=lambda: server.engine.loop.state.safe_mode.active,
    )


async def create(store) -> None:
    await store.put_webhook(StoredWebhook(webhook=WEBHOOK, progress=DeliveryProgress(position=0)), caller=ADMIN)


async def check(world) -> None:
    """Every event was delivered, except events of deleted jobs. The endpoint got a notice of these gaps."""
    history: HistoryChecks = world.invariants.history
    ends = world.clock.now() + LONGEST_DELAY
    while world.server.webhooks.webhooks[ID].progress.position < len(history.committed):
        if world.clock.now() > ends:
            progress = world.server.webhooks.webhooks[ID].progress
            world.run_log.fail("every event is delivered", f"{progress} of {len(history.committed)}")
            return
        await world.clock.sleep(1)
    stored = await world.server.store.jobs(list(world.invariants.jobs))
    for number, entry in enumerate(history.committed, 1):
        if number in world.receiver.received:
            continue
        if entry.job_id in stored:
            world.run_log.fail("every event is delivered", f"{number} is missing")
        elif not any(after < number for after in world.receiver.gaps):
            world.run_log.fail("a gap is reported to the webhook", f"before {number}: {world.receiver.gaps}")
