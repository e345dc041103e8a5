"""`batchq logs`: prints the output of jobs, and follows it with `-f`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from queue import Queue
from threading import Thread

from msgspec import Struct

from batchq.cli.http_client import TIMEOUT, Patience, url_of
from batchq.cli.job_handles import Several
from batchq.cli.job_selection import MAX_IDS, Filters, add_selection_flags, ids_of_selection, selection_of
from batchq.cli.output import exit_with_reader, is_terminal, paint, print_notice, uses_color, write_line
from batchq.cli.quantities import parse_time
from batchq.cli.server_requests import fetch_explanation, fetch_jobs, fetch_log_lines, fetch_rows, fetch_server_time
from batchq.cli.tables import add_color_flag
from batchq.domain.enums import ACTIVE, FINISHED, in_order
from batchq.domain.times import milliseconds
from batchq.errors import BatchqError, NotFound, UsageError
from batchq.ports.responses.jobs import JobRow
from batchq.ports.responses.records import GetJobLogResponse, LogLineResponse
from batchq.system.escapes import escape, split_colours

LONG_POLL = 20  # seconds that the server waits for further lines
PAGE_SIZE = 10_000  # lines of one response
MAX_FOLLOWED = 20  # jobs that are followed together, each by its own connection
INCOMPLETE = "the log of {job} may be incomplete: the container engine has not delivered its last output in time"
PREFIX_STYLES = ("cyan", "magenta", "yellow", "green", "blue")


class Log(Struct, frozen=True, kw_only=True):
    """The log of one job that is printed."""

    job_id: str
    name: str
    has_started: bool
    #: The beginning of each line: `name:3| `, with its colour; empty if only one log is printed.
    prefix: str


def add_logs(command: ArgumentParser) -> None:
    """Print the output of jobs. Of an array or a group: of its jobs that run or, without any, of those that ended.

    batchq logs @ -f                  follow your latest job, until it ends
    batchq logs 8f2c51a7 --tail 20    the last 20 lines
    batchq logs sweep                 all children of an array, each line with the name of its job
    batchq logs sweep:190-194 -f      five children, followed; at most 20
    """
    command.set_defaults(run=run_logs)
    add_selection_flags(command, times=False)
    command.add_argument("-f", "--follow", action="store_true", help="print further lines until the job has ended")
    command.add_argument("--tail", type=int, metavar="N", help="the last N lines only, and what follows")
    command.add_argument(
        "--since", type=parse_time, metavar="TIME", help="lines after this time: 10m, 2026-11-23T18:30"
    )
    command.add_argument("--attempt", type=int, metavar="N", help="the log of this attempt (the latest)")
    command.add_argument("--container", metavar="NAME", help="the log of this container of the job")
    command.add_argument("--grep", metavar="WORDS", help="lines that contain these words")
    command.add_argument(
        "--raw", action="store_true", help="print the output unchanged; a terminal otherwise gets text and colours only"
    )
    add_color_flag(command)


def run_logs(args: Namespace) -> int:
    if args.tail is not None and args.tail < 0:
        raise UsageError("--tail must not be negative")
    if args.follow:
        exit_with_reader()
    url = url_of(args)
    selected = _selected(args, url)
    if args.follow and len(selected) > 1:
        _follow_together(args, url, selected)
        return 0
    for log in selected:
        has_lines = False
        for lines in _pages(args, url, log):
            _print(args, log, lines)
            has_lines = has_lines or bool(lines)
        if not has_lines and not log.has_started:
            print_notice(f"{log.name} does not run: {fetch_explanation(url, log.job_id).sentence}")
    return 0


def _selected(args: Namespace, url: str) -> list[Log]:
    """The logs of the given jobs. Raises NotFound and UsageError."""
    selection = selection_of(args, url, several=Several.NEWEST)
    if selection.keys() == {"groups"}:
        rows = _with_output(args, url, selection, "group")
    else:
        given = fetch_rows(url, ids_of_selection(url, selection, {}))
        rows = [each for row in given for each in _with_children(args, url, row)]
    if len(rows) > MAX_FOLLOWED and args.follow:
        raise UsageError(f"{len(rows)} jobs are too many to follow; at most {MAX_FOLLOWED}")
    color = uses_color(args.color)
    prefixes = [_prefix(row, number, color=color) if len(rows) > 1 else "" for number, row in enumerate(rows)]
    return [
        Log(job_id=row.job_id, name=row.job_name, has_started=row.started_at is not None, prefix=prefix)
        for row, prefix in zip(rows, prefixes, strict=True)
    ]


def _with_children(args: Namespace, url: str, row: JobRow) -> Sequence[JobRow]:
    """The job, or the children of an array."""
    return [row] if row.array_size is None else _with_output(args, url, {"parentId": row.job_id}, "array")


def _with_output(args: Namespace, url: str, filters: Filters, parent: str) -> Sequence[JobRow]:
    """The running jobs that the filters select; without any, unless `--follow` is given, those that have ended.

    The order is that of their submission. `parent` names the array or group in messages. Raises NotFound without jobs.
    """
    most = MAX_FOLLOWED if args.follow else MAX_IDS
    for statuses in (ACTIVE,) if args.follow else (ACTIVE, FINISHED):
        page = fetch_jobs(url, filters | {"jobStatuses": in_order(statuses)}, limit=most)
        if page.jobs:
            if page.next_token is not None:
                print_notice(f"the {parent} has more jobs with output; that of {most} is printed")
            return page.jobs[::-1]
    raise NotFound(f"no job of the {parent} {'runs' if args.follow else 'has started'}")


def _prefix(row: JobRow, number: int, *, color: bool) -> str:
    text = escape(f"{row.job_name}{row.job_id[36:]}|")
    return f"{paint(text, PREFIX_STYLES[number % len(PREFIX_STYLES)] if color else '')} "


def _pages(args: Namespace, url: str, log: Log) -> Iterator[Sequence[LogLineResponse]]:
    """The lines of a log, a response at a time; with `--follow` until no more can come, else the present ones."""
    patience, wait = Patience(), LONG_POLL if args.follow else 0
    since = None if args.since is None else milliseconds(args.since)

    def read(**parameters: object) -> GetJobLogResponse:
        chosen = {"attempt": args.attempt, "container": args.container, "since": since}
        return patience.call(lambda: fetch_log_lines(url, log.job_id, timeout=TIMEOUT + wait, **chosen, **parameters))

    position, tail, present, is_incomplete = None, args.tail, None, False
    while True:
        page = read(after=position, wait=wait, limit=PAGE_SIZE, tail=tail)
        is_incomplete = is_incomplete or page.incomplete
        yield page.lines
        if page.over or (not args.follow and not page.lines):
            break
        if not args.follow and present is None and len(page.lines) == PAGE_SIZE:
            present = fetch_server_time(url)
        if present is not None and page.lines[-1].at > present:  # a job that writes faster than it is read
            break
        position, tail = page.next, None
    if is_incomplete:
        print_notice(INCOMPLETE.format(job=log.job_id))


def _print(args: Namespace, log: Log, lines: Sequence[LogLineResponse]) -> None:
    in_terminal = is_terminal() and not args.raw
    color = uses_color(args.color)
    for line in lines:
        if args.grep and args.grep not in line.message:
            continue
        text = printable(line.message, color=color) if in_terminal else line.message
        write_line(f"{log.prefix}{text}", flush=False)
    if lines:
        write_line("", end="")


def printable(text: str, *, color: bool) -> str:
    """A line of a job's output for a terminal: its text, and its colours with `color`.

    Other control sequences are escaped: they would move the cursor, or change the terminal's settings.
    """
    parts = split_colours(text)
    kept = "".join(
        (part if color else "") if number % 2 else escape(part.replace("\t", "    "))
        for number, part in enumerate(parts)
    )
    return f"{kept}\x1b[0m" if color and len(parts) > 1 else kept


def _follow_together(args: Namespace, url: str, selected: Sequence[Log]) -> None:
    """Follow several logs, each in a thread; all lines are printed by this one. Raises the error of a thread."""
    arrived: Queue[tuple[Log, Sequence[LogLineResponse]] | BatchqError | None] = Queue(maxsize=len(selected))

    def follow(log: Log) -> None:
        try:
            for lines in _pages(args, url, log):
                arrived.put((log, lines))
            arrived.put(None)
        except BatchqError as error:
            arrived.put(error)

    for log in selected:
        Thread(target=follow, args=(log,), daemon=True).start()
    running = len(selected)
    while running:
        match arrived.get():
            case None:
                running -= 1
            case BatchqError() as error:
                raise error
            case log, lines:
                _print(args, log, lines)
