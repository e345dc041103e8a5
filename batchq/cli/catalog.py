"""`batchq queue`, `env`, `def` and `resource`: lists and details of what jobs refer to, by AWS's operations."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from batchq.cli.http_client import add_server_flags, call, url_of
from batchq.cli.output import DONE, REFUSED, print_error, uses_color, write_line
from batchq.cli.server_requests import ACTIVE, WAITING, Page, Row, fetch_overview, fetch_pages
from batchq.cli.tables import (
    Column,
    add_output_flags,
    flattened,
    print_fields,
    print_json,
    print_list,
    prints_json,
    text_column,
)
from batchq.errors import Invalid, NotFound
from batchq.system.escapes import escape

NAME_OR_ARN = "name or ARN"


class CatalogKind(Struct, frozen=True, kw_only=True):
    """A kind of resource, as AWS's operations describe it."""

    #: The noun in messages.
    noun: str
    #: The path of the operation that lists all.
    path: str
    #: The member of its response that is the list.
    list_member: str
    #: The members of a resource that form its name.
    name: Callable[[Row], str]
    #: The request of `path` for resources of this name.
    by_name: Callable[[str], Mapping[str, object]]


QUEUES = CatalogKind(
    noun="job queue",
    path="/v1/describejobqueues",
    list_member="jobQueues",
    name=lambda row: str(row.get("jobQueueName")),
    by_name=lambda name: {"jobQueues": [name]},
)
ENVIRONMENTS = CatalogKind(
    noun="compute environment",
    path="/v1/describecomputeenvironments",
    list_member="computeEnvironments",
    name=lambda row: str(row.get("computeEnvironmentName")),
    by_name=lambda name: {"computeEnvironments": [name]},
)
DEFINITIONS = CatalogKind(
    noun="job definition",
    path="/v1/describejobdefinitions",
    list_member="jobDefinitions",
    name=lambda row: f"{row.get('jobDefinitionName')}:{row.get('revision')}",
    by_name=lambda name: {"jobDefinitions": [name]} if ":" in name else {"jobDefinitionName": name},
)
LIST_RESOURCES = "/v1/listconsumableresources"
DESCRIBE_RESOURCE = "/v1/describeconsumableresource"
UPDATE_QUEUE = "/v1/updatejobqueue"


def add_queue(command: ArgumentParser) -> None:
    """List and show job queues. Operators and admins enable and disable them.

    batchq queue list
    batchq queue disable night
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    _subcommand(subcommands, "list", "list the queues, with their jobs and what the first one waits for", _list_queues)
    _show_command(subcommands, "queue_name", "show all settings of a queue", QUEUES)
    for name, state, summary in (
        ("enable", "ENABLED", "accept and start jobs of these queues again"),
        ("disable", "DISABLED", "accept and start no further jobs of these queues; running jobs continue"),
    ):
        each = subcommands.add_parser(name, help=summary, description=summary)
        each.set_defaults(run=_set_queue_state, state=state)
        each.add_argument("queue_names", nargs="+", metavar="QUEUE", help=NAME_OR_ARN)
        add_server_flags(each)


def add_env(command: ArgumentParser) -> None:
    """List and show compute environments.

    batchq env list
    batchq env show local
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    _subcommand(subcommands, "list", "list the environments, with their capacity in use", _list_environments)
    _show_command(subcommands, "environment_name", "show all settings of an environment", ENVIRONMENTS)


def add_def(command: ArgumentParser) -> None:
    """List and show job definitions.

    batchq def list                    the latest revision of each definition
    batchq def list align              all active revisions of one
    batchq def show align:3
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    listing = _subcommand(subcommands, "list", "list the definitions, each with its latest revision", _list_definitions)
    listing.add_argument("definition_name", nargs="?", metavar="NAME", help="all active revisions of this definition")
    _show_command(subcommands, "definition_name", "show a revision: NAME:REVISION, or NAME for the latest", DEFINITIONS)


def add_resource(command: ArgumentParser) -> None:
    """List and show consumable resources, for example licences.

    batchq resource list
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    _subcommand(subcommands, "list", "list the resources, with the units in use", _list_resources)
    show = _subcommand(subcommands, "show", "show a resource", _show_resource)
    show.add_argument("resource_name", metavar="NAME", help=NAME_OR_ARN)


