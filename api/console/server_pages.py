"""The pages of the whole server: the overview of queues, capacity and failures; its health and its settings."""

from collections.abc import Mapping

from msgspec import to_builtins

from batchq.api.console.activity_pictures import PicturesQuery
from batchq.api.console.job_timeline import running_picture
from batchq.api.console.job_words import tab_title
from batchq.api.console.pages import Page, PageTable, Redirect
from batchq.api.console.runs_of_rows import active_rows
from batchq.api.console.state import ConsoleState
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.doctor.server import health_findings
from batchq.domain.access.accounts import Permission

INTERNAL = frozenset({"--survey-every"})  # settings that no operator changes
MAX_ACTIVE = 30  # rows of the timeline

pages = PageTable()


@pages.get("/", Permission.SELF)
async def overview_page(parts: Parts, visit: Call[PicturesQuery]) -> Page:
    found = await parts.overviews.overview(caller=visit.caller)
    why = await parts.explanations.heads([overview.queue.name for overview in found.queues], caller=visit.caller)
    active = active_rows(parts.overviews.running_now(caller=visit.caller))
    running = sum(queue.running for queue in found.queues)
    pictures = await parts.state(ConsoleState).pictures.of(parts, None, hours=visit.input.hours, caller=visit.caller)
    counts = {"running": running, "failed": pictures.failed}
    values = {
        "overview": found,
        "why": why,
        "pictures": pictures,
        "timeline": running_picture(active[:MAX_ACTIVE], found.at),
        "shown_active": MAX_ACTIVE,
        "more_active": sum(row.count for row in active[MAX_ACTIVE:]),
        "running": running,
        "waiting": sum(queue.waiting for queue in found.queues),
        "millicpus": sum(each.millicpus for each in found.environments),
        "limit": sum(each.environment.max_millicpus for each in found.environments),
    }
    return Page(template="overview.html", title="Overview", values=values, tab=tab_title("", counts))


@pages.get("", Permission.SELF)
async def without_slash(_: Parts, visit: Call[None]) -> Redirect:  # noqa: ARG001 - the table passes it
    return Redirect(location="/ui/")


@pages.get("/system", Permission.SELF)
async def system_page(parts: Parts, visit: Call[None]) -> Page:
    """The health report, as /healthz has it, and facts of the server.

    Only operators see the settings, the disk and descriptions of failures.
    """
    sees_all, report = visit.caller.reaches_all, await parts.monitoring.health()
    report = report if sees_all else report.without_errors()
    queues = await parts.overviews.queues(caller=visit.caller)
    loops = sorted((report.loops or {}).items())
    values = {
        "report": report,
        "facts": await parts.monitoring.facts(),
        "sees_all": sees_all,
        "running": sum(queue.running for queue in queues),
        "waiting": sum(queue.waiting for queue in queues),
        "parts": {
            "Database": report.store,
            "Container engine": report.engine,
            "Data": report.data,
            "Disk": report.disk,
            "Disk reserve": report.reserve,
            "Capture of logs": report.logs,
            "Event loop": report.event_loop,
        },
        "loops": loops,
        "restarted": [(name, state) for name, state in loops if state != "ok"],
        "findings": list(health_findings(to_builtins(report))),
        "settings": _setting_words(parts.system_settings) if sees_all else {},
    }
    return Page(template="system.html", title="System", values=values)


def _setting_words(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings by the words of their flags, as `Retention days`; empty values are left out."""
    words = {"True": "yes", "False": "no"}
    return {
        flag.removeprefix("--").replace("-", " ").capitalize(): words.get(value, value)
        for flag, value in settings.items()
        if value and flag not in INTERNAL
    }
