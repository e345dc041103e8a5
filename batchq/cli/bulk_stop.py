"""`batchq cancel` and `batchq terminate`: CancelJob and TerminateJob of many jobs, and what is printed for each.

`batchq ccancel` sends the same requests.
"""

import json
import re
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections import Counter
from collections.abc import Iterable, Mapping
from math import ceil
from signal import Signals

from msgspec import Struct, field

from batchq.cli.http_client import url_of
from batchq.cli.job_handles import HELP
from batchq.cli.job_selection import MAX_IDS, add_selection_flags, stop_selection
from batchq.cli.output import (
    EXIT_STATUSES,
    INTERRUPTED,
    MISUSED,
    REFUSED,
    UNAVAILABLE,
    Declined,
    can_ask,
    confirm,
    print_error,
    print_notice,
    write_line,
)
from batchq.cli.quantities import clock_time, elapsed, local_time, now
from batchq.cli.server_requests import fetch_described, fetch_server_time, stream_stops
from batchq.cli.tables import add_form_flag, json_of, prints_json
from batchq.domain.enums import QUEUED, Outcome, StopKind
from batchq.domain.stop_messages import (
    DONE,
    WIDE,
    WOULD_BE_DONE,
    consequences_of_cancel,
    consequences_of_terminate,
    node_note,
    outcome_text,
    summary,
    with_children,
)
from batchq.errors import BatchqError, Invalid, NotFound, Unavailable, UsageError
from batchq.ports.responses.stops import CountsLine, JobLine, StopOrderResponse
from batchq.system.escapes import escape

CANCEL = "/v1/batchq/canceljobs"
TERMINATE = "/v1/batchq/terminatejobs"
STEP_HELP = f"{HELP}; JOB.NAME or JOB.INDEX: a container of a task"
TIMEOUT = 120.0  # seconds until the first byte of the response, and between two of them
DAY = 86_400  # seconds
UNCHANGED = {Outcome.ALREADY_FINISHED, Outcome.NOT_MATCHED}
SUCCESSFUL_OUTCOMES = {*DONE, *UNCHANGED}
_STEP = re.compile(r"([0-9a-f-]{36})[.#](\d{1,5})", re.ASCII)


def add_cancel(command: ArgumentParser) -> None:
    """Cancel jobs: a job that has not started never does; a job that runs continues and is not retried.

    A job must match all filters, and one value of each filter. On a terminal, more than 20 jobs are confirmed first.

      batchq cancel @ --reason 'wrong data'
      batchq cancel 8f2c51a7:190-194,train
      batchq cancel -u "$USER" -n 'sim-*'
      batchq cancel -t pending -q night --dry-run
    """
    _add_common_flags(command)


def run_cancel(args: Namespace) -> int:
    return _stop(args, CANCEL, {}, consequences_of_cancel())


def add_terminate(command: ArgumentParser) -> None:
    """Terminate jobs: a job that has not started never does; one that runs gets a signal, and SIGKILL after its grace.

    A job must match all filters, and one value of each filter. On a terminal, more than 20 jobs are confirmed first.
    A child of an array, a node of a multi-node job or a container of a task is stopped without the others.

      batchq terminate 8f2c51a7:4,8f2c51a7:7
      batchq terminate train.sidecar
      batchq terminate -A physics -t running --reason 'the room is too hot'
      batchq terminate -n 'train*' --signal INT --grace 120
      batchq terminate @ --checkpoint
      batchq list -t running --held -o ids | batchq terminate -
    """
    _add_common_flags(command)
    _add_checkpoint_flags(command)
    command.add_argument(
        "-s",
        "--signal",
        type=_signal,
        help="signal for running jobs, for example INT (the image's stop signal, or TERM)",
    )
    command.add_argument(
        "--grace",
        type=_seconds,
        metavar="SECONDS",
        help="seconds between the signal and SIGKILL (the job's own setting)",
    )


