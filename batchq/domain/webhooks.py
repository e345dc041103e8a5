"""Webhooks: URLs that receive events of jobs, which events each one selects, and when a delivery is repeated. Pure.

A webhook receives its events in the order of their numbers, one at a time. `DeliveryProgress.position` is the number
through which it has them. Decision 0097.
"""

import re
from datetime import datetime, timedelta
from typing import NewType

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, Owner, UserName
from batchq.domain.enums import DeliveryKind, DeliveryVerdict, EventKind, WebhookFormat, WebhookState
from batchq.domain.ids import QueueName
from batchq.errors import Invalid

WebhookId = NewType("WebhookId", str)

NOTIFY_TAG = "batchq:notify"  # of a job: the name of a webhook of its owner
PAUSES = (5, 30, 120, 300)  # seconds before the repetitions of a failed delivery
LONGEST_PAUSE = 600.0  # seconds before each later repetition
MAX_RETRY_AFTER = timedelta(hours=1)
MAX_FAILING = timedelta(days=3)  # without a success, after which a webhook is disabled
MIN_FAILED_TRIES = 50  # of one delivery, before that: no tries are made while the server or the machine is stopped
MAX_REJECTED_TRIES = 3  # tries of an event that the endpoint rejects
MAX_REJECTIONS = 20  # rejected events in a row, after which the endpoint itself counts as failing
MAX_UNDELIVERED = 100  # undelivered events that are kept, the newest
SECRET_OVERLAP = timedelta(hours=24)  # in which the secret before the present one signs too
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)

#: What a webhook without other kinds receives.
DEFAULT_KINDS = (EventKind.SUCCEEDED, EventKind.FAILED, EventKind.GROUP_ENDED)


class EventSelection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The events that a webhook selects. Each part must match; an empty part matches all events."""

    #: Empty: no event. Then the webhook receives only the ends of jobs that name it by the tag `batchq:notify`.
    kinds: tuple[EventKind, ...] = DEFAULT_KINDS
    queues: frozenset[QueueName] = frozenset()
    accounts: frozenset[AccountName] = frozenset()
    users: frozenset[UserName] = frozenset()
    #: Patterns of names of groups, with `*`, in any case.
    groups: tuple[str, ...] = ()
    #: Patterns of names of jobs, with `*`, in any case.
    names: tuple[str, ...] = ()
    #: Whether events of the children of arrays are selected.
    children: bool = False


class Webhook(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A webhook as its owner created it."""

    id: WebhookId
    #: Unique among the webhooks of its owner.
    name: str
    #: The user who created it. It receives only events of jobs that this user may see at the time of the delivery.
    owner: Owner
    #: Its path often contains a secret, so that answers and logs contain its host only.
    url: str
    format: WebhookFormat = WebhookFormat.STANDARD
    selection: EventSelection = EventSelection()
    #: The token of the header `Authorization: Bearer`; empty: the header is not sent.
    token: str = ""
    #: Of WebhookFormat.STANDARD: the secret that signs.
    secret: str = ""
    #: The secret before it; empty: there was none.
    old_secret: str = ""
    #: When `old_secret` ceases to sign.
    old_secret_until: datetime | None = None
    created_at: datetime

    def secrets(self, now: datetime) -> tuple[str, ...]:
        """The secrets that sign, the present one first."""
        has_old = self.old_secret_until is not None and now < self.old_secret_until
        return tuple(filter(None, (self.secret, self.old_secret if has_old else "")))


class UndeliveredEvent(Struct, frozen=True, kw_only=True):
    """An event that the endpoint rejected."""

    number: int
    #: The time of the last try.
    at: datetime
    reason: str


