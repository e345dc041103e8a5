"""GET /metrics for Prometheus, and GET /livez and /readyz for supervisors.

Prometheus cannot sign requests, so a server with keys has a token of its own for it, which permits nothing else.
Without a token, a server with keys refuses /metrics.
"""

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
from batchq.api.http.http import reply
from batchq.api.metrics.counters import BoundedNames, EngineMetrics, RequestMetrics
from batchq.api.metrics.gauges import GaugeCollector, Reading
from batchq.api.operations.operation_table import OperationTable, dialect_of
from batchq.api.operations.operations import Public
from batchq.api.operations.parts import Parts

SHARED_FOR = 1.0  # seconds for which scrapes get the same text

#: Returns the names that exist for a label: `queue`, `environment`, `account`, `resource` or `machine`.
Existing = Callable[[str], Collection[str]]


class Metrics:
    """All metrics of a server, in a registry of its own."""

    def __init__(self, *, now: Callable[[], datetime]) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # they double the series and add nothing
        registry = CollectorRegistry()
        names = {label: BoundedNames() for label in ("queue", "environment", "account", "resource", "machine")}
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


operations = OperationTable()
dialect = dialect_of(operations)


@operations.public("GetMetrics", "GET", METRICS, Public.METRICS_TOKEN, response_media="text/plain")
async def get_metrics(parts: Parts, _: web.Request) -> web.StreamResponse:
    """Returns the metrics of the server, in the text format of Prometheus."""
    return web.Response(body=await parts.monitoring.scrape(), headers={"Content-Type": CONTENT_TYPE_LATEST})


@operations.public("GetLiveness", "GET", LIVE, answer=ProbeResponse)
async def get_liveness(parts: Parts, _: web.Request) -> web.StreamResponse:
    """Returns whether the process works. If not, a supervisor should restart it."""
    return _status(await parts.monitoring.is_alive())


@operations.public("GetReadiness", "GET", READY, answer=ProbeResponse)
async def get_readiness(parts: Parts, _: web.Request) -> web.StreamResponse:
    """Returns whether requests should be sent to the server."""
    return _status(await parts.monitoring.is_ready())


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
