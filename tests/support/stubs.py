"""Parts of a server that measure nothing, limit nothing, or have fixed figures."""

from prometheus_client import CollectorRegistry

from batchq.api.metrics.counters import RequestMetrics
from batchq.domain.scheduling.quotas import NO_QUOTAS
from batchq.logs.quota import AccountLogs, LogQuota
from batchq.ports.observer import Observer
from batchq.system.clock import SystemClock
from batchq.system.host import DiskGuard
from tests.support.inline import InlineLogFiles, InlineStore

#: A disk that is never full.
BOTTOMLESS = DiskGuard(free=lambda: 2**40, min_free=0)


class BottomlessCheckpointDisk:
    """The guard of a checkpoint disk that is never full. It starts no thread."""

    async def check(self):
        pass


#: Logs without a quota.
UNLIMITED = LogQuota(
    container_mib=None,
    disk_guard=BOTTOMLESS,
    quotas=lambda: NO_QUOTAS,
    usage=AccountLogs(store=InlineStore(), archive=InlineLogFiles()),
    clock=SystemClock(),
)


class NoObserver(Observer):
    """Ignores all measurements: the bodies of the port's methods do nothing."""


def request_metrics() -> RequestMetrics:
    """Metrics of requests in a registry of their own."""
    return RequestMetrics(CollectorRegistry())


class FixedUsage:
    """The usage of consumable resources, with the same figures for each, and since when the clock is steady."""

    def __init__(self, *, in_use=0, used_up=0, steady_since=None):
        self._in_use, self._used_up, self._steady_since = in_use, used_up, steady_since

    def steady_since(self, now):
        return self._steady_since or now

    def in_use(self, name):
        return self._in_use

    def used_up(self, name):
        return self._used_up
