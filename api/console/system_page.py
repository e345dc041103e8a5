"""The page of the server itself: its health, what to do about it, and its settings."""

from msgspec import to_builtins

from batchq.api.console.context import ConsoleContext
from batchq.api.console.pages import Page, PageTable, Visit
from batchq.doctor.server import health_findings

pages = PageTable()


@pages.get("/system")
async def system_page(context: ConsoleContext, visit: Visit[None]) -> Page:
    """The health report, as /healthz has it. Only operators see the settings."""
    report = await context.health()
    values = {
        "report": report,
        "parts": {
            "Database": report.store,
            "Container engine": report.engine,
            "Data": report.data,
            "Disk": report.disk,
            "Disk reserve": report.reserve,
            "Capture of logs": report.logs,
            "Event loop": report.event_loop,
        },
        "findings": list(health_findings(to_builtins(report))),
        "settings": context.system_settings if visit.caller.reaches_all else {},
    }
    return Page(template="system.html", title="System", values=values)
