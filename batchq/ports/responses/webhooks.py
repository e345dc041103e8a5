"""Webhooks in responses. Times are in milliseconds since 1970."""

from msgspec import Struct

from batchq.domain.enums import DeliveryVerdict, EventKind, WebhookFormat, WebhookState


class UndeliveredEventResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """An event that the endpoint rejected."""

    number: int
    #: The time of the last try.
    at: int
    reason: str


class WebhookResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A webhook without its secrets."""

    webhook_id: str
    webhook_name: str
    #: The user who created it, and receives only events of jobs that this user may see.
    user: str
    account: str
    #: The scheme, the host and the port of its URL; the rest of it may be a secret.
    endpoint: str
    format: WebhookFormat
    #: The kinds of events that it selects.
    event_kinds: tuple[EventKind, ...]
    job_queues: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    #: Patterns of names of groups.
    group_names: tuple[str, ...] = ()
    #: Patterns of names of jobs.
    job_names: tuple[str, ...] = ()
    #: Whether events of the children of arrays are selected.
    children: bool = False
    created_at: int
    state: WebhookState
    #: Why it is disabled; absent if it is not.
    disabled_reason: str | None = None
    #: The number of the event through which it has all events.
    position: int
    #: How many deliveries succeeded.
    delivered: int = 0
    #: The last success; absent before the first one.
    delivered_at: int | None = None
    #: The last failure; absent if the last try succeeded.
    failure: str | None = None
    #: The first failure since the last success; absent if the last try succeeded.
    failing_since: int | None = None
    #: When the failed delivery is tried again; absent without one.
    next_try_at: int | None = None
    #: Events that the endpoint rejected, the newest ones.
    undelivered: tuple[UndeliveredEventResponse, ...] = ()
    #: Numbers of events that will be delivered again.
    redelivering: tuple[int, ...] = ()


class ListWebhooksResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The webhooks that the caller sees, oldest first."""

    webhooks: tuple[WebhookResponse, ...]


class WebhookSecretResponse(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A webhook that was created or changed."""

    webhook: WebhookResponse
    #: The new secret, which no later response contains; absent if there is no new one.
    secret: str | None = None


class TestWebhookResponse(Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome of a test message."""

    verdict: DeliveryVerdict
    #: As `answered 200`.
    text: str
