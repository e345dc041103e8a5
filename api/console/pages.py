"""Tables of the console's pages and forms: what each does before and after its handler. Decision 0061.

    pages = PageTable()

    @pages.get("/queues/{name}", Permission.SELF)
    async def queue_page(parts: Parts, visit: Call[QueueQuery]) -> Page:
        return Page(template="queue.html", title=..., values={...})

    @pages.post("/queues/{name}/disable", Permission.CATALOG)
    async def disable_queue(parts: Parts, visit: Call[DisableForm]) -> Redirect:
        ...

    @pages.order("/jobs/{id}/stop", Permission.SELF, page=stop_page)
    async def stop(parts: Parts, visit: Call[StopForm]) -> str:
        return ...  # the path of the page that shows the result

The caller is authorized, and the query or the form is parsed to the shape in the handler's annotation. A request with
the header X-Fragment gets only the block of that name from the page's template, so that the script can replace it. The
names are those of FRAGMENTS; other blocks may need variables that handlers set for whole pages only.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qsl, quote

from aiohttp import web
from jinja2 import Template
from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel

from batchq.api.auth.authentication import PermissionMissing
from batchq.api.auth.sessions import LoginRequired
from batchq.api.console.forms import FormState
from batchq.api.console.refresh import Fragment
from batchq.api.console.state import ConsoleState
from batchq.api.console.templates import encoded, environment
from batchq.api.http.dialect_profiles import RequestFailure
from batchq.api.http.http import FailureKind, HttpRefusal, InvalidMember, read_body, validate_values
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import Call, CallLimit, Operation, input_shape
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission
from batchq.domain.times import EPOCH
from batchq.errors import BatchqError, Invalid, NotFound, StateChanged, Throttled, Unavailable

UI = "/ui"
FRAGMENT = "X-Fragment"
TAB = "X-Tab"  # of a fragment: the title of the tab, in percent-encoding
LIVE = "live"  # the block that open pages fetch again after changes
FRAGMENTS = frozenset({LIVE, "dialog", "lines"})  # the blocks that a request may name
THEMES = frozenset({"light", "dark"})
MAX_FIELDS = 2000  # of a query or a form
NOT_FOUND = "There is no such page, or you may not see it."
FORBIDDEN = "Your role does not permit this. Operators and administrators of the server can do it."
CHANGED = "The state of the job has changed: nothing was ordered. Read what an order would do now, and order again."
_HTML = "text/html"
#: Of every page. Nothing is inline, so neither nonces nor hashes are needed.
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types fragment"
    ),
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    # With `no-referrer` browsers would send `Origin: null` with forms.
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

#: Of failures that have another status in AWS's dialect.
STATUSES = {
    FailureKind.FORBIDDEN: HTTPStatus.FORBIDDEN,
    FailureKind.UNKNOWN_METHOD: HTTPStatus.METHOD_NOT_ALLOWED,
    FailureKind.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
}

Shape = TypeVar("Shape", bound=BaseModel)
_ENVIRONMENT = environment()


class Page(Struct, frozen=True, kw_only=True):
    """A page to render."""

    #: The file in `templates`.
    template: str
    title: str
    #: The variables of the template, besides those of every page.
    values: Mapping[str, object] = field(default_factory=dict)
    status: HTTPStatus = HTTPStatus.OK
    #: The title of the browser's tab, which changes with the live part; empty: `title`.
    tab: str = ""


class Redirect(Struct, frozen=True, kw_only=True):
    """The browser loads another page (303)."""

    #: A path below /ui.
    location: str


PageAnswer = Page | Redirect | web.StreamResponse
Handler = Callable[[Parts, Call[Any]], Awaitable[PageAnswer]]
#: The page of a form.
FormPage = Callable[[Parts, Call[Any], FormState], Awaitable[Page]]
#: Carries out what a form orders, and returns the path of the page that shows the result.
Order = Callable[[Parts, Call[Any]], Awaitable[str]]


class PageTable(OperationTable):
    """Pages and forms below /ui."""

    def __init__(self) -> None:
        super().__init__(read=_read, carry_out=_carry_out, failed=_failed)

    def get(self, path: str, permission: Permission, *, limit: CallLimit | None = None) -> Callable[[Handler], Handler]:
        """Decorate the handler of a page. `path`: below /ui, in aiohttp's notation."""

        def add(handle: Handler) -> Handler:
            self._add("GET", path, permission, handle, query=input_shape(handle), limit=limit)
            return handle

        return add

    def post(
        self, path: str, permission: Permission, *, limit: CallLimit | None = None
    ) -> Callable[[Handler], Handler]:
        """Decorate the handler of a form."""

        def add(handle: Handler) -> Handler:
            self._add("POST", path, permission, handle, body=input_shape(handle), limit=limit)
            return handle

        return add

    def order(self, path: str, permission: Permission, *, page: FormPage) -> Callable[[Order], Order]:
        """Decorate what a form orders. `page` shows the form at the same path, and again if the form is refused."""

        def add(order: Order) -> Order:
            async def show(parts: Parts, visit: Call[Any]) -> PageAnswer:
                return await page(parts, visit, FormState())

            async def post(parts: Parts, visit: Call[Any]) -> PageAnswer:
                return await give_order(parts, visit, order, page)

            self._add("GET", path, permission, show, query=input_shape(page))
            self._add("POST", path, permission, post, body=input_shape(order))
            return order

        return add

    def _add(self, method: str, path: str, permission: Permission, handle: Handler, **members: Any) -> None:  # noqa: ANN401 - those of Operation
        path = UI + path
        self.operations.append(
            Operation(name=f"{method} {path}", method=method, path=path, access=permission, handle=handle, **members)
        )


