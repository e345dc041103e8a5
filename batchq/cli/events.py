"""`batchq events`: prints the status changes of jobs, and follows them with `-f`."""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from urllib.parse import urlencode

from batchq.cli.http_client import TIMEOUT, Patience, call, url_of
from batchq.cli.job_selection import add_selection_flags, selection_of
from batchq.cli.output import exit_with_reader, flush_output, is_terminal, print_notice
from batchq.cli.quantities import clock_time, local_time
from batchq.cli.tables import TEXT, OutputForm, add_form_flag, json_of
from batchq.domain.ids import short_id
from batchq.ports.responses.records import EventResponse, ListEventsResponse
from batchq.system.escapes import escape

EVENTS = "/v1/batchq/events"
LONG_POLL = 20  # seconds that the server waits for further events
PAGE_SIZE = 1000  # events of one response
GAP = "events before number {} are missing: they were deleted with their jobs, or the data was restored"


def add_events(command: ArgumentParser) -> None:
    """Print status changes of jobs in their order, numbered: one JSON object a line, or text on a terminal.

    batchq events -f                       status changes from now on, until Ctrl-C
    batchq events -f --from 1200           all after number 1200, then those to come
    batchq events sweep -f                 those of the jobs of a group or an array
    batchq events -t FAILED -q gpu | jq    the stored failures of one queue
    """
    add_selection_flags(command, filters=("queues", "states"), times=False)
    command.add_argument("-f", "--follow", action="store_true", help="print further events as they occur")
    text = "events after this number (all that are stored; with -f: those from now on)"
    command.add_argument("--from", dest="after", type=_number, metavar="N", help=text)
    add_form_flag(command, (TEXT, OutputForm.JSONL), "form of the output (text on a terminal, jsonl in a pipe)")


def run_events(args: Namespace) -> None:
    if args.follow:
        exit_with_reader()
    prints_objects = args.output == OutputForm.JSONL or (args.output is None and not is_terminal())
    for page in _pages(args, url_of(args)):
        for event in page.events:
            print(json.dumps(json_of(event)) if prints_objects else _text(event))
        flush_output()  # raises BrokenPipeError once the reader has gone


def _pages(args: Namespace, url: str) -> Iterator[ListEventsResponse]:
    """The responses of the server; with `--follow` without end."""
    patience = Patience()
    wait = LONG_POLL if args.follow else 0
    after = args.after if args.after is not None or args.follow else 0
    filters = _filters(args, url)
    if args.jobs and not filters.keys() & {
        "jobs",
        "groups",
    }:  # the handles of an empty stdin; a request without `jobs` would select all
        return
    is_first = args.after is None  # a reader without a number has missed nothing
    while True:
        query = filters | {"limit": PAGE_SIZE, "wait": wait} | ({} if after is None else {"after": after})
        path = f"{EVENTS}?{urlencode(query)}"
        page = patience.call(lambda: call(url, path, answer=ListEventsResponse, timeout=TIMEOUT + wait))  # noqa: B023
        if page.gap and not is_first:
            print_notice(GAP.format(page.events[0].number if page.events else page.next + 1))
        yield page
        if not args.follow and page.next == after:
            return
        after, is_first = page.next, False


def _filters(args: Namespace, url: str) -> dict[str, str]:
    """The parameters of the query that select events. Raises UsageError and NotFound for a job that is not found."""
    selection = selection_of(args, url)
    return {name: ",".join(values) for name, values in selection.items() if values}


def _text(event: EventResponse) -> str:
    if event.group_end is not None:
        parts = str(event.number), clock_time(local_time(event.at)), event.group_end.text
        return "  ".join(map(escape, parts))
    attempt = f" (attempt {event.attempt})" if event.attempt is not None else ""
    reason = f": {event.status_reason}" if event.status_reason is not None else ""
    words = (
        str(event.number),
        clock_time(local_time(event.at)),
        short_id(event.job_id),
        event.job_name,
        f"{event.status}{attempt}{reason}",
    )
    return "  ".join(map(escape, words))


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) > 2**53:
        raise ArgumentTypeError(f"{text!r} is not the number of an event")
    return int(text)
