"""Webhooks: CreateWebhook, ListWebhooks, UpdateWebhook, DeleteWebhook, TestWebhook and RedeliverWebhook.

See docs/webhooks.md.
"""

from typing import Annotated

from pydantic import Field

from batchq.accounts.wire import EmptyRequest
from batchq.api.http.answers import answer_of
from batchq.api.http.http import RequestBody, Text, Word
from batchq.api.native.accounts import denied_is_403
from batchq.api.native.job_selection import bare_name
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import Call, CallLimit
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import AccountName, Permission, UserName
from batchq.domain.enums import EventKind, WebhookFormat
from batchq.domain.ids import QueueName
from batchq.domain.times import milliseconds, optional_milliseconds
from batchq.domain.webhooks import DEFAULT_KINDS, EventSelection, WebhookId
from batchq.errors import Invalid
from batchq.ports.responses.server import EmptyResponse
from batchq.ports.responses.webhooks import (
    ListWebhooksResponse,
    TestWebhookResponse,
    UndeliveredEventResponse,
    WebhookResponse,
    WebhookSecretResponse,
)
from batchq.ports.webhooks import StoredWebhook
from batchq.services.webhooks import NewWebhook
from batchq.webhooks.addresses import origin

MAX_PARTS = 50  # members of one list of a selection
MAX_NUMBERS = 100  # events of one RedeliverWebhook
MAX_EVENT = 2**53  # so that every JSON parser keeps it
TEST_LIMIT = CallLimit(at_once=1, waiting=3)

SelectedNames = Annotated[list[Word], Field(min_length=1, max_length=MAX_PARTS)]
Number = Annotated[int, Field(ge=0, le=MAX_EVENT)]

operations = OperationTable(failed=denied_is_403)


class CreateWebhookRequest(RequestBody):
    """The URL, and the events that are sent to it. Parts of the selection that are given must all match."""

    #: Unique among the caller's webhooks: up to 64 letters, digits, dots, hyphens and underscores.
    webhook_name: Word
    #: It begins with https://, and its host has a public address, except for hosts of the server's --webhook-hosts.
    url: Annotated[Text, Field(min_length=1, max_length=2048)]
    format: Annotated[WebhookFormat, Field(strict=False)] = WebhookFormat.STANDARD
    #: The token of the header `Authorization: Bearer`. Absent: the header is not sent.
    token: Annotated[Text, Field(min_length=1, max_length=1024)] | None = None
    #: Absent: SUCCEEDED, FAILED and GROUP_ENDED. Empty: only the ends of jobs with the tag `batchq:notify`.
    event_kinds: Annotated[list[Annotated[EventKind, Field(strict=False)]], Field(max_length=len(EventKind))] | None = (
        None
    )
    #: Names or ARNs of job queues.
    job_queues: SelectedNames | None = None
    #: Accounts of the owners of jobs.
    accounts: SelectedNames | None = None
    #: Owners of jobs.
    users: SelectedNames | None = None
    #: Names of groups, in which `*` stands for any characters, in any case.
    group_names: SelectedNames | None = None
    #: Names of jobs, in which `*` stands for any characters, in any case.
    job_names: SelectedNames | None = None
    #: Whether events of the children of arrays are sent too.
    children: bool = False


class WebhookRequest(RequestBody):
    """One webhook."""

    #: Its id.
    webhook: Word


class UpdateWebhookRequest(WebhookRequest):
    """The change of a webhook. At least one is required."""

    #: Whether it delivers.
    enabled: bool | None = None
    #: Whether it gets a new secret. The old one signs too for 24 hours.
    rotate_secret: bool = False


class RedeliverWebhookRequest(WebhookRequest):
    """The events to deliver again; absent: those that are undelivered."""

    #: Numbers of events.
    numbers: Annotated[list[Number], Field(min_length=1, max_length=MAX_NUMBERS)] | None = None
    #: All events after this number.
    after: Number | None = None


@operations.add("CreateWebhook", "POST", "/v1/batchq/createwebhook", Permission.SELF)
async def create_webhook(parts: Parts, call: Call[CreateWebhookRequest]) -> WebhookSecretResponse:
    """Creates a webhook: the server sends it the events that occur from now on.

    It receives only events of jobs that the caller may see when they are sent. The secret of the format STANDARD is in
    this response only.
    """
    body = call.input
    new = NewWebhook(
        name=body.webhook_name, url=body.url, format=body.format, selection=_selection(body), token=body.token or ""
    )
    stored = await parts.webhooks.create(new, caller=call.caller)
    return WebhookSecretResponse(webhook=_webhook(stored), secret=stored.webhook.secret or None)


