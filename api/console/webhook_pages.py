"""The pages of webhooks: a list, the form of a new one, and one webhook with its deliveries. As `batchq webhook`."""

from http import HTTPStatus
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from batchq.api.console.forms import Form, new_invocation
from batchq.api.console.pages import Page, PageAnswer, PageTable, Redirect, last_word
from batchq.api.console.state import ConsoleState
from batchq.api.http.http import RequestQuery, Word
from batchq.api.operations.operations import Call, CallLimit
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import AccountName, Caller, Permission, UserName
from batchq.domain.enums import DeliveryVerdict, EventKind, WebhookFormat
from batchq.domain.ids import QueueName
from batchq.domain.webhooks import DEFAULT_KINDS, DeliveryOutcome, EventSelection, WebhookId
from batchq.errors import Invalid, NotFound
from batchq.ports.webhooks import StoredWebhook
from batchq.services.webhooks import NewWebhook
from batchq.webhooks.addresses import origin

WEBHOOK = "/webhooks/{id:wh-[0-9a-f]{1,32}}"
TEST_LIMIT = CallLimit(at_once=1, waiting=3)
MAX_NAMES = 50  # of one field
MAX_EVENT = 2**53
Names = Annotated[str, Field(max_length=4096)]

pages = PageTable()


class WebhookForm(Form):
    """A new webhook. The names of a field are separated by spaces or commas; empty: all."""

    name: Word = ""
    url: Annotated[str, Field(max_length=2048)] = ""
    format: Annotated[WebhookFormat, Field(strict=False)] = WebhookFormat.STANDARD
    token: Annotated[str, Field(max_length=1024)] = ""
    kind: Annotated[list[EventKind], Field(max_length=len(EventKind))] = Field(default_factory=list)
    queues: Names = ""
    accounts: Names = ""
    users: Names = ""
    groups: Names = ""
    jobs: Names = ""
    children: bool = False

    def new_webhook(self) -> NewWebhook:
        """Raises Invalid."""
        selection = EventSelection(
            kinds=tuple(self.kind),
            queues=frozenset(map(QueueName, _names(self.queues))),
            accounts=frozenset(map(AccountName, _names(self.accounts))),
            users=frozenset(map(UserName, _names(self.users))),
            groups=tuple(_names(self.groups)),
            names=tuple(_names(self.jobs)),
            children=self.children,
        )
        return NewWebhook(name=self.name, url=self.url, format=self.format, selection=selection, token=self.token)


class RedeliverForm(RequestQuery):
    """Which events are delivered again; without both: the undelivered ones."""

    number: Annotated[int, Field(ge=0, le=MAX_EVENT)] | None = None
    #: All events after this number; `number` is then ignored.
    after: Annotated[int, Field(ge=0, le=MAX_EVENT)] | None = None


class CreatedWebhook(Struct, frozen=True, kw_only=True):
    """The webhook that a form created. The form that is sent again shows the same page."""

    webhook_id: WebhookId


@pages.get("/webhooks", Permission.SELF)
async def webhooks_page(parts: Parts, visit: Call[None]) -> Page:
    values = {"webhooks": parts.webhooks.list(caller=visit.caller), "origin": origin}
    return Page(template="webhooks.html", title="Webhooks", values=values)


@pages.get("/webhooks/new", Permission.SELF)
async def new_webhook_page(parts: Parts, visit: Call[None]) -> Page:
    form = WebhookForm.model_construct(invocation=new_invocation(), kind=list(DEFAULT_KINDS))
    return _form_page(parts, form, visit.caller)


@pages.post("/webhooks/new", Permission.SELF)
async def post_new_webhook(parts: Parts, visit: Call[WebhookForm]) -> Page:
    """Create the webhook. The answer is its page with the secret: a redirect would have to store the secret."""
    form, caller, recent = visit.input, visit.caller, parts.state(ConsoleState).recent_results
    before = recent.find(CreatedWebhook, caller, form.invocation)
    try:
        if before is not None:
            stored = _find(parts, before.webhook_id, caller)
        else:
            stored = await parts.webhooks.create(form.new_webhook(), caller=replace(caller, operation="CreateWebhook"))
    except (Invalid, NotFound) as why:  # NotFound: a queue that the form names
        return _form_page(parts, form, caller, error=str(why))
    recent.keep(caller, form.invocation, CreatedWebhook(webhook_id=stored.webhook.id))
    return _page(parts, stored, caller, secret=stored.webhook.secret)


@pages.get(WEBHOOK, Permission.SELF)
async def webhook_page(parts: Parts, visit: Call[None]) -> Page:
    return _page(parts, _visited(parts, visit), visit.caller)


@pages.get(f"{WEBHOOK}/delete", Permission.SELF)
async def delete_webhook_page(parts: Parts, visit: Call[None]) -> Page:
    stored = _visited(parts, visit)
    values = {"webhook": stored.webhook, "origin": origin}
    return Page(template="webhook_delete.html", title=f"Delete webhook {stored.webhook.name}", values=values)