async def _read(request: web.Request, operation: Operation) -> BaseModel | None:
    if request.headers.get(FRAGMENT, LIVE) not in FRAGMENTS:
        raise HttpRefusal(NOT_FOUND, status=HTTPStatus.NOT_FOUND)
    shape = operation.query or operation.body
    return None if shape is None else await read_form(request, shape)


async def _carry_out(parts: Parts, page: Operation, visit: Call[Any]) -> web.StreamResponse:
    request = visit.http
    if request.headers.get(FRAGMENT) == LIVE and page.method == "GET":
        key = replace(visit.caller, key="", uid=None, request_id="", requested_at=EPOCH), request.raw_path
        fragments = parts.state(ConsoleState).fragments
        return _sent(request, await fragments.of(key, partial(_live_part, parts, page, visit)))
    return await _answer(parts, page, visit)


def _failed(_request: web.Request, _page: Operation, error: BatchqError) -> web.StreamResponse:
    if isinstance(error, NotFound):
        raise HttpRefusal(NOT_FOUND, status=HTTPStatus.NOT_FOUND) from None
    raise error


async def _answer(parts: Parts, operation: Operation, visit: Call[Any]) -> web.StreamResponse:
    number = parts.events.last
    answer: PageAnswer = await operation.handle(parts, visit)
    match answer:
        case Redirect(location=location):
            return web.Response(status=HTTPStatus.SEE_OTHER, headers={**HEADERS, "Location": location})
        case Page() as page:
            fragment = await _render(parts, visit, page, number)
            if FRAGMENT in visit.http.headers:
                return _sent(visit.http, fragment)
            response = _html(fragment.body, page.status)
            # aiohttp compresses in a thread. Fragments are not compressed: many pages fetch them.
            response.enable_compression()
            return response
        case response:
            return response


async def _live_part(parts: Parts, operation: Operation, visit: Call[Any]) -> Fragment:
    page: PageAnswer = await operation.handle(parts, visit)
    if not isinstance(page, Page):
        raise HttpRefusal(NOT_FOUND, status=HTTPStatus.NOT_FOUND)
    return await _render(parts, visit, page, parts.events.last)


def last_word(visit: Call[Any]) -> str:
    """The last part of the path: of the paths of one handler, it tells which was requested."""
    return visit.http.path.rpartition("/")[2]


async def read_form(request: web.Request, shape: type[Shape]) -> Shape:
    """Parse the query of a GET or HEAD, or else the form. Raises InvalidMember.

    A field that was left empty counts as absent, because browsers send all fields.
    """
    is_form = request.method not in {"GET", "HEAD"}
    sent = await read_body(request) if is_form else request.rel_url.raw_query_string.encode()
    try:
        return parse_members(sent.decode(), shape)
    except UnicodeDecodeError:
        raise InvalidMember("The form is not valid.", member="") from None