def _subcommand(
    subcommands: Any,  # noqa: ANN401 - argparse's
    name: str,
    summary: str,
    run: Callable[[Namespace], int],
) -> ArgumentParser:
    command: ArgumentParser = subcommands.add_parser(name, help=summary, description=summary)
    command.set_defaults(run=run)
    add_output_flags(command)
    add_server_flags(command)
    return command


def _show_command(
    subcommands: Any,  # noqa: ANN401 - argparse's
    dest: str,
    summary: str,
    kind: CatalogKind,
) -> None:
    """Declare `show NAME`. `dest`: the attribute of the name, by which the completion knows the kind."""

    def show(args: Namespace) -> int:
        return _show(args, _named(url_of(args), kind, getattr(args, dest)))

    _subcommand(subcommands, "show", summary, show).add_argument(dest, metavar="NAME", help=NAME_OR_ARN)


def _all(url: str, kind: CatalogKind, request: Mapping[str, object]) -> Page:
    """The response of all pages."""
    return {
        kind.list_member: [item for page in fetch_pages(url, kind.path, request) for item in page[kind.list_member]]
    }


def _named(url: str, kind: CatalogKind, name: str) -> Row:
    """The resource of this name; of several revisions the latest active one. Raises NotFound."""
    found = _all(url, kind, kind.by_name(name))[kind.list_member]
    active = [item for item in found if item.get("status") != "INACTIVE"] or found
    if not active:
        raise NotFound(f"there is no {kind.noun} {name!r}")
    latest: Row = max(active, key=lambda row: int(row.get("revision", 0)))
    return latest


def _show(args: Namespace, resource: Row) -> int:
    if prints_json(args):
        print_json(args, resource)
    else:
        print_fields(flattened(resource), color=uses_color(args.color))
    return DONE


def _list_queues(args: Namespace) -> int:
    url = url_of(args)
    response = _all(url, QUEUES, {})
    if prints_json(args):
        print_json(args, response)
        return DONE
    jobs = {queue["jobQueue"]: queue for queue in fetch_overview(url)["queues"]}
    rows = [{**queue, **jobs.get(QUEUES.name(queue), {}), "state": queue["state"]} for queue in response["jobQueues"]]
    print_list(args, response, sorted(rows, key=lambda row: -row["priority"]), _queue_columns())
    return DONE


def _queue_columns() -> list[Column]:
    def jobs(statuses: Sequence[str]) -> Callable[[Row], str]:
        return lambda row: str(sum(row.get("counts", {}).get(status, 0) for status in statuses))

    return [
        Column(title="QUEUE", full=QUEUES.name),
        _state_column(),
        text_column("PRIORITY", "priority", right=True),
        Column(title="RUNNING", full=jobs(ACTIVE), right=True),
        Column(title="WAITING", full=jobs(WAITING), right=True),
        Column(title="ENVIRONMENTS", full=_environments, elastic=True),
        Column(title="NEXT", full=_next, elastic=True),
    ]


def _state_column() -> Column:
    def state(row: Row) -> str:
        return f"{row['state']}{' drained' if row.get('drained') else ''}"

    return Column(title="STATE", full=state, style=lambda other_row: "" if state(other_row) == "ENABLED" else "yellow")


def _environments(queue: Row) -> str:
    names = [str(item["computeEnvironment"]).rpartition("/")[2] for item in queue.get("computeEnvironmentOrder", ())]
    return ",".join(names)


def _next(queue: Row) -> str:
    """Why the first waiting job waits."""
    why = queue.get("why", "")
    return str(why.get("sentence", "")) if isinstance(why, dict) else str(why)


