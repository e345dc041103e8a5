"""The facts of a running server for the page of the system."""

from datetime import datetime

from batchq.api.operations.parts import SystemFacts
from batchq.errors import StoreFailed
from batchq.server.health import ServerParts
from batchq.store.statements import newest_schema


async def system_facts(parts: ServerParts, started_at: datetime) -> SystemFacts:
    machines = parts.engine.machines() or ()
    names = {f"{machine.engine} {machine.engine_version}".strip() for machine in machines}
    try:
        free = parts.disk_guard.free()
    except StoreFailed:
        free = None
    return SystemFacts(
        started_at=started_at,
        engines=tuple(sorted(filter(None, names))),
        schema=newest_schema(),
        database_bytes=parts.store.size(),
        log_bytes=await parts.logs.stored_bytes(),
        free_bytes=free,
        measures_use=parts.engine.use.is_measuring,
    )
