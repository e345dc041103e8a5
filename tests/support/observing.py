"""Observers of the engine and of requests whose measurements nothing reads."""

from prometheus_client import CollectorRegistry

from batchq.api.metrics.counters import RequestMetrics
from batchq.ports.observer import Observer


class NoObserver(Observer):
    """Ignores all measurements: the bodies of the port's methods do nothing."""


def request_metrics() -> RequestMetrics:
    """Metrics of requests in a registry of their own."""
    return RequestMetrics(CollectorRegistry())
