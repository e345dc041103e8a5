"""GET /metrics for Prometheus, and GET /livez and /readyz for supervisors.

Prometheus cannot sign requests, so a server with keys has a token of its own for it, which permits nothing else.
Without a token, a server with keys refuses /metrics.
"""

import hmac
from collections.abc import Awaitable, Callable, Collection, Iterable
from datetime import datetime
from http import HTTPStatus
from pathlib import Path

from aiohttp import web
from msgspec import Struct
from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.process_collector import ProcessCollector

from batchq.api.auth.authentication import LIVE, METRICS, READY
from batchq.api.http.http import Dialect, HttpRefusal, reply
from batchq.api.metrics.counters import BoundedNames, EngineMetrics, RequestMetrics
from batchq.api.metrics.gauges import GaugeCollector, Reading
from batchq.api.operations.openapi import TEXT, OperationDoc, Security, document
from batchq.api.operations.parts import Parts

SHARED_FOR = 1.0  # seconds for which scrapes get the same text

Probe = Callable[[], Awaitable[bool]]

#: Returns the names that exist for a label: `queue`, `environment`, `account` or `resource`.
Existing = Callable[[str], Collection[str]]


class Metrics:
    """All metrics of a server, in a registry of its own."""

    def __init__(self, *, now: Callable[[], datetime]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # they double the series and add nothing
        registry = CollectorRegistry()
        names = {label: BoundedNames() for label in ("queue", "environment", "account", "resource")}
        self.engine = EngineMetrics(registry, names)
        self.requests = RequestMetrics(registry)
        self._gauges = GaugeCollector(names)
        self.registry = registry
        self._names = names
        self._now = now
        self._text = b""
        self._made_at: datetime | None = None
        registry.register(self._gauges)
        ProcessCollector(registry=registry)

    async def scrape(self, read: Callable[[], Awaitable[Iterable[Reading]]], existing: Existing) -> bytes:
        """The text for Prometheus; scrapes within SHARED_FOR get the same text. `read` returns the gauges."""
        now = self._now()
        if self._made_at is None or (now - self._made_at).total_seconds() >= SHARED_FOR:
            self._gauges.replace(await read())
            gone = {label: names.remove_missing(existing(label)) for label, names in self._names.items()}
            self.engine.remove(queues=tuple(gone["queue"]), environments=tuple(gone["environment"]))
            self._text, self._made_at = generate_latest(self.registry), now
        return self._text


class ProbeResponse(Struct, frozen=True):
    """The result of a probe."""

    #: `ok`, or `unavailable` with the status 503.
    status: str


_METRICS = OperationDoc(
    name="GetMetrics",
    summary="Returns the metrics of the server, in the text format of Prometheus.",
    permission=None,
    security=Security.METRICS_TOKEN,
    response_media=TEXT,
)
_LIVENESS = OperationDoc(
    name="GetLiveness",
    summary="Returns whether the process works. If not, a supervisor should restart it.",
    answer=ProbeResponse,
    permission=None,
    security=Security.NONE,
)
_READINESS = OperationDoc(
    name="GetReadiness",
    summary="Returns whether requests should be sent to the server.",
    answer=ProbeResponse,
    permission=None,
    security=Security.NONE,
)


def dialect(parts: Parts) -> Dialect:
    async def scrape(request: web.Request) -> web.Response:
        if parts.monitoring.token is not None:
            _check_token(request, parts.monitoring.token())
        return web.Response(body=await parts.monitoring.scrape(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def livez(_: web.Request) -> web.Response:
        return _status(await parts.monitoring.is_alive())

    async def readyz(_: web.Request) -> web.Response:
        return _status(await parts.monitoring.is_ready())

    def mount(app: web.Application) -> None:
        document(app, app.router.add_get(METRICS, scrape), _METRICS)
        document(app, app.router.add_get(LIVE, livez), _LIVENESS)
        document(app, app.router.add_get(READY, readyz), _READINESS)

    return mount


def token_in(file: Path) -> str | None:
    """The token of a file, without white space around it; None if the file cannot be read or is empty."""
    try:
        return file.read_text().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _status(good: bool) -> web.Response:  # noqa: FBT001 - the one argument is the whole meaning
    """A reply of one word, because everyone may send the request."""
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return reply(ProbeResponse(status="ok" if good else "unavailable"), status=status)


def _check_token(request: web.Request, token: str | None) -> None:
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    if token is None:
        raise _denied("This server requires a token for /metrics, and has none: serve --metrics-token-file FILE.")
    if scheme.lower() != "bearer" or not hmac.compare_digest(sent.strip().encode(), token.encode()):
        raise _denied("The token of /metrics is missing or wrong.")


def _denied(message: str) -> HttpRefusal:
    return HttpRefusal(message, status=HTTPStatus.FORBIDDEN, code="AccessDeniedException")
