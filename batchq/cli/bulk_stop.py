"""`batchq cancel` and `batchq terminate`: CancelJob and TerminateJob of many jobs, selected by ids and filters."""

import json
from argparse import ArgumentParser, ArgumentTypeError, BooleanOptionalAction, Namespace
from collections import Counter
from collections.abc import Iterator, Mapping
from signal import Signals
from typing import Protocol

from msgspec import Struct, field

from batchq.cli.http_client import Response, add_server_flags, call, stream, url_of
from batchq.cli.job_filters import add_filter_flags, job_filter
from batchq.cli.output import EXIT_STATUSES, INTERRUPTED, MISUSED, REFUSED, UNAVAILABLE, escape, print_error, write_line
from batchq.cli.step_notes import StepNotes
from batchq.cli.stop_confirmation import Declined, asks, confirmed
from batchq.cli.times import clock_time, moment, now
from batchq.errors import Invalid, Misused, NotFound, Unavailable

CANCEL = "/v1/batchq/canceljobs"
TERMINATE = "/v1/batchq/terminatejobs"
WHO_AM_I = "/v1/batchq/whoami"
TIMEOUT = 120.0  # seconds until the first byte of the response, and between two of them
DAY = 86_400  # seconds

DONE = {
    "CANCELLED": "cancelled",
    "TERMINATED": "terminated",
    "STOPPING": "stopping",
    "CONTAINER_STOPPING": "stopping this container",
    "NOT_RETRIED": "running on, not retried",
}
WOULD_BE_DONE = {
    "CANCELLED": "would be cancelled",
    "TERMINATED": "would be terminated",
    "STOPPING": "would be stopped",
    "CONTAINER_STOPPING": "this container would be stopped",
    "NOT_RETRIED": "would run on, not retried",
}
#: What follows for a job, in the words of README. `{signal}` and `{grace}` are those of the request.
CONSEQUENCES = {
    "CANCELLED": "FAILED at once, no container is created",
    "TERMINATED": "FAILED at once, no container is created",
    "STOPPING": "{signal}, SIGKILL after {grace}, FAILED whatever the exit code, never retried",
    "CONTAINER_STOPPING": "{signal}, SIGKILL after {grace}; the job and its other containers continue",
    "NOT_RETRIED": "the attempt continues and is the last one",
}
#: The consequence of a cancel for an array with children.
ENDS_WITH_CHILDREN = "children that run continue and are not retried, FAILED when none is left"
SUCCESSFUL_OUTCOMES = {*DONE, "ALREADY_FINISHED", "NOT_MATCHED"}


def add_cancel(command: ArgumentParser) -> None:
    """Cancel jobs: a job that has not started never does; a job that runs continues and is not retried.

    A job must match all filters, and one value of each filter. On a terminal, more than 20
    jobs are confirmed first.

      batchq cancel 3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001,9a1bd3c2-77aa-4f0e-8f21-6b0d5cf4a002
      batchq cancel train
      batchq cancel -u "$USER" -n 'sim-*'
      batchq cancel -t pending -p night --dry-run
    """
    _add_common_flags(command)
    command.set_defaults(run=cancel)


def cancel(args: Namespace) -> int:
    return _stop(args, CANCEL)


def add_terminate(command: ArgumentParser) -> None:
    """Terminate jobs: a job that has not started never does; one that runs gets a signal, and SIGKILL after its grace.

    A job must match all filters, and one value of each filter. On a terminal, more than 20
    jobs are confirmed first.
    A child of an array, a node of a multi-node job or a container of a task is stopped without the others.

      batchq terminate 3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001.4,3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001.7
      batchq terminate 7d1e0c2b-91aa-4d55-8c3e-2a64f1b7c003.sidecar
      batchq terminate -A physics -t running --reason 'the room is too hot'
      batchq terminate -n 'train*' --signal INT --grace 120
      batchq terminate @ --checkpoint
    """
    _add_common_flags(command)
    command.set_defaults(run=terminate)
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


