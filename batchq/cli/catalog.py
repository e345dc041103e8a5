"""`batchq queue`, `env`, `def` and `resource`: lists and details of what jobs refer to, by AWS's operations."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import urlencode

from msgspec import Struct

from batchq.cli.activity import activity_lines, fetch_activity
from batchq.cli.catalog_detail import (
    definition_fields,
    definition_use_fields,
    environment_fields,
    queue_fields,
    resource_fields,
)
from batchq.cli.http_client import Document, call, to_answer, url_of
from batchq.cli.job_flags import parse_pair
from batchq.cli.machines import fetch_machines, print_machines, use_text
from batchq.cli.output import DONE, REFUSED, print_error, uses_color, write_line
from batchq.cli.quantities import parse_count
from batchq.cli.server_requests import fetch_overview, fetch_pages
from batchq.cli.tables import (
    Column,
    Field,
    Row,
    add_parser,
    add_single_flags,
    json_of,
    print_fields,
    print_json,
    print_list,
    prints_json,
    text_column,
)
from batchq.domain.enums import ACTIVE, QUEUED, Status
from batchq.domain.ids import ENGINE_TAG, LABEL_TAG
from batchq.errors import Invalid, NotFound
from batchq.ports.responses import batch
from batchq.ports.responses.definitions import DefinitionUseResponse
from batchq.ports.responses.server import EnvironmentResponse, QueueResponse
from batchq.system.escapes import escape

DEFINITION_USE = "/v1/batchq/definitionuse"
NAME_OR_ARN = "name or ARN"


class CatalogKind(Struct, frozen=True, kw_only=True):
    """A kind of resource, as AWS's operations describe it."""

    #: The noun in messages.
    noun: str
    #: The path of the operation that lists all.
    path: str
    #: The member of its response that is the list.
    list_member: str
    #: The request of `path` for resources of this name.
    by_name: Callable[[str], Mapping[str, object]]