@pages.post(f"{WEBHOOK}/delete", Permission.SELF)
async def post_delete_webhook(parts: Parts, visit: Call[None]) -> PageAnswer:
    await parts.webhooks.delete(_visited(parts, visit).webhook.id, caller=_as(visit, "DeleteWebhook"))
    return Redirect(location="/ui/webhooks")


@pages.post(f"{WEBHOOK}/test", Permission.SELF, limit=TEST_LIMIT)
async def post_test_webhook(parts: Parts, visit: Call[None]) -> Page:
    """Send a test message, and show how it was answered."""
    stored = _visited(parts, visit)
    outcome = await parts.webhooks.test(stored.webhook.id, caller=_as(visit, "TestWebhook"))
    return _page(parts, stored, visit.caller, outcome=outcome)


@pages.post(f"{WEBHOOK}/enable", Permission.SELF)
@pages.post(f"{WEBHOOK}/disable", Permission.SELF)
async def post_webhook_state(parts: Parts, visit: Call[None]) -> Redirect:
    webhook_id, caller = _visited(parts, visit).webhook.id, _as(visit, "UpdateWebhook")
    enable = last_word(visit) == "enable"
    return _to_webhook(await parts.webhooks.update(webhook_id, enable=enable, rotate=False, caller=caller))


@pages.post(f"{WEBHOOK}/rotate", Permission.SELF)
async def post_rotate_webhook(parts: Parts, visit: Call[None]) -> Page:
    """Replace the secret, and show the new one once."""
    webhook_id, caller = _visited(parts, visit).webhook.id, _as(visit, "UpdateWebhook")
    stored = await parts.webhooks.update(webhook_id, enable=None, rotate=True, caller=caller)
    return _page(parts, stored, visit.caller, secret=stored.webhook.secret)


@pages.post(f"{WEBHOOK}/redeliver", Permission.SELF)
async def post_redeliver_webhook(parts: Parts, visit: Call[RedeliverForm]) -> PageAnswer:
    form, stored = visit.input, _visited(parts, visit)
    numbers = () if form.number is None else (form.number,)
    try:
        await parts.webhooks.redeliver(
            stored.webhook.id, numbers=numbers, after=form.after, caller=_as(visit, "RedeliverWebhook")
        )
    except (Invalid, NotFound) as why:  # NotFound: the event
        return _page(parts, stored, visit.caller, error=str(why))
    return _to_webhook(stored)


def _to_webhook(stored: StoredWebhook) -> Redirect:
    return Redirect(location=f"/ui/webhooks/{stored.webhook.id}")


def _as(visit: Call[Any], operation: str) -> Caller:
    """The caller with the operation of the API that the form carries out, as audit records have it."""
    return replace(visit.caller, operation=operation)


def _visited(parts: Parts, visit: Call[Any]) -> StoredWebhook:
    return _find(parts, WebhookId(visit.path["id"]), visit.caller)


def _find(parts: Parts, webhook_id: WebhookId, caller: Caller) -> StoredWebhook:
    """Raises NotFound."""
    for stored in parts.webhooks.list(caller=caller):
        if stored.webhook.id == webhook_id:
            return stored
    raise NotFound(f"Webhook {webhook_id} not found.")


def _form_page(parts: Parts, form: WebhookForm, caller: Caller, *, error: str = "") -> Page:
    values = {
        "form": form,
        "error": error,
        "formats": list(WebhookFormat),
        "kinds": list(EventKind),
        "queues": sorted(parts.catalog.queues_of(caller)),
    }
    status = HTTPStatus.BAD_REQUEST if error else HTTPStatus.OK
    return Page(template="webhook_new.html", title="New webhook", values=values, status=status)


def _page(
    parts: Parts,
    stored: StoredWebhook,
    caller: Caller,
    *,
    secret: str = "",
    outcome: DeliveryOutcome | None = None,
    error: str = "",
) -> Page:
    """`secret`: of a webhook that was just created, or whose secret was replaced. `outcome`: of a test."""
    webhook, progress = stored.webhook, stored.progress
    values = {
        "webhook": webhook,
        "progress": progress,
        "kinds": [kind for kind in EventKind if kind in webhook.selection.kinds],
        "origin": origin,
        "waiting": max(0, parts.events.last - progress.position) + len(progress.again),
        "is_owner": webhook.owner.user == caller.user,
        "secret": secret,
        "outcome": outcome,
        "was_delivered": outcome is not None and outcome.verdict is DeliveryVerdict.DELIVERED,
        "error": error,
    }
    status = HTTPStatus.BAD_REQUEST if error else HTTPStatus.OK
    return Page(template="webhook.html", title=f"Webhook {webhook.name}", values=values, status=status)


def _names(text: str) -> list[str]:
    """Raises Invalid for more than MAX_NAMES."""
    names = text.replace(",", " ").split()
    if len(names) > MAX_NAMES:
        raise Invalid(f"At most {MAX_NAMES} names can be given in one field.")
    return names
