"""The pages of compute environments and of consumable resources, with the jobs that hold them."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from batchq.api.console.activity_pictures import PicturesQuery
from batchq.api.console.pages import Page, PageTable
from batchq.api.console.runs_of_rows import active_rows
from batchq.api.console.state import ConsoleState
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.catalog import network_of
from batchq.domain.enums import Status
from batchq.domain.ids import ConsumableName
from batchq.domain.job import Job
from batchq.domain.job_selection import JobSelection
from batchq.errors import NotFound
from batchq.ports.catalog import NeedQuery
from batchq.ports.job_search import PageQuery
from batchq.services.job_views import JobView
from batchq.services.machines import MachineQuery

MAX_JOBS = 200  # in all environments together
MAX_RESOURCES = 100  # on a page
MAX_MACHINES = 50  # on a page
MACHINE_JOBS = 20  # jobs of one machine
MAX_HOLDERS = 50  # jobs in each state

pages = PageTable()


class ResourcesQuery(BaseModel):
    """A page of the list of consumable resources."""

    model_config = ConfigDict(frozen=True)

    #: Only names after this.
    after: Annotated[str, Field(max_length=256)] = ""


class EnvironmentsQuery(PicturesQuery):
    """The pictures of the environments, and a page of the list of machines."""

    #: `MachinePage.next` of the page before; None: the first page.
    after: Annotated[str, Field(max_length=512)] | None = None


@pages.get("/environments", Permission.SELF)
async def environments_page(parts: Parts, visit: Call[EnvironmentsQuery]) -> Page:
    """All compute environments and machines with their jobs, as far as the caller may see them."""
    caller, environments = visit.caller, parts.overviews.environments()
    names = frozenset(str(overview.environment.name) for overview in environments)
    found = await parts.search.search(
        PageQuery(selection=JobSelection(environments=names, children=True), limit=MAX_JOBS), caller=caller
    )
    visible = parts.catalog.queues_of(caller)
    values = {
        "environments": environments,
        "jobs": {name: active_rows(job for job in found.jobs if _environment(job) == name) for name in names},
        "more": found.next is not None,
        "queues": {name: sorted(key for key, queue in visible.items() if name in queue.environments) for name in names},
        "network_of": network_of,
        "pictures": await parts.state(ConsoleState).pictures.of_environments(
            parts,
            [overview.environment.name for overview in environments],
            hours=visit.input.hours,
            caller=caller,
        ),
        "hours": visit.input.hours,
        "after": visit.input.after,
        "machines": parts.overviews.machines(
            MachineQuery(after=visit.input.after, limit=MAX_MACHINES, max_jobs=MACHINE_JOBS), caller=caller
        ),
    }
    return Page(template="environments.html", title="Compute environments", values=values)


@pages.get("/resources", Permission.SELF)
async def resources_page(parts: Parts, visit: Call[ResourcesQuery]) -> Page:
    """All consumable resources with their quantities."""
    resources, after = parts.catalog.consumable_resources, visit.input.after
    names = sorted(name for name in resources.known if name > after)
    shown = [resources.known[name] for name in names[:MAX_RESOURCES]]
    values = {
        "after": after,
        "resources": [(resource, resources.quantities(resource)) for resource in shown],
        "more": names[MAX_RESOURCES - 1] if len(names) > MAX_RESOURCES else None,
    }
    return Page(template="resources.html", title="Consumable resources", values=values)


@pages.get("/resources/{name:[^/]{1,256}}", Permission.SELF)
async def resource_page(parts: Parts, visit: Call[None]) -> Page:
    """One consumable resource with the jobs that hold it and that wait."""
    name, resources = ConsumableName(visit.path["name"]), parts.catalog.consumable_resources
    resource = resources.known.get(name)
    if resource is None:
        raise NotFound(f"ConsumableResource {name} not found.")
    active = [await _needing(parts, name, status, visit.caller) for status in (Status.RUNNING, Status.STARTING)]
    waiting = await _needing(parts, name, Status.RUNNABLE, visit.caller)
    values = {
        "resource": resource,
        "quantities": resources.quantities(resource),
        "holders": [JobView(job=job) for job in (*active[0], *active[1])],
        "waiting": await parts.views.listed(waiting, caller=visit.caller),
        "needed": lambda job: sum(need.quantity for need in job.spec.needs if need.resource == name),
        "most": MAX_HOLDERS,
    }
    return Page(template="resource.html", title=f"Consumable resource {name}", values=values)


async def _needing(parts: Parts, name: ConsumableName, status: Status, caller: Caller) -> tuple[Job, ...]:
    query = NeedQuery(resource=name, status=status, limit=MAX_HOLDERS)
    return await parts.jobs.list_needing(query, caller=caller)


def _environment(job: Job) -> str | None:
    return None if job.attempt is None else job.attempt.environment
