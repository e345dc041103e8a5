"""Metrics of HTTP requests, by operation."""

from collections.abc import Mapping
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from batchq.api.dialect_profiles import TARGET
from batchq.api.metrics.labels import Children
from batchq.api.openapi import OperationDoc

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)

#: The label of requests without an operation: unknown paths, and headers that are refused before the router.
NO_OPERATION = "none"


class RequestMetrics:
    """Counts requests. The operations are those of the API's description, so labels are bounded."""

    def __init__(self, registry: CollectorRegistry) -> None:
        requests = Counter(
            "batchq_http_requests_total",
            "Requests, by operation and class of the status code.",
            ("operation", "class"),
            registry=registry,
        )
        seconds = Histogram(
            "batchq_http_request_seconds",
            "Duration of requests until the response's headers.",
            ("operation",),
            buckets=BUCKETS,
            registry=registry,
        )
        self._requests, self._seconds = Children(requests), Children(seconds)
        #: The operations by method and path.
        self._operations: Mapping[tuple[str, str], tuple[OperationDoc, ...]] = {}

    def describe(self, operations: Mapping[tuple[str, str], tuple[OperationDoc, ...]]) -> None:
        """Set the operations of the API, by method and path."""
        self._operations = operations

    def observe(self, request: web.Request, status: int, seconds: float) -> None:
        """Count one request."""
        operation = self._operation(request)
        self._requests.of(operation, status_class(status)).inc()
        self._seconds.of(operation).observe(seconds)

    def _operation(self, request: web.Request) -> str:
        found = self._operations.get((request.method, request.path))
        if found is None:
            resource = request.match_info.route.resource
            found = () if resource is None else self._operations.get((request.method, resource.canonical), ())
        if len(found) > 1:
            target = request.headers.get(TARGET, "")
            found = tuple(it for it in found if it.target == target)
        return found[0].name if found else NO_OPERATION


def status_class(status: int) -> str:
    """The label `class`: 429 alone, because it says that a limit is reached; else the first digit, as `4xx`."""
    return "429" if status == HTTPStatus.TOO_MANY_REQUESTS else f"{status // 100}xx"
