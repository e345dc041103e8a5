"""The pages of job queues: the list, and one queue with the jobs that start next, its shares, its limits and its forms.

The forms enable, disable and drain a queue. Repeated, they change nothing, so they carry no invocation. An order that
keeps jobs from being accepted or started has a page that describes it first.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from batchq.api.console.activity_pictures import PicturesQuery
from batchq.api.console.job_words import tab_title
from batchq.api.console.pages import Page, PageTable, Redirect, last_word
from batchq.api.console.runs_of_rows import SweepPages, sweep_key, sweep_pages
from batchq.api.console.state import ConsoleState
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission
from batchq.domain.catalog import SchedulingPolicy
from batchq.domain.enums import State
from batchq.domain.ids import QueueName
from batchq.errors import NotFound
from batchq.ports.catalog import Snapshot
from batchq.services.job_views import JobView
from batchq.services.overview import QueueOverview

pages = PageTable()
EFFECTS = {
    "disable": (
        "The queue accepts no more jobs: every submission to it is refused. Jobs that run continue, and jobs that wait "
        "in the queue still start."
    ),
    "drain": (
        "The queue starts no more jobs, and still accepts them. Jobs that run continue; jobs that wait, and retries, "
        "do not start until the drain ends."
    ),
}
STATES = {"enable": State.ENABLED, "disable": State.DISABLED}
QUEUE = "/queues/{name:[^/]{1,256}}"


class ShareRow(Struct, frozen=True, kw_only=True):
    """A share of a fair-share queue."""

    #: Its identifier; of an entry of the policy, it may end with `*`.
    share: str
    weight: float
    #: Thousandths of a vCPU that its jobs hold; None: not known, or not visible.
    millicpus: int | None


class LineEntry(Struct, frozen=True, kw_only=True):
    """A job that waits in a queue, or several jobs of a group or an array that stand behind each other."""

    #: Of the first one.
    view: JobView
    #: How many jobs stand behind it.
    following: int
    #: Their group or array; None: it is one job.
    sweep: SweepPages | None


@pages.get("/queues", Permission.SELF)
async def queues_page(parts: Parts, visit: Call[None]) -> Page:
    """All queues that the caller may use."""
    queues = await parts.overviews.queues(caller=visit.caller)
    why = await parts.explanations.heads([overview.queue.name for overview in queues], caller=visit.caller)
    return Page(template="queues.html", title="Queues", values={"queues": queues, "why": why})


@pages.get(QUEUE, Permission.SELF)
async def queue_page(parts: Parts, visit: Call[PicturesQuery]) -> Page:
    """One queue."""
    caller, name = visit.caller, QueueName(visit.path["name"])
    snapshot = await parts.jobs.snapshot(name, caller=caller)
    shown = await _overview(parts, visit)
    jobs = await parts.jobs.describe([job_id for job_id, _ in snapshot.jobs], caller=caller)
    policy = None if shown.queue.policy is None else parts.catalog.policies.get(shown.queue.policy)
    values = {
        "overview": shown,
        "queue": shown.queue,
        "line": line_of(await parts.views.listed(jobs, caller=caller)),
        "since": dict(snapshot.jobs),
        "snapshot": snapshot,
        "pictures": await parts.state(ConsoleState).pictures.of(parts, name, hours=visit.input.hours, caller=caller),
        "policy": policy,
        "shares": () if policy is None else _shares(policy, snapshot),
        "environments": [parts.catalog.environments[name] for name in shown.queue.environments],
        "may_change": caller.has(Permission.CATALOG),
    }
    counts = {"running": shown.running, "waiting": shown.waiting}
    return Page(template="queue.html", title=f"Queue {name}", values=values, tab=tab_title(name, counts))


def line_of(views: Iterable[JobView]) -> list[LineEntry]:
    """The jobs in their order, those of a group or an array that stand behind each other as one entry."""
    parts = [list(part) for _, part in groupby(views, key=lambda view: sweep_key(view.job))]
    return [
        LineEntry(view=part[0], following=len(part) - 1, sweep=sweep_pages(part[0].job) if len(part) > 1 else None)
        for part in parts
    ]


def _shares(policy: SchedulingPolicy, snapshot: Snapshot) -> list[ShareRow]:
    """The entries of the policy, then the other shares whose jobs hold vCPUs."""
    held = dict(snapshot.shares)
    named = {weight.identifier: weight.weight for weight in policy.shares}
    rows = named | {share: policy.weight(share) for share in held if share not in named}
    return [ShareRow(share=share, weight=weight, millicpus=held.get(share)) for share, weight in rows.items()]


@pages.get("/queues/{name}/disable", Permission.CATALOG)
@pages.get("/queues/{name}/drain", Permission.CATALOG)
async def queue_order_page(parts: Parts, visit: Call[None]) -> Page:
    """What the order does to the queue, and its form."""
    shown, order = await _overview(parts, visit), last_word(visit)
    values = {"overview": shown, "queue": shown.queue, "order": order, "effect": EFFECTS[order]}
    return Page(template="queue_order.html", title=f"{order.capitalize()} queue {shown.queue.name}", values=values)


@pages.post("/queues/{name}/enable", Permission.CATALOG)
@pages.post("/queues/{name}/disable", Permission.CATALOG)
async def post_queue_state(parts: Parts, visit: Call[None]) -> Redirect:
    name, caller = QueueName(visit.path["name"]), replace(visit.caller, operation="UpdateJobQueue")
    state = STATES[last_word(visit)]
    await parts.catalog.job_queues.update(name, lambda queue: replace(queue, state=state), caller=caller)
    return _to_queue(name)


@pages.post("/queues/{name}/drain", Permission.CATALOG)
@pages.post("/queues/{name}/undrain", Permission.CATALOG)
async def post_queue_drain(parts: Parts, visit: Call[None]) -> Redirect:
    name, caller = QueueName(visit.path["name"]), replace(visit.caller, operation="DrainQueue")
    await parts.catalog.drain_queue(name, drained=last_word(visit) == "drain", caller=caller)
    return _to_queue(name)


async def _overview(parts: Parts, visit: Call[Any]) -> QueueOverview:
    """The queue that the path names. Raises NotFound."""
    for overview in await parts.overviews.queues(caller=visit.caller):
        if overview.queue.name == visit.path["name"]:
            return overview
    raise NotFound(f"JobQueue {visit.path['name']} not found.")


def _to_queue(name: QueueName) -> Redirect:
    return Redirect(location=f"/ui/queues/{quote(name, safe='')}")
