"""`batchq logs`: prints the output of jobs, and follows it with `-f`."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from batchq.cli.groups import fetch_group, sentence_of_group
from batchq.cli.http_client import TIMEOUT, Patience, url_of
from batchq.cli.job_handles import Several
from batchq.cli.job_selection import MAX_IDS, Filters, add_selection_flags, ids_of_selection, selection_of
from batchq.cli.log_merge import MAX_FOLLOWED, FollowedLogs, Log, merged_lines
from batchq.cli.output import exit_with_reader, is_terminal, paint, print_notice, uses_color, write_line
from batchq.cli.quantities import parse_time
from batchq.cli.server_requests import fetch_explanation, fetch_jobs, fetch_log_lines, fetch_rows, fetch_server_time
from batchq.cli.tables import add_color_flag
from batchq.domain.enums import ACTIVE, FINISHED, QUEUED, Status, in_order
from batchq.domain.times import milliseconds
from batchq.errors import NotFound, UsageError
from batchq.ports.responses.jobs import JobRow
from batchq.ports.responses.records import GetJobLogResponse, LogLineResponse
from batchq.system.escapes import escape, split_colours

LONG_POLL = 20  # seconds that the server waits for further lines
PAGE_SIZE = 10_000  # lines of one response
INCOMPLETE = "the log of {job} may be incomplete: the container engine has not delivered its last output in time"
MAX_DELAY = 10_000  # milliseconds between the end of a container and the request that finds the job ended
PREFIX_STYLES = ("cyan", "magenta", "yellow", "green", "blue")


class Parent(Struct, frozen=True, kw_only=True):
    """An array or a group whose jobs' logs are printed."""

    id: str
    is_array: bool

    @property
    def kind(self) -> str:
        return "array" if self.is_array else "group"

    @property
    def filters(self) -> Filters:
        """The members of listjobs that select its jobs."""
        return {"parentId": self.id} if self.is_array else {"groups": [self.id]}


def add_logs(command: ArgumentParser) -> None:
    """Print the output of jobs. Of an array or a group: of all its jobs that have started, merged by time.

    batchq logs @ -f                  follow your latest job, until it ends
    batchq logs 8f2c51a7 --tail 20    the last 20 lines
    batchq logs sweep                 all children of an array, each line with the name of its job
    batchq logs sweep -f              and of those that start later; 20 are followed at the same time
    """
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


def run_logs(args: Namespace) -> None:
    if args.tail is not None and args.tail < 0:
        raise UsageError("--tail must not be negative")
    if args.follow:
        exit_with_reader()
    url = url_of(args)
    jobs, parents = _selected(args, url)
    if parents or len(jobs) > 1:
        _SeveralLogs(args, url, jobs, parents).print()
        return
    for row, log in zip(jobs, _logs(args, jobs, is_only=True), strict=True):
        has_lines, said = False, _explain_empty(url, log) if args.follow and row.status in QUEUED else ""
        for lines in _pages(args, url, log):
            _print(args, log, lines)
            has_lines = has_lines or bool(lines)
        if not has_lines:
            _explain_empty(url, log, said=said)


def _selected(args: Namespace, url: str) -> tuple[list[JobRow], list[Parent]]:
    """The given jobs, and the given arrays and groups. Raises NotFound and UsageError."""
    selection = selection_of(args, url, several=Several.NEWEST)
    if selection.keys() == {"groups"}:
        return [], [Parent(id=group, is_array=False) for group in selection["groups"]]
    given = fetch_rows(url, ids_of_selection(url, selection, {}))
    jobs = [row for row in given if row.array_size is None]
    if len(jobs) > MAX_FOLLOWED and args.follow:
        raise UsageError(f"{len(jobs)} jobs are too many to follow; at most {MAX_FOLLOWED}")
    return jobs, [Parent(id=row.job_id, is_array=True) for row in given if row.array_size is not None]


def _logs(args: Namespace, rows: Sequence[JobRow], *, first: int = 0, is_only: bool = False) -> list[Log]:
    """The logs of jobs. `first`: how many logs have a colour before them. `is_only`: their lines have no prefix."""
    color = uses_color(args.color)
    return [
        Log(
            job_id=row.job_id,
            name=row.job_name,
            started_at=row.started_at,
            prefix="" if is_only else _prefix(row, number, color=color),
        )
        for number, row in enumerate(rows, first)
    ]


def _explain_empty(url: str, log: Log, *, said: str = "") -> str:
    """Print why a job that had not started has no output, unless this was `said` already; empty: it had started."""
    if log.started_at is not None:
        return ""
    text = f"{log.name} does not run: {fetch_explanation(url, log.job_id).sentence}"
    if text != said:
        print_notice(text)
    return text