def _add_checkpoint_flags(command: ArgumentParser) -> None:
    command.add_argument(
        "--checkpoint",
        action="store_true",
        help="request a final checkpoint of running jobs first; they need a checkpoint directory",
    )
    command.add_argument(
        "--force",
        action="store_true",
        help="SIGKILL at once, also for jobs that are stopping already; unsaved data is lost",
    )
    command.add_argument(
        "--keep-checkpoints",
        action=BooleanOptionalAction,
        default=True,
        help="whether the checkpoints from before this order are kept once the job has stopped (they are)",
    )


def run_terminate(args: Namespace) -> int:
    if args.force and (args.checkpoint or args.signal or args.grace is not None):
        raise UsageError("--force kills at once: it cannot be combined with --checkpoint, --signal or --grace")
    members = {
        "signal": args.signal,
        "graceSeconds": args.grace,
        "checkpoint": args.checkpoint or None,
        "keepCheckpoints": None if args.keep_checkpoints else False,
        "force": args.force or None,
    }
    consequences = consequences_of_terminate(
        signal=args.signal, grace=args.grace, checkpoint=args.checkpoint, force=args.force
    )
    return _stop(args, TERMINATE, members, consequences)


def _add_common_flags(command: ArgumentParser) -> None:
    """Declare the flags that both commands have, and print the description and the exit statuses as they are."""
    command.epilog = EXIT_STATUSES
    add_selection_flags(command, jobs=STEP_HELP)
    command.add_argument("--reason", help="statusReason of the stopped jobs")
    command.add_argument("--dry-run", action="store_true", help="print what would be done, and change nothing")
    command.add_argument("-y", "--yes", action="store_true", help="do not ask before many jobs are stopped")
    add_form_flag(command)
    command.add_argument("-Q", "--quiet", action="store_true", help="print only jobs that were not stopped")


def _signal(text: str) -> str:
    """Parse a signal: its name in any case, with or without SIG, or its number. Returns the name with SIG."""
    if text.isascii() and text.isdigit():
        number = int(text[:4])
        if number in set(Signals):
            return Signals(number).name
    name = f"SIG{text.upper().removeprefix('SIG')}"
    if name not in Signals.__members__:
        raise ArgumentTypeError(f"{text!r} is not a signal")
    return name


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(DAY)) and int(text) <= DAY):
        raise ArgumentTypeError(f"{text!r} is not a number of seconds up to {DAY}")
    return int(text)


class StepNotes(Struct, frozen=True, kw_only=True):
    """Notes on the nodes that a command names, as JOB#1: to stop some of them means to stop the whole job."""

    #: Whether the request is CancelJob, which has no effect on single nodes.
    cancels: bool
    #: The main nodes, as `JOB#NODE`.
    main_nodes: frozenset[str]

    @classmethod
    def of(cls, url: str, jobs: Iterable[str], *, cancels: bool) -> "StepNotes":
        """Read what is known about the nodes among the ids; without a node nothing is requested.

        A server that does not answer gives no notes.
        """
        steps = [parts.groups() for job in jobs if (parts := _STEP.fullmatch(job))]
        try:
            nodes = fetch_described(url, [f"{job}#{number}" for job, number in steps]) if steps else []
        except BatchqError:  # the request itself follows, and reports the error
            nodes = []
        return cls(
            cancels=cancels,
            main_nodes=frozenset(node.job_id for node in nodes if node.node_details.is_main_node),
        )

    def note(self, line: JobLine) -> str:
        """What the request means for the step of a job; empty if it stops the step alone."""
        if "#" not in line.job_id:
            return ""
        is_main, is_waiting = line.job_id in self.main_nodes, line.status in QUEUED
        return node_note(cancels=self.cancels, is_main=is_main, is_waiting=is_waiting)