class DeliveryProgress(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a webhook is."""

    #: Events through this number were delivered, were not selected, or are `undelivered`.
    position: int
    #: Failed tries of the present delivery.
    tries: int = 0
    #: When the present delivery is tried again; None: at once.
    next_at: datetime | None = None
    #: The first failure since the last success; None: the last try succeeded.
    failing_since: datetime | None = None
    #: The last failure; None: the last try succeeded.
    failure: str | None = None
    #: Events that were rejected since the last success.
    rejections: int = 0
    #: How many deliveries succeeded.
    delivered: int = 0
    delivered_at: datetime | None = None
    #: By number, ascending.
    undelivered: tuple[UndeliveredEvent, ...] = ()
    #: Numbers of events that are delivered again, before any other.
    again: tuple[int, ...] = ()
    #: Whether the endpoint knows that events may be missing at `position`.
    gap_reported: bool = False
    #: Why the webhook is disabled; None: it is enabled.
    disabled: str | None = None

    @property
    def state(self) -> WebhookState:
        if self.disabled is not None:
            return WebhookState.DISABLED
        return WebhookState.ENABLED if self.failing_since is None else WebhookState.RETRYING


class PendingDelivery(Struct, frozen=True, kw_only=True):
    """What is delivered next."""

    kind: DeliveryKind
    #: Of an event its number; of a gap the position that it follows.
    number: int


class DeliveryOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of one try."""

    verdict: DeliveryVerdict
    #: As `answered 200`, or why the try failed. It contains nothing that the endpoint sent.
    text: str
    #: When the endpoint asks for the next try; None: it does not.
    retry_after: timedelta | None = None


def check_webhook_name(name: str) -> str:
    """The name. Raises Invalid."""
    if _NAME.fullmatch(name) is None:
        raise Invalid("The name of a webhook has up to 64 letters, digits, dots, hyphens and underscores.")
    return name


def matches_pattern(name: str, pattern: str) -> bool:
    """Whether the name matches a pattern in which `*` stands for any characters, in any case.

    It finds one part of the pattern after the other. Users choose patterns, and a regular expression of one with many
    `*` takes milliseconds to compile.
    """
    name, (first, *parts) = name.lower(), pattern.lower().split("*")
    if not parts:
        return name == first
    last, at = parts.pop(), len(first)
    end = len(name) - len(last)
    if not (at <= end and name.startswith(first) and name.endswith(last)):
        return False
    for part in parts:
        found = name.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def notified_webhook(tags: tuple[tuple[str, str], ...]) -> str | None:
    """The name of the webhook that the tags of a job name; None: they name none. Raises Invalid."""
    name = dict(tags).get(NOTIFY_TAG)
    return None if name is None else check_webhook_name(name)


def after_try(
    progress: DeliveryProgress, delivery: PendingDelivery, outcome: DeliveryOutcome, *, now: datetime, jitter: float
) -> DeliveryProgress:
    """The progress after a try. `jitter`: the factor of the pause before the next one, about 1."""
    match outcome.verdict:
        case DeliveryVerdict.DELIVERED:
            fresh = DeliveryProgress(
                position=progress.position,
                delivered=progress.delivered + 1,
                delivered_at=now,
                undelivered=progress.undelivered,
                again=progress.again,
                gap_reported=progress.gap_reported,
            )
            return _completed(fresh, delivery)
        case DeliveryVerdict.GONE:
            return disabled(progress, outcome.text)
        case DeliveryVerdict.REJECTED if (
            progress.tries + 1 >= MAX_REJECTED_TRIES and progress.rejections < MAX_REJECTIONS
        ):
            return _rejected(progress, delivery, outcome, now)
        case DeliveryVerdict.REJECTED | DeliveryVerdict.FAILED:
            return _failed(progress, outcome, now, jitter)


def skipped(progress: DeliveryProgress, through: int, *, gap: bool) -> DeliveryProgress:
    """The progress after a page of events. `gap`: whether events may be missing in it.

    A reported gap goes on through pages without a delivery.
    """
    return replace(progress, position=max(progress.position, through), gap_reported=progress.gap_reported and gap)


def without_redelivery(progress: DeliveryProgress, number: int) -> DeliveryProgress:
    """The progress without an event that was to be delivered again."""
    return replace(progress, again=tuple(each for each in progress.again if each != number))


def redelivered(progress: DeliveryProgress, numbers: tuple[int, ...]) -> DeliveryProgress:
    """The progress with these events to be delivered again, at once."""
    again = tuple(sorted({*progress.again, *numbers}))
    return replace(progress, again=again, tries=0, next_at=None)


def enabled(progress: DeliveryProgress) -> DeliveryProgress:
    """The progress of an enabled webhook, which tries again at once."""
    return replace(progress, disabled=None, tries=0, next_at=None, failing_since=None, failure=None, rejections=0)


def disabled(progress: DeliveryProgress, reason: str) -> DeliveryProgress:
    return replace(progress, disabled=reason, next_at=None)


def at_start(progress: DeliveryProgress, now: datetime) -> DeliveryProgress:
    """The progress at the start of a server: a delivery that failed is tried at once.

    The clock may have been set back, so no stored time is later than now.
    """
    since = None if progress.failing_since is None else min(progress.failing_since, now)
    return replace(progress, next_at=None, failing_since=since)


def _completed(progress: DeliveryProgress, delivery: PendingDelivery) -> DeliveryProgress:
    """The progress when this delivery needs no further try."""
    match delivery.kind:
        case DeliveryKind.EVENT:
            return replace(progress, position=delivery.number, gap_reported=False)  # more may be missing behind it
        case DeliveryKind.AGAIN:
            kept = tuple(event for event in progress.undelivered if event.number != delivery.number)
            return without_redelivery(replace(progress, undelivered=kept), delivery.number)
        case DeliveryKind.GAP:
            return replace(progress, gap_reported=True)


def _rejected(
    progress: DeliveryProgress, delivery: PendingDelivery, outcome: DeliveryOutcome, now: datetime
) -> DeliveryProgress:
    """The progress behind an event that the endpoint rejected for the last time."""
    done = replace(_completed(progress, delivery), tries=0, next_at=None, failure=outcome.text)
    if delivery.kind is DeliveryKind.GAP:
        return done
    event = UndeliveredEvent(number=delivery.number, at=now, reason=outcome.text)
    kept = sorted((*done.undelivered, event), key=lambda each: each.number)[-MAX_UNDELIVERED:]
    return replace(
        done,
        undelivered=tuple(kept),
        rejections=progress.rejections + 1,
        failing_since=progress.failing_since or now,
    )


def _failed(progress: DeliveryProgress, outcome: DeliveryOutcome, now: datetime, jitter: float) -> DeliveryProgress:
    """The progress with the same delivery to be tried again, or a disabled webhook.

    It is disabled after MAX_FAILING, but not before MIN_FAILED_TRIES: the time may have passed without tries.
    """
    since = progress.failing_since or now
    failed = replace(progress, tries=progress.tries + 1, failing_since=since, failure=outcome.text)
    if now - since >= MAX_FAILING and failed.tries >= MIN_FAILED_TRIES:
        return disabled(failed, f"no delivery succeeded for {MAX_FAILING.days} days: {outcome.text}")
    pause = PAUSES[progress.tries] if progress.tries < len(PAUSES) else LONGEST_PAUSE
    requested = min(outcome.retry_after or timedelta(), MAX_RETRY_AFTER)
    return replace(failed, next_at=now + max(timedelta(seconds=pause * jitter), requested))