class _SeveralLogs:
    """The logs of several jobs, and of the jobs of arrays and groups."""

    def __init__(self, args: Namespace, url: str, jobs: Sequence[JobRow], parents: Sequence[Parent]) -> None:
        self._args = args
        self._url = url
        self._jobs = jobs
        #: Those whose jobs may still start.
        self._parents = list(parents)
        self._patience = Patience()
        #: The jobs whose logs are printed already.
        self._known: set[str] = set()
        #: The time of the server at the last request for jobs that have started, in milliseconds.
        self._looked_at = 0

    def print(self) -> None:
        """Print what the logs have, merged by time; with `--follow` then what jobs write that run or start later."""
        follows = self._args.follow
        self._looked_at = fetch_server_time(self._url) if follows else 0
        active, past = self._members(ACTIVE), self._members(FINISHED)
        if not (active or past or self._jobs):
            self._report_no_output()
        self._print_merged(self._new_logs(past if follows else [*self._jobs, *past, *active]))
        if follows:
            follower = FollowedLogs(self._new_logs([*self._jobs, *active]), self._read, self._look)
            for log, lines in follower.pages():
                _print(self._args, log, lines)

    def _print_merged(self, logs: Sequence[Log]) -> None:
        silent = {log.job_id: log for log in logs}
        for log, line in merged_lines(logs, lambda log: _pages(self._args, self._url, log, follow=False)):
            silent.pop(log.job_id, None)
            _print(self._args, log, [line], flush=False)
        write_line("", end="")
        for log in silent.values():
            _explain_empty(self._url, log)

    def _read(self, log: Log) -> Iterator[Sequence[LogLineResponse]]:
        return _pages(self._args, self._url, log)

    def _members(self, statuses: frozenset[Status], **more: object) -> list[JobRow]:
        """The jobs of the arrays and groups that have started and have one of the statuses, as they were submitted."""
        found: list[JobRow] = []
        for parent in self._parents:
            filters = parent.filters | {"jobStatuses": in_order(statuses), **more}
            page = self._patience.call(lambda: fetch_jobs(self._url, filters, limit=MAX_IDS))  # noqa: B023
            if page.next_token is not None:
                print_notice(f"the {parent.kind} has more jobs with output; that of the newest {MAX_IDS} is printed")
            found += [row for row in page.jobs[::-1] if row.started_at is not None]
        return found

    def _new_logs(self, rows: Iterable[JobRow]) -> list[Log]:
        """The logs of those jobs whose logs are not printed yet."""
        new = {row.job_id: row for row in rows if row.job_id not in self._known}
        logs = _logs(self._args, list(new.values()), first=len(self._known))
        self._known |= new.keys()
        return logs

    def _look(self) -> tuple[Sequence[Log], bool]:
        """The logs of jobs that have started since the last call, and whether more jobs may start."""
        if not self._parents:
            return (), False
        since, self._looked_at = self._looked_at, self._patience.call(lambda: fetch_server_time(self._url))
        unfinished = [parent for parent in self._parents if self._patience.call(lambda: self._is_unfinished(parent))]  # noqa: B023
        rows = [*self._members(FINISHED, endedAfter=since - MAX_DELAY), *self._members(ACTIVE)]
        self._parents = unfinished
        return self._new_logs(rows), bool(unfinished)

    def _is_unfinished(self, parent: Parent) -> bool:
        if parent.is_array:
            return fetch_rows(self._url, [parent.id])[0].status not in FINISHED
        return fetch_group(self._url, parent.id).ended_at is None

    def _report_no_output(self) -> None:
        """Report that no job has started, and why. Raises NotFound unless `--follow` waits for the first one."""
        parent = self._parents[0]
        may_start = self._args.follow and self._is_unfinished(parent)
        explained = fetch_explanation(self._url, parent.id).sentence if parent.is_array else None
        text = f"no job of the {parent.kind} has started: {explained or sentence_of_group(self._url, parent.id)}"
        if not may_start:
            raise NotFound(text)
        print_notice(text)


def _prefix(row: JobRow, number: int, *, color: bool) -> str:
    text = escape(f"{row.job_name}{row.job_id[36:]}|")
    return f"{paint(text, PREFIX_STYLES[number % len(PREFIX_STYLES)] if color else '')} "


def _pages(args: Namespace, url: str, log: Log, *, follow: bool | None = None) -> Iterator[Sequence[LogLineResponse]]:
    """The lines of a log, a response at a time: with `follow` until no more can come, else the present ones.

    `follow` None: as `--follow` says.
    """
    follow = args.follow if follow is None else follow
    patience, wait = Patience(), LONG_POLL if follow else 0
    since = None if args.since is None else milliseconds(args.since)

    def read(**parameters: object) -> GetJobLogResponse:
        chosen = {"attempt": args.attempt, "container": args.container, "since": since}
        return patience.call(lambda: fetch_log_lines(url, log.job_id, timeout=TIMEOUT + wait, **chosen, **parameters))

    position, tail, present, is_incomplete = None, args.tail, None, False
    while True:
        page = read(after=position, wait=wait, limit=PAGE_SIZE, tail=tail)
        is_incomplete = is_incomplete or page.incomplete
        yield page.lines
        if page.over or (not follow and not page.lines):
            break
        if not follow and present is None and len(page.lines) == PAGE_SIZE:
            present = fetch_server_time(url)
        if present is not None and page.lines[-1].at > present:  # a job that writes faster than it is read
            break
        position, tail = page.next, None
    if is_incomplete:
        print_notice(INCOMPLETE.format(job=log.job_id))


def _print(args: Namespace, log: Log, lines: Sequence[LogLineResponse], *, flush: bool = True) -> None:
    in_terminal = is_terminal() and not args.raw
    color = uses_color(args.color)
    for line in lines:
        if args.grep and args.grep not in line.message:
            continue
        text = printable(line.message, color=color) if in_terminal else line.message
        write_line(f"{log.prefix}{text}", flush=False)
    if lines and flush:
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