class LineReporter:
    """Prints the NDJSON response to a request: a line for each job, and a summary with the consequences."""

    def __init__(self, notes: StepNotes, consequences: Mapping[str, str], *, dry_run: bool, quiet: bool) -> None:
        """`consequences`: a text by outcome. `quiet`: print only the jobs that were not stopped, and no summary."""
        self._notes = notes
        self._texts = WOULD_BE_DONE if dry_run else DONE
        self._quiet = quiet
        self._consequences = consequences
        #: The jobs that an earlier order has stopped already, by outcome and by text.
        self._unchanged: Counter[str] = Counter()
        self._already: Counter[str] = Counter()
        #: The children of arrays that the order has stopped, by the outcome of their array.
        self._children: Counter[str] = Counter()

    def report_job(self, job: JobLine) -> None:
        note = self._notes.note(job)
        note = note and f"; {note}"
        if job.outcome not in self._texts:
            reason = job.message or outcome_text(job.outcome, self._texts)
            reason = reason.removeprefix(f"Job {job.job_id} ").removesuffix(".")
            write_line(escape(f"{job.job_id}  {reason}{note}"), flush=False)
            return
        message = f": {job.message}" if job.message else ""
        if job.standing is not None:
            state = "cancelled" if job.outcome is Outcome.NOT_RETRIED else "stopping"
            message = f": already {state} since {_render_order(job.standing)}"
            self._unchanged[job.outcome] += 1
            self._already[f"already {state}"] += 1
        else:
            self._children[job.outcome] += job.children
        if not self._quiet:
            text = f"{self._texts[job.outcome]}  {job.job_name} ({job.status}){message}"
            write_line(escape(f"{job.job_id}  {text}{note}"), flush=False)

    def report_end(self, last: CountsLine, counts: Counter[str]) -> None:
        """Print the summary. `last` is the last line of the response, `counts` the jobs by outcome."""
        if self._quiet:
            return
        parts = summary(counts - self._unchanged, self._texts, self._consequences, children=self._children)
        parts += [f"{count} {text}" for text, count in self._already.items()]
        text = escape("; ".join(parts) or "no job matches")
        write_line(text + ("; nothing is changed" if last.dry_run else ""))


def _render_order(order: StopOrderResponse) -> str:
    """When an order was given, by whom and why; the date only if it was not today."""
    at = local_time(order.at)
    today = at is not None and at.date() == now().date()
    time = clock_time(at) if at is None or not today else f"{at:%H:%M:%S}"
    author = "its timeout" if order.kind is StopKind.TIMEOUT else order.user or "the server"
    return f"{time}, by {author} ({order.reason!r})"


class JsonReporter:
    """As LineReporter, but prints the whole response as one JSON object, with each job on its own line."""

    def __init__(self) -> None:
        self._separator = '{"jobs": ['

    def report_job(self, job: JobLine) -> None:
        write_line(f"{self._separator}\n  {json.dumps(json_of(job))}", end="", flush=False)
        self._separator = ","

    def report_end(self, last: CountsLine, counts: Counter[str]) -> None:
        begin = "\n" if counts else self._separator
        write_line(begin + "], " + json.dumps(json_of(last)).removeprefix("{"))


class RequestProgress(Struct):
    """The progress of a request, reported if its response is interrupted."""

    #: Whether the server has accepted the request: its response has begun.
    is_accepted: bool = False
    #: Jobs reported so far, by outcome.
    counts: Counter[str] = field(default_factory=Counter)


def _stop(args: Namespace, path: str, members: Mapping[str, object], consequences: Mapping[str, str]) -> int:
    """Send the request, print the outcome of each job, and return the exit status.

    `members`: of the request, in addition to the filters; None: not given. `consequences`: a text by outcome.
    """
    progress = RequestProgress()
    try:
        _send(args, path, members, consequences, progress)
    except (Declined, NotFound) as refused:
        return print_error(str(refused))
    except Invalid as invalid:
        return print_error(str(invalid), MISUSED)
    except Unavailable as unavailable:
        return print_error(f"{unavailable}{_render_progress(progress, args)}", UNAVAILABLE)
    except KeyboardInterrupt:
        unknown = "" if progress.is_accepted else "; it is unknown whether the server has accepted the request"
        return print_error(f"interrupted{unknown}{_render_progress(progress, args)}", INTERRUPTED)
    return 0 if set(progress.counts) <= SUCCESSFUL_OUTCOMES else REFUSED