QUEUES = CatalogKind(
    noun="job queue",
    path="/v1/describejobqueues",
    list_member="jobQueues",
    by_name=lambda name: {"jobQueues": [name]},
)
ENVIRONMENTS = CatalogKind(
    noun="compute environment",
    path="/v1/describecomputeenvironments",
    list_member="computeEnvironments",
    by_name=lambda name: {"computeEnvironments": [name]},
)
DEFINITIONS = CatalogKind(
    noun="job definition",
    path="/v1/describejobdefinitions",
    list_member="jobDefinitions",
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
    add_parser(
        subcommands,
        "list",
        "list the queues, with their jobs and what the first one waits for",
        _list_queues,
        prints_list=True,
    )
    _add_show(subcommands, "queue_name", "show the settings of a queue, and its last 24 hours", _show_queue)
    for name, state, summary in (
        ("enable", "ENABLED", "accept and start jobs of these queues again"),
        ("disable", "DISABLED", "accept and start no further jobs of these queues; running jobs continue"),
    ):
        each = add_parser(subcommands, name, summary, _set_queue_state)
        each.set_defaults(state=state)
        each.add_argument("queue_names", nargs="+", metavar="QUEUE", help=NAME_OR_ARN)


def add_env(command: ArgumentParser) -> None:
    """List and show compute environments. Operators and admins create and change them.

    batchq env list
    batchq env create gpu --vcpus 64 --engine kubernetes --label pool=gpu
    batchq env update gpu --label zone=a
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    add_parser(
        subcommands, "list", "list the environments, with their capacity in use", _list_environments, prints_list=True
    )
    summary = "show the settings of an environment, and the machines that run its jobs"
    _add_show(subcommands, "environment_name", summary, _show_environment)
    create = add_parser(subcommands, "create", "create an environment", _create_environment)
    create.add_argument("environment_name", metavar="NAME", help="a new name")
    update = add_parser(
        subcommands, "update", "change settings of an environment; running jobs continue", _update_environment
    )
    update.add_argument("environment_name", metavar="NAME", help=NAME_OR_ARN)
    update.add_argument("--no-engine", action="store_true", help="select machines of the first container engine")
    update.add_argument(
        "--no-label", action="append", default=[], metavar="KEY", help="machines need not have this label any more"
    )
    for each in (create, update):
        each.add_argument("--vcpus", type=parse_count, metavar="N", help="vCPUs that its jobs may use together")
        each.add_argument("--engine", metavar="ENGINE", help="container engine of its machines: docker or kubernetes")
        each.add_argument(
            "--label", action="append", default=[], type=parse_pair, metavar="KEY=VALUE", help="label of its machines"
        )


def add_def(command: ArgumentParser) -> None:
    """List and show job definitions.

    batchq def list                    the latest revision of each definition
    batchq def list align              all active revisions of one
    batchq def show align:3
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    listing = add_parser(
        subcommands, "list", "list the definitions, each with its latest revision", _list_definitions, prints_list=True
    )
    listing.add_argument("definition_name", nargs="?", metavar="NAME", help="all active revisions of this definition")
    summary = "show a revision: NAME:REVISION, or NAME for the latest"
    _add_show(subcommands, "definition_name", summary, _show_definition)


def add_resource(command: ArgumentParser) -> None:
    """List and show consumable resources, for example licences.

    batchq resource list
    """
    subcommands = command.add_subparsers(dest="subcommand", required=True)
    add_parser(subcommands, "list", "list the resources, with the units in use", _list_resources, prints_list=True)
    _add_show(subcommands, "resource_name", "show a resource", _show_resource)


def _add_show(
    subcommands: Any,  # noqa: ANN401 - argparse's
    member: str,
    summary: str,
    run: Callable[[Namespace], int | None],
) -> None:
    show = add_parser(subcommands, "show", summary, run)
    add_single_flags(show)
    show.add_argument(member, metavar="NAME", help=NAME_OR_ARN)


def _all(url: str, path: str, list_member: str, request: Mapping[str, object]) -> Document:
    """The response of all pages."""
    return {list_member: [item for page in fetch_pages(url, path, request) for item in page[list_member]]}


def _named(url: str, kind: CatalogKind, name: str) -> Document:
    """The resource of this name; of several revisions the latest active one. Raises NotFound."""
    found = _all(url, kind.path, kind.list_member, kind.by_name(name))[kind.list_member]
    active = [item for item in found if item.get("status") != "INACTIVE"] or found
    if not active:
        raise NotFound(f"there is no {kind.noun} {name!r}")
    latest: Document = max(active, key=lambda row: int(row.get("revision", 0)))
    return latest


def _show(args: Namespace, resource: Document, fields: Callable[[Document], Iterator[Field]]) -> None:
    if prints_json(args):
        print_json(args, resource)
    else:
        print_fields(fields(resource), color=uses_color(args.color))


def _show_queue(args: Namespace) -> None:
    """Print the settings, and the activity of the queue."""
    url = url_of(args)
    queue = _named(url, QUEUES, args.queue_name)
    _show(args, queue, queue_fields)
    if not prints_json(args):
        write_line("")
        for line in activity_lines(fetch_activity(url, queue["jobQueueName"])):
            write_line(line)


def _show_environment(args: Namespace) -> None:
    url = url_of(args)
    environment = _named(url, ENVIRONMENTS, args.environment_name)
    response = fetch_machines(url, environment["computeEnvironmentName"])
    machines = {"machines": json_of(response.machines)} if prints_json(args) else {}
    _show(args, environment | machines, environment_fields)
    if not prints_json(args):
        print_machines(args, response)


def _show_definition(args: Namespace) -> None:
    """Print the revision, and what its last 100 jobs used."""
    url = url_of(args)
    definition = _named(url, DEFINITIONS, args.definition_name)
    use: Iterable[Field] = ()
    if not prints_json(args):
        request = {"jobDefinition": f"{definition['jobDefinitionName']}:{definition['revision']}"}
        with suppress(Invalid):  # a server without this operation
            use = definition_use_fields(call(url, DEFINITION_USE, request, answer=DefinitionUseResponse))
    _show(args, definition, lambda shown: chain(definition_fields(shown), use))


class QueueRow(NamedTuple):
    """A job queue, with its jobs if the caller sees them."""

    queue: batch.JobQueueDetail
    jobs: QueueResponse | None

    def count(self, statuses: Collection[Status]) -> int:
        return 0 if self.jobs is None else sum(self.jobs.counts.get(status, 0) for status in statuses)

    @property
    def state(self) -> str:
        return f"{self.queue.state}{' drained' if self.jobs is not None and self.jobs.drained else ''}"

    @property
    def environments(self) -> str:
        return ",".join(item.compute_environment.rpartition("/")[2] for item in self.queue.compute_environment_order)


def _list_queues(args: Namespace) -> None:
    url = url_of(args)
    response = _all(url, QUEUES.path, QUEUES.list_member, {})
    if prints_json(args):
        print_json(args, response)
        return
    queues = to_answer(response, batch.DescribeJobQueuesResponse, url=url).job_queues
    jobs = {queue.job_queue: queue for queue in fetch_overview(url).queues}
    rows = [QueueRow(queue, jobs.get(queue.job_queue_name)) for queue in queues]
    columns: list[Column[QueueRow]] = [
        text_column("QUEUE", lambda row: row.queue.job_queue_name),
        _state_column(lambda row: row.state),
        text_column("PRIORITY", lambda row: row.queue.priority, right=True),
        text_column("RUNNING", lambda row: row.count(ACTIVE), right=True),
        text_column("WAITING", lambda row: row.count(QUEUED), right=True),
        text_column("ENVIRONMENTS", lambda row: row.environments, elastic=True),
        text_column("NEXT", lambda row: row.jobs and row.jobs.why and row.jobs.why.sentence, elastic=True),
    ]
    rows.sort(key=lambda row: -row.queue.priority)
    print_list(args, response, rows, columns, document=lambda row: row.queue)


def _state_column(state: Callable[[Row], str]) -> Column[Row]:
    return Column(title="STATE", full=state, style=lambda row: "" if state(row) == "ENABLED" else "yellow")


def _set_queue_state(args: Namespace) -> int:
    url, status = url_of(args), DONE
    for name in args.queue_names:
        try:
            call(url, UPDATE_QUEUE, {"jobQueue": name, "state": args.state}, answer=Document)
        except Invalid as refused:
            status = print_error(f"{name}: {refused}", REFUSED)
        else:
            write_line(escape(f"queue {name} is {args.state}"))
    return status


class EnvironmentRow(NamedTuple):
    """A compute environment, with its capacity if the caller sees it."""

    environment: batch.ComputeEnvironmentDetail
    capacity: EnvironmentResponse | None


def _list_environments(args: Namespace) -> None:
    url = url_of(args)
    response = _all(url, ENVIRONMENTS.path, ENVIRONMENTS.list_member, {})
    if prints_json(args):
        print_json(args, response)
        return
    environments = to_answer(response, batch.DescribeComputeEnvironmentsResponse, url=url).compute_environments
    capacity = {item.compute_environment: item for item in fetch_overview(url).capacity}
    columns: list[Column[EnvironmentRow]] = [
        text_column("ENVIRONMENT", lambda row: row.environment.compute_environment_name, elastic=True),
        _state_column(lambda row: row.environment.state),
        text_column("VCPUS", lambda row: row.capacity and use_text(row.capacity.vcpus), right=True),
        text_column("MEMORY MIB", lambda row: row.capacity and use_text(row.capacity.memory_mib), right=True),
        text_column("GPUS", lambda row: row.capacity and use_text(row.capacity.gpus), right=True),
        text_column("STATUS", lambda row: row.environment.status_reason or row.environment.status, elastic=True),
    ]
    rows = [EnvironmentRow(item, capacity.get(item.compute_environment_name)) for item in environments]
    print_list(args, response, rows, columns, document=lambda row: row.environment)


def _create_environment(args: Namespace) -> None:
    request = {"computeEnvironmentName": args.environment_name, "type": "UNMANAGED", "tags": _tags(args)}
    vcpus = {} if args.vcpus is None else {"unmanagedvCpus": args.vcpus}
    call(url_of(args), "/v1/createcomputeenvironment", request | vcpus, answer=Document)
    write_line(escape(f"environment {args.environment_name} is ENABLED"))


def _update_environment(args: Namespace) -> None:
    url = url_of(args)
    environment = _named(url, ENVIRONMENTS, args.environment_name)
    name, tags_path = environment["computeEnvironmentName"], f"/v1/tags/{environment['computeEnvironmentArn']}"
    if tags := _tags(args):
        call(url, tags_path, {"tags": tags}, answer=Document)
    if untagged := [f"{LABEL_TAG}{key}" for key in args.no_label] + ([ENGINE_TAG] if args.no_engine else []):
        call(url, f"{tags_path}?{urlencode({'tagKeys': untagged}, doseq=True)}", answer=Document, method="DELETE")
    if args.vcpus is not None:
        managed = environment["type"] == "MANAGED"
        size = {"computeResources": {"maxvCpus": args.vcpus}} if managed else {"unmanagedvCpus": args.vcpus}
        call(url, "/v1/updatecomputeenvironment", {"computeEnvironment": name} | size, answer=Document)
    write_line(escape(f"environment {name} is updated"))


def _tags(args: Namespace) -> Mapping[str, str]:
    """The tags that select the machines."""
    engine = {} if args.engine is None else {ENGINE_TAG: args.engine}
    return engine | {f"{LABEL_TAG}{key}": value for key, value in args.label}


def _list_definitions(args: Namespace) -> None:
    url, name = url_of(args), args.definition_name
    request = {"status": "ACTIVE", **({"jobDefinitionName": name} if name else {})}
    response = _all(url, DEFINITIONS.path, DEFINITIONS.list_member, request)
    definitions = to_answer(response, batch.DescribeJobDefinitionsResponse, url=url).job_definitions
    found = sorted(definitions, key=lambda definition: (definition.job_definition_name, -definition.revision))
    latest: dict[str, batch.JobDefinitionDetail] = {}
    for item in found:
        latest.setdefault(item.job_definition_name, item)
    columns: list[Column[batch.JobDefinitionDetail]] = [
        text_column("DEFINITION", lambda row: row.name, elastic=True),
        text_column("TYPE", lambda row: row.type),
        text_column("VCPUS", lambda row: row.container_properties.requirement("VCPU"), right=True),
        text_column("MEMORY MIB", lambda row: row.container_properties.requirement("MEMORY"), right=True),
        text_column("IMAGE", lambda row: row.container_properties.image, elastic=True),
        text_column("COMMAND", lambda row: " ".join(row.container_properties.command), elastic=True),
    ]
    if name and not found:
        raise NotFound(f"there is no job definition {name!r} with an active revision")
    print_list(args, response, found if name else list(latest.values()), columns, empty="there are no job definitions")


def _list_resources(args: Namespace) -> None:
    url = url_of(args)
    response = _all(url, LIST_RESOURCES, "consumableResources", {})
    columns: list[Column[batch.ConsumableResourceSummary]] = [
        text_column("RESOURCE", lambda row: row.consumable_resource_name, elastic=True),
        text_column("TYPE", lambda row: row.resource_type),
        text_column("IN USE", lambda row: row.in_use_quantity, right=True),
        text_column("TOTAL", lambda row: row.total_quantity, right=True),
    ]
    rows = to_answer(response, batch.ListConsumableResourcesResponse, url=url).consumable_resources
    print_list(args, response, rows, columns, empty="there are no consumable resources")


def _show_resource(args: Namespace) -> None:
    request = {"consumableResource": args.resource_name}
    _show(args, call(url_of(args), DESCRIBE_RESOURCE, request, answer=Document), resource_fields)