def terminate(args: Namespace) -> int:
    if args.force and (args.checkpoint or args.signal or args.grace is not None):
        raise Misused("--force kills at once: it cannot be combined with --checkpoint, --signal or --grace")
    return _stop(
        args,
        TERMINATE,
        signal=args.signal,
        graceSeconds=args.grace,
        checkpoint=args.checkpoint or None,
        keepCheckpoints=None if args.keep_checkpoints else False,
        force=args.force or None,
    )


def _add_common_flags(command: ArgumentParser) -> None:
    """Declare the flags that both commands have, and print the description and the exit statuses as they are."""
    command.epilog = EXIT_STATUSES
    add_filter_flags(command)
    command.add_argument("--reason", help="statusReason of the stopped jobs")
    command.add_argument("--dry-run", action="store_true", help="print what would be done, and change nothing")
    command.add_argument("-y", "--yes", action="store_true", help="do not ask before many jobs are stopped")
    command.add_argument("--json", action="store_true", help="print the response as JSON")
    command.add_argument("-Q", "--quiet", action="store_true", help="print only jobs that were not stopped")
    add_server_flags(command)


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


class RequestProgress(Struct):
    """The progress of a request, reported if its response is interrupted."""

    #: Whether the server has accepted the request: its response has begun.
    is_accepted: bool = False
    #: Jobs reported so far, by outcome.
    counts: Counter[str] = field(default_factory=Counter)


def _stop(args: Namespace, path: str, **more: object) -> int:
    """Send the request, print the outcome of each job, and return the exit status."""
    progress = RequestProgress()
    try:
        _send(args, path, more, progress)
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


def _send(args: Namespace, path: str, more: Mapping[str, object], progress: RequestProgress) -> None:
    url = url_of(args)
    if args.me:
        args.users = [*(args.users or ()), [_user_name(url)]]
    filters = job_filter(args, url)
    content = {**filters, "dryRun": args.dry_run, "reason": args.reason, **more}
    given = {member: value for member, value in content.items() if value is not None}
    notes = StepNotes.of(url, filters.get("jobs", ()), cancels=path == CANCEL)
    reporter = (
        JsonReporter()
        if args.json
        else LineReporter(notes, _consequences(path, more), dry_run=args.dry_run, quiet=args.quiet)
    )
    if asks(args):
        given = confirmed(url, path, given, verb=args.command, timeout=TIMEOUT)
    with stream(url, path, given, timeout=TIMEOUT) as objects:
        progress.is_accepted = True
        _report(objects, reporter, progress.counts)


def _consequences(path: str, more: Mapping[str, object]) -> Mapping[str, str]:
    """CONSEQUENCES for a request: `more` has its signal and grace period, None for those of each job."""
    if path == CANCEL:
        return CONSEQUENCES | {"STOPPING": ENDS_WITH_CHILDREN}
    if more.get("force"):
        return {it: text.replace("{signal}, SIGKILL after {grace}", "SIGKILL") for it, text in CONSEQUENCES.items()}
    grace = "the grace period" if more["graceSeconds"] is None else f"{more['graceSeconds']} s"
    signal = f"{'final checkpoint, ' if more.get('checkpoint') else ''}{more['signal'] or 'SIGTERM'}"
    return {outcome: text.format(signal=signal, grace=grace) for outcome, text in CONSEQUENCES.items()}


def _user_name(url: str) -> str:
    """The name of the caller on the server. Raises Unavailable if its response has none."""
    user = call(url, WHO_AM_I, {}).get("user")
    if not isinstance(user, str) or not user:
        raise Unavailable(f"the response of {url} does not contain your user name")
    return user


def _report(objects: Iterator[Response], reporter: "StopReporter", counts: Counter[str]) -> None:
    """Report all objects. Raises Unavailable if the last object, which has `counts`, is missing."""
    for each in objects:
        if "counts" in each:
            reporter.report_end(each, counts)
            return
        if "outcome" not in each:
            break
        counts[str(each["outcome"])] += 1
        reporter.report_job(each)
    raise Unavailable("the response is incomplete, or not from batchq")


def _render_progress(progress: RequestProgress, args: Namespace) -> str:
    """The outcomes before the interruption, as the end of an error text; empty if the request was not accepted."""
    if not progress.is_accepted or args.dry_run:
        return ""
    known = _summary(progress.counts, DONE) if progress.counts else "nothing"
    return f"; before that: {known}. The server completes the request"