def _send(
    args: Namespace,
    path: str,
    members: Mapping[str, object],
    consequences: Mapping[str, str],
    progress: RequestProgress,
) -> None:
    url = url_of(args)
    selection = stop_selection(args, url)
    content = {**selection, "dryRun": args.dry_run, "reason": args.reason, **members}
    request = {member: value for member, value in content.items() if value is not None}
    notes = StepNotes.of(url, selection.get("jobs", ()), cancels=path == CANCEL)
    reporter = (
        JsonReporter()
        if prints_json(args)
        else LineReporter(notes, consequences, dry_run=args.dry_run, quiet=args.quiet)
    )
    if selection.get("jobs") == []:  # the handles of an empty stdin; a request without `jobs` would select all
        reporter.report_end(CountsLine(counts={}, dry_run=args.dry_run), progress.counts)
        return
    if can_ask() and not (args.yes or args.dry_run):
        request = _confirmed(url, path, request, verb=args.command, consequences=consequences)
    with stream_stops(url, path, request, timeout=TIMEOUT) as lines:
        progress.is_accepted = True
        _report(lines, reporter, progress.counts)


def _confirmed(
    url: str, path: str, request: dict[str, object], *, verb: str, consequences: Mapping[str, str]
) -> dict[str, object]:
    """The request, after a question if it would stop more than WIDE jobs, children of arrays among them.

    What would happen is printed before. The request names the jobs that the question counted, or of more than MAX_IDS
    those that were created before, so that no job is stopped that was submitted after it. Raises Declined if the answer
    is not `y`, and the errors of `stream`.
    """
    began = elapsed()
    with stream_stops(url, path, {**request, "dryRun": True}, timeout=TIMEOUT) as lines:
        jobs = [line for line in lines if isinstance(line, JobLine) and line.outcome in WOULD_BE_DONE]
    counts, children = Counter[str](job.outcome for job in jobs), Counter[str]()
    for job in jobs:
        children[job.outcome] += job.children
    if len(jobs) + children.total() <= WIDE:
        return request
    print_notice("; ".join(summary(counts, WOULD_BE_DONE, consequences, children=children)))
    asked = f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'}{with_children(children.total())}"
    later = "" if "jobs" in request or len(jobs) <= MAX_IDS else ", and those created before now that match by then"
    confirm(f"{verb} {asked}{later}")
    if "jobs" in request:
        return request
    if len(jobs) > MAX_IDS:
        preview = fetch_server_time(url) - ceil(1000 * (elapsed() - began))
        before = request.get("createdBefore")
        return request | {"createdBefore": min(preview, before) if isinstance(before, int) else preview}
    return request | {"jobs": [job.job_id for job in jobs]}


def _report(lines: Iterable[JobLine | CountsLine], reporter: LineReporter | JsonReporter, counts: Counter[str]) -> None:
    """Report all lines. Raises Unavailable if the last line, the counts, is missing."""
    for line in lines:
        if isinstance(line, CountsLine):
            reporter.report_end(line, counts)
            return
        counts[line.outcome] += 1
        reporter.report_job(line)
    raise Unavailable("the response is incomplete, or not from batchq")


def _render_progress(progress: RequestProgress, args: Namespace) -> str:
    """The outcomes before the interruption, as the end of an error text; empty if the request was not accepted."""
    if not progress.is_accepted or args.dry_run:
        return ""
    known = "; ".join(summary(progress.counts, DONE, {}, children={})) or "nothing"
    return f"; before that: {known}. The server completes the request"