def _set_queue_state(args: Namespace) -> int:
    url, status = url_of(args), DONE
    for name in args.queue_names:
        try:
            call(url, UPDATE_QUEUE, {"jobQueue": name, "state": args.state})
        except Invalid as refused:
            status = print_error(f"{name}: {refused}", REFUSED)
        else:
            write_line(escape(f"queue {name} is {args.state}"))
    return status


def _list_environments(args: Namespace) -> int:
    url = url_of(args)
    response = _all(url, ENVIRONMENTS, {})
    if prints_json(args):
        print_json(args, response)
        return DONE
    capacity = {item["computeEnvironment"]: item for item in fetch_overview(url)["capacity"]}
    rows = [
        {**environment, **capacity.get(ENVIRONMENTS.name(environment), {})}
        for environment in response["computeEnvironments"]
    ]

    def use(member: str) -> Callable[[Row], str]:
        return lambda row: _use(row[member]) if member in row else ""

    columns = [
        Column(title="ENVIRONMENT", full=ENVIRONMENTS.name, elastic=True),
        _state_column(),
        Column(title="VCPUS", full=use("vcpus"), right=True),
        Column(title="MEMORY MIB", full=use("memoryMiB"), right=True),
        Column(title="GPUS", full=use("gpus"), right=True),
        Column(
            title="STATUS",
            full=lambda other_row: str(other_row.get("statusReason") or other_row.get("status", "")),
            elastic=True,
        ),
    ]
    print_list(args, response, rows, columns)
    return DONE


def _use(amounts: Row) -> str:
    """`2/8`: what is requested, and the limit; `?` for an unknown one."""
    limit = amounts.get("limit")
    return f"{amounts['requested']:g}/{'?' if limit is None else f'{limit:g}'}"


def _list_definitions(args: Namespace) -> int:
    name = args.definition_name
    request = {"status": "ACTIVE", **({"jobDefinitionName": name} if name else {})}
    response = _all(url_of(args), DEFINITIONS, request)
    found = sorted(
        response["jobDefinitions"], key=lambda definition: (definition["jobDefinitionName"], -definition["revision"])
    )
    latest: dict[str, Row] = {}
    for item in found:
        latest.setdefault(item["jobDefinitionName"], item)
    columns = [
        Column(title="DEFINITION", full=DEFINITIONS.name, elastic=True),
        text_column("TYPE", "type"),
        Column(title="VCPUS", full=lambda row: _requirement(row, "VCPU"), right=True),
        Column(title="MEMORY MIB", full=lambda other_row: _requirement(other_row, "MEMORY"), right=True),
        Column(
            title="IMAGE",
            full=lambda one_row: str(one_row.get("containerProperties", {}).get("image", "")),
            elastic=True,
        ),
        Column(title="COMMAND", full=_command, elastic=True),
    ]
    print_list(args, response, found if name else list(latest.values()), columns)
    return DONE


def _requirement(definition: Row, kind: str) -> str:
    requirements = definition.get("containerProperties", {}).get("resourceRequirements", ())
    return next((str(requirement["value"]) for requirement in requirements if requirement["type"] == kind), "")


def _command(definition: Row) -> str:
    return " ".join(map(str, definition.get("containerProperties", {}).get("command", ())))


def _list_resources(args: Namespace) -> int:
    pages = fetch_pages(url_of(args), LIST_RESOURCES, {})
    response = {"consumableResources": [resource for page in pages for resource in page["consumableResources"]]}
    columns = [
        text_column("RESOURCE", "consumableResourceName", elastic=True),
        text_column("TYPE", "resourceType"),
        text_column("IN USE", "inUseQuantity", right=True),
        text_column("TOTAL", "totalQuantity", right=True),
    ]
    print_list(args, response, response["consumableResources"], columns)
    return DONE


def _show_resource(args: Namespace) -> int:
    return _show(args, dict(call(url_of(args), DESCRIBE_RESOURCE, {"consumableResource": args.resource_name})))