@operations.add("ListWebhooks", "POST", "/v1/batchq/listwebhooks", Permission.SELF)
async def list_webhooks(parts: Parts, call: Call[EmptyRequest]) -> ListWebhooksResponse:
    """Lists the webhooks of the users whose jobs the caller sees, without their secrets."""
    return ListWebhooksResponse(webhooks=tuple(map(_webhook, parts.webhooks.list(caller=call.caller))))


@operations.add("UpdateWebhook", "POST", "/v1/batchq/updatewebhook", Permission.SELF)
async def update_webhook(parts: Parts, call: Call[UpdateWebhookRequest]) -> WebhookSecretResponse:
    """Enables or disables a webhook, or replaces its secret.

    An enabled webhook receives the events that occurred while it was disabled, too.
    """
    body, webhook_id = call.input, WebhookId(call.input.webhook)
    if body.enabled is None and not body.rotate_secret:
        raise Invalid("One of enabled and rotateSecret must be specified.")
    stored = await parts.webhooks.update(webhook_id, enable=body.enabled, rotate=body.rotate_secret, caller=call.caller)
    secret = stored.webhook.secret if body.rotate_secret else None
    return WebhookSecretResponse(webhook=_webhook(stored), secret=secret)


@operations.add("DeleteWebhook", "POST", "/v1/batchq/deletewebhook", Permission.SELF)
async def delete_webhook(parts: Parts, call: Call[WebhookRequest]) -> EmptyResponse:
    """Deletes a webhook."""
    await parts.webhooks.delete(WebhookId(call.input.webhook), caller=call.caller)
    return EmptyResponse()


@operations.add("TestWebhook", "POST", "/v1/batchq/testwebhook", Permission.SELF, limit=TEST_LIMIT)
async def test_webhook(parts: Parts, call: Call[WebhookRequest]) -> TestWebhookResponse:
    """Sends a test message to a webhook, once, and returns how it was answered."""
    outcome = await parts.webhooks.test(WebhookId(call.input.webhook), caller=call.caller)
    return TestWebhookResponse(verdict=outcome.verdict, text=outcome.text)


@operations.add("RedeliverWebhook", "POST", "/v1/batchq/redeliverwebhook", Permission.SELF)
async def redeliver_webhook(parts: Parts, call: Call[RedeliverWebhookRequest]) -> WebhookSecretResponse:
    """Delivers events again: some by number, all after a number, or those that the endpoint rejected.

    Their ids are the same as before.
    """
    body = call.input
    if body.numbers is not None and body.after is not None:
        raise Invalid("Only one of numbers and after may be specified.")
    stored = await parts.webhooks.redeliver(
        WebhookId(body.webhook), numbers=body.numbers or (), after=body.after, caller=call.caller
    )
    return WebhookSecretResponse(webhook=_webhook(stored))


def _selection(body: CreateWebhookRequest) -> EventSelection:
    return EventSelection(
        kinds=DEFAULT_KINDS if body.event_kinds is None else tuple(body.event_kinds),
        queues=frozenset(QueueName(bare_name(text)) for text in body.job_queues or ()),
        accounts=frozenset(map(AccountName, body.accounts or ())),
        users=frozenset(map(UserName, body.users or ())),
        groups=tuple(body.group_names or ()),
        names=tuple(body.job_names or ()),
        children=body.children,
    )


def _webhook(stored: StoredWebhook) -> WebhookResponse:
    webhook, progress, selection = stored.webhook, stored.progress, stored.webhook.selection
    return answer_of(
        WebhookResponse,
        progress,
        webhook_id=webhook.id,
        webhook_name=webhook.name,
        user=webhook.owner.user,
        account=webhook.owner.account,
        endpoint=origin(webhook.url),
        format=webhook.format,
        event_kinds=tuple(kind for kind in EventKind if kind in selection.kinds),
        job_queues=tuple(sorted(selection.queues)),
        accounts=tuple(sorted(selection.accounts)),
        users=tuple(sorted(selection.users)),
        group_names=selection.groups,
        job_names=selection.names,
        children=selection.children,
        created_at=milliseconds(webhook.created_at),
        disabled_reason=progress.disabled,
        next_try_at=optional_milliseconds(progress.next_at),
        undelivered=tuple(answer_of(UndeliveredEventResponse, event) for event in progress.undelivered),
        redelivering=progress.again,
    )