def parse_members(text: str, shape: type[Shape]) -> Shape:
    """Parse the text of a query or a form. Lines end with a line feed; browsers send CR LF. Raises InvalidMember."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise InvalidMember("The form is not valid.", member="") from None
    return validate_values(shape, _members(pairs, shape))


def _members(pairs: Iterable[tuple[str, str]], shape: type[BaseModel]) -> Mapping[str, object]:
    members: dict[str, object] = {}
    lists = _lists(shape)
    for name, sent in pairs:
        value = sent.replace("\r\n", "\n")
        if name in lists:
            given = members.setdefault(name, [])
            assert isinstance(given, list)
            given.extend([value] if value else [])
        elif name in members:
            raise InvalidMember(f"{name[:100]!r} is given more than once.", member=name[:100])
        elif value:
            members[name] = value
    return members


def _lists(shape: type[BaseModel]) -> set[str]:
    """The names of the members that may be given several times."""
    return {
        info.alias or name for name, info in shape.model_fields.items() if get_origin(info.annotation) in {list, tuple}
    }


async def _render(parts: Parts, visit: Call[Any], page: Page, number: int) -> Fragment:
    """Render the page, or the requested block of it. `number`: the newest change before the page was read."""
    request = visit.http
    template = _ENVIRONMENT.get_template(page.template)
    state, sentence = parts.overviews.state(caller=visit.caller)
    values = {
        "title": page.title,
        "tab": page.tab,
        "caller": visit.caller,
        "has_session": bool(visit.caller.key),
        "server_state": state,
        "server_sentence": sentence,
        "now": parts.clock.now(),
        "path": request.path,
        "address": request.raw_path,
        "number": number,
        "visible_queues": parts.catalog.queues_of(visit.caller),
        "theme": theme if (theme := request.cookies.get("theme")) in THEMES else None,
        **page.values,
    }
    fragment = request.headers.get(FRAGMENT)
    pieces = template.generate(values) if fragment is None else _block(template, fragment, values)
    console = parts.state(ConsoleState)
    rendered = await console.renderer.render(pieces, user=visit.caller.user)
    console.load.rendered(rendered.seconds)
    return Fragment(body=rendered.body, tag=f'"{rendered.digest[:32]}"', status=page.status, tab=page.tab)


def _sent(request: web.Request, fragment: Fragment) -> web.Response:
    if request.headers.get("If-None-Match") == fragment.tag:
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers={"ETag": fragment.tag})
    response = _html(fragment.body, fragment.status)
    response.headers["ETag"] = fragment.tag
    response.headers["Vary"] = f"{FRAGMENT}, Cookie"
    if fragment.tab:
        response.headers[TAB] = quote(encoded(fragment.tab))
    return response


def _block(template: Template, name: str, values: Mapping[str, object]) -> Iterator[str]:
    """The parts of one block of a page. Raises HttpRefusal (404) if the page has none with this name."""
    block = template.blocks.get(name)
    if block is None:
        raise HttpRefusal(NOT_FOUND, status=HTTPStatus.NOT_FOUND)
    return iter(block(template.new_context(dict(values))))


async def give_order(parts: Parts, visit: Call[Any], order: Order, page: FormPage) -> PageAnswer:
    """Redirect to the path that `order` returns; `page` shows a form again that is refused. Raises NotFound.

    A form that is sent twice orders once.
    """
    form = visit.input
    try:
        invocations, ordered = parts.state(ConsoleState).invocations, partial(order, parts, visit)
        return Redirect(location=await invocations.once(visit.caller, visit.http.path, form, ordered))
    except NotFound:
        raise
    except StateChanged:
        error, status = CHANGED, HTTPStatus.CONFLICT
    except Invalid as why:
        error, status = str(why), HTTPStatus.BAD_REQUEST
    except Throttled as why:
        error, status = str(why), HTTPStatus.TOO_MANY_REQUESTS
    except Unavailable as why:
        error, status = str(why), HTTPStatus.SERVICE_UNAVAILABLE
    return await page(parts, visit, FormState(form=form, error=error, status=status))


def error_page(failure: RequestFailure) -> web.Response:
    """The page of a failed request. What does not exist, and what the caller may not see, have the same page."""
    if isinstance(failure.error, LoginRequired) and failure.error.login is not None:
        return web.Response(status=HTTPStatus.SEE_OTHER, headers={**HEADERS, "Location": failure.error.login})
    if failure.kind in {FailureKind.NOT_FOUND, FailureKind.UNKNOWN_PATH}:
        status, message, request_id = HTTPStatus.NOT_FOUND, NOT_FOUND, ""
    elif isinstance(failure.error, PermissionMissing):
        status, message, request_id = HTTPStatus.FORBIDDEN, FORBIDDEN, failure.request_id
    else:
        status = STATUSES.get(failure.kind, failure.status)
        message, request_id = failure.message, failure.request_id
    values = {"title": status.phrase, "status": status.value, "message": message, "request_id": request_id}
    return render("error.html", values, status=status)


def render(template: str, values: Mapping[str, object], *, status: HTTPStatus) -> web.Response:
    """A page without the navigation, which needs no caller."""
    return _html(_ENVIRONMENT.get_template(template).render(values), status)


def _html(content: str | bytes, status: HTTPStatus) -> web.Response:
    body = encoded(content) if isinstance(content, str) else content
    return web.Response(body=body, status=status, content_type=_HTML, charset="utf-8", headers=HEADERS)