class StopReporter(Protocol):
    """Prints the NDJSON response to a request."""

    def report_job(self, job: Response) -> None:
        """Print the outcome of one job."""

    def report_end(self, last: Response, counts: Counter[str]) -> None:
        """Print the end of the output. `last` is the last object of the response, `counts` the jobs by outcome."""


class LineReporter:
    """Prints a line for each job, and a summary with the consequences."""

    def __init__(self, notes: StepNotes, consequences: Mapping[str, str], *, dry_run: bool, quiet: bool) -> None:
        """`consequences`: a text by outcome. `quiet`: print only the jobs that were not stopped, and no summary."""
        self._notes = notes
        self._texts = WOULD_BE_DONE if dry_run else DONE
        self._quiet = quiet
        self._consequences = consequences
        #: The jobs that an earlier order has stopped already, by outcome and by text.
        self._unchanged: Counter[str] = Counter()
        self._already: Counter[str] = Counter()

    def report_job(self, job: Response) -> None:
        outcome = str(job.get("outcome"))
        standing = job.get("standing")
        note = self._notes.note(str(job.get("jobId")), status=str(job.get("status")))
        note = note and f"; {note}"
        if outcome not in self._texts:
            reason = str(job.get("message") or _text_of(outcome, self._texts))
            reason = reason.removeprefix(f"Job {job.get('jobId')} ").removesuffix(".")
            write_line(escape(f"{job.get('jobId')}  {reason}{note}"), flush=False)
            return
        message = f": {job['message']}" if job.get("message") else ""
        if isinstance(standing, dict):
            state = "cancelled" if outcome == "NOT_RETRIED" else "stopping"
            message = f": already {state} since {_render_order(standing)}"
            self._unchanged[outcome] += 1
            self._already[f"already {state}"] += 1
        if not self._quiet:
            text = f"{self._texts[outcome]}  {job.get('jobName')} ({job.get('status')}){message}"
            write_line(escape(f"{job.get('jobId')}  {text}{note}"), flush=False)

    def report_end(self, last: Response, counts: Counter[str]) -> None:
        if self._quiet:
            return
        parts = [self._part(outcome, count) for outcome, count in (counts - self._unchanged).items()]
        parts += [f"{count} {text}" for text, count in self._already.items()]
        summary = escape("; ".join(parts) or "no job matches")
        write_line(summary + ("; nothing is changed" if last.get("dryRun") else ""))

    def _part(self, outcome: str, count: int) -> str:
        consequence = f" ({self._consequences[outcome]})" if outcome in self._consequences else ""
        return f"{count} {_text_of(outcome, self._texts)}{consequence}"


def _render_order(order: Response) -> str:
    """When an order was given, by whom and why; the date only if it was not today."""
    at = moment(order.get("at"))
    today = at is not None and at.date() == now().date()
    time = clock_time(at) if at is None or not today else f"{at:%H:%M:%S}"
    author = "its timeout" if order.get("kind") == "TIMEOUT" else str(order.get("user") or "the server")
    return f"{time}, by {author} ({str(order.get('reason'))!r})"


class JsonReporter:
    """Prints the whole response as one JSON object, with each job on its own line."""

    def __init__(self) -> None:
        self._separator = '{"jobs": ['

    def report_job(self, job: Response) -> None:
        write_line(f"{self._separator}\n  {json.dumps(job)}", end="", flush=False)
        self._separator = ","

    def report_end(self, last: Response, counts: Counter[str]) -> None:
        begin = "\n" if counts else self._separator
        write_line(begin + "], " + json.dumps(last).removeprefix("{"))


def _summary(counts: Mapping[str, int], texts: Mapping[str, str]) -> str:
    """The number of jobs of each outcome, as one line."""
    parts = [f"{count} {_text_of(outcome, texts)}" for outcome, count in counts.items()]
    return escape("; ".join(parts) or "no job matches")


def _text_of(outcome: str, texts: Mapping[str, str]) -> str:
    """The text of an outcome: from `texts`, else the outcome's name in lower case."""
    return texts.get(outcome) or outcome.lower().replace("_", " ")
