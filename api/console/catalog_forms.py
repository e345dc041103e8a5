"""The forms that enable, disable and drain a queue, and that deregister a revision of a job definition.

Repeated, they change nothing, so they carry no invocation.
"""

import re
from collections.abc import Callable
from urllib.parse import quote

from msgspec.structs import replace

from batchq.api.console.context import ConsoleContext
from batchq.api.console.pages import Page, PageAnswer, PageTable, Redirect, Visit
from batchq.domain.access.accounts import Caller, Permission
from batchq.domain.catalog import JobDefinition, JobQueue, State
from batchq.domain.ids import DefinitionRef, QueueName
from batchq.errors import NotFound

_REF = re.compile(r"(?P<name>[A-Za-z0-9_-]{1,128}):(?P<revision>[1-9][0-9]{0,8})")

pages = PageTable()


@pages.post("/queues/{name}/enable", permission=Permission.CATALOG)
async def post_enable_queue(context: ConsoleContext, visit: Visit[None]) -> PageAnswer:
    return await _updated_queue(context, visit, lambda it: replace(it, state=State.ENABLED))


@pages.post("/queues/{name}/disable", permission=Permission.CATALOG)
async def post_disable_queue(context: ConsoleContext, visit: Visit[None]) -> PageAnswer:
    return await _updated_queue(context, visit, lambda it: replace(it, state=State.DISABLED))


@pages.post("/queues/{name}/drain", permission=Permission.CATALOG)
async def post_drain_queue(context: ConsoleContext, visit: Visit[None]) -> PageAnswer:
    return await _drained_queue(context, visit, drained=True)


@pages.post("/queues/{name}/undrain", permission=Permission.CATALOG)
async def post_undrain_queue(context: ConsoleContext, visit: Visit[None]) -> PageAnswer:
    return await _drained_queue(context, visit, drained=False)


@pages.get("/definitions/{ref}/deregister")
async def deregister_page(context: ConsoleContext, visit: Visit[None]) -> PageAnswer:
    definition = await find_definition(context, visit.path["ref"], visit.caller)
    values = {"definition": definition, "path": f"/ui/definitions/{definition.ref}"}
    return Page(template="deregister.html", title=f"Deregister {definition.ref}", values=values)


@pages.post("/definitions/{ref}/deregister")
async def post_deregister(context: ConsoleContext, visit: Visit[None]) -> PageAnswer:
    definition = await find_definition(context, visit.path["ref"], visit.caller)
    caller = replace(visit.caller, operation="DeregisterJobDefinition")
    await context.catalog.definitions.deregister(definition.ref, caller=caller)
    return Redirect(location=f"/ui/definitions/{definition.ref}")


async def _updated_queue(
    context: ConsoleContext, visit: Visit[None], change: Callable[[JobQueue], JobQueue]
) -> Redirect:
    name, caller = QueueName(visit.path["name"]), replace(visit.caller, operation="UpdateJobQueue")
    await context.catalog.job_queues.update(name, change, caller=caller)
    return _to_queue(name)


async def _drained_queue(context: ConsoleContext, visit: Visit[None], *, drained: bool) -> Redirect:
    name, caller = QueueName(visit.path["name"]), replace(visit.caller, operation="DrainQueue")
    await context.catalog.drain_queue(name, drained=drained, caller=caller)
    return _to_queue(name)


def _to_queue(name: QueueName) -> Redirect:
    return Redirect(location=f"/ui/queues/{quote(name, safe='')}")


async def find_definition(context: ConsoleContext, text: str, caller: Caller) -> JobDefinition:
    """The revision `name:revision`. Raises NotFound."""
    parts = _REF.fullmatch(text)
    if parts is not None:
        ref = DefinitionRef(name=parts["name"], revision=int(parts["revision"]))
        found = await context.catalog.definitions.get_visible(ref, caller=caller)
        if found is not None:
            return found
    raise NotFound(f"JobDefinition {text} not found.")
