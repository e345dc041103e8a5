"""A server's inside, and how it fares: what `/healthz` tells."""

from collections.abc import Mapping

from msgspec import Struct

from batchq import __version__
from batchq.audit.audit_log import AuditLog
from batchq.disk_guard import DiskGuard
from batchq.engine.engine import Engine
from batchq.engine.monitors.loop_watchdog import Pulse
from batchq.engine.retention import Pruner
from batchq.errors import StoreFailed
from batchq.logs.service import LogService
from batchq.ports.clock import Clock
from batchq.services.bulk_stop import BulkStopService
from batchq.services.catalog import CatalogService
from batchq.services.jobs import JobService
from batchq.settings import Settings
from batchq.store.sqlite_store import SqliteStore


class Parts(Struct, frozen=True, kw_only=True):
    """A server's inside."""

    store: SqliteStore
    catalog: CatalogService
    engine: Engine
    logs: LogService
    jobs: JobService
    stopping: BulkStopService
    pulse: Pulse
    pruner: Pruner
    audit: AuditLog
    floor: DiskGuard


async def health(settings: Settings, parts: Parts, clock: Clock) -> Mapping[str, object]:
    """`degraded` is alive: requests are answered, and what cannot be done now is done when it can be.

    `failing`: some of it is not done at all, and a human is needed.
    """
    seen = parts.engine.health()
    store, aside = seen.store, 0
    try:
        await parts.store.check()
        aside = await parts.store.put_aside()
    except StoreFailed as failure:
        store = str(failure)
    disk, reserve = parts.floor.trouble, parts.store.reserve_trouble
    well = seen.well and store is None and disk is None and reserve is None
    return {
        "status": "failing" if seen.failing else "ok" if well else "degraded",
        "store": store or "ok",
        "engine": seen.engine or "ok",
        "data": seen.held or "ok",
        "disk": disk or "ok",
        "reserve": reserve or "ok",
        "logs": parts.logs.trouble or "ok",
        "loops": seen.loops,
        "pulse": parts.pulse.health(),
        "putAside": aside,
        "instance": parts.store.instance,
        "runtime": settings.runtime.value,
        "version": __version__,
        "now": clock.now().isoformat(),
    }
