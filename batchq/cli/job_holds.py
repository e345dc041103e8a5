"""`batchq hold`, `release`, `pause`, `resume` and `drain`: jobs, and queues of jobs, that do not start for now."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from urllib.parse import quote

from batchq.cli import job_handles
from batchq.cli.http_client import add_server_flags, call, url_of
from batchq.cli.output import DONE, REFUSED, print_error, write_line
from batchq.cli.server_requests import ACTIVE, Row
from batchq.cli.tables import add_json_flags, print_json, prints_json
from batchq.cli.times import local_time
from batchq.errors import Invalid
from batchq.escapes import escape

DRAIN_QUEUE = "/v1/batchq/drainqueue"


def add_hold(command: ArgumentParser) -> None:
    """Keep queued jobs from starting, until `batchq release`. They keep their position in line and block no other job.

    A job that has started is refused; pause it. An array is held with all its children.

      batchq hold 8f2c51a7 --reason 'waits for the new data'
      batchq hold 8f2c51a7:190-194
      batchq list -n 'fit-*' -t pending --ids | batchq hold -
    """
    _add_common(command, run_hold)
    _add_reason(command)


def run_hold(args: Namespace) -> int:
    return _change(args, "hold", _reason(args), _render_hold)


def add_release(command: ArgumentParser) -> None:
    """Let held or paused jobs start again, at their old position in line.

    batchq release 8f2c51a7
    """
    _add_common(command, run_release)


def run_release(args: Namespace) -> int:
    return _change(args, "release", {}, lambda _: "released")


def add_pause(command: ArgumentParser) -> None:
    """Stop running jobs with a final checkpoint, free their resources and hold them, until `batchq resume`.

    The attempt does not count as one of the job's attempts. A job that ends while it is being paused is
    paused, whatever its exit code. A job that has not started is held.

      batchq pause @ --reason 'room for the demo'
      batchq pause 8f2c51a7 && batchq show 8f2c51a7
    """
    _add_common(command, run_pause)
    _add_reason(command)


def run_pause(args: Namespace) -> int:
    return _change(args, "pause", _reason(args), _render_hold)


def add_resume(command: ArgumentParser) -> None:
    """Let paused or held jobs start again, at their old position in line, from their newest checkpoint.

    batchq resume @
    """
    _add_common(command, run_resume)


def run_resume(args: Namespace) -> int:
    return _change(args, "resume", {}, lambda _: "resumed")


def add_drain(command: ArgumentParser) -> None:
    """Let job queues accept jobs and start none, for example before maintenance; `--off` lets them start jobs again.

    Jobs that run continue. For operators and admins.

      batchq drain gpu
      batchq drain gpu --off
    """
    command.set_defaults(run=run_drain)
    command.add_argument("queue_names", nargs="+", metavar="QUEUE", help="name of a job queue")
    command.add_argument("--off", action="store_true", help="start jobs of these queues again")
    add_json_flags(command)
    add_server_flags(command)


def run_drain(args: Namespace) -> int:
    url, answers, errors = url_of(args), [], []
    for name in args.queue_names:
        try:
            answer = call(url, DRAIN_QUEUE, {"queue": name, "drained": not args.off})
        except Invalid as refused:
            errors.append({"queue": name, "error": str(refused)})
            _print_refusal(args, f"{name}: {refused}")
            continue
        answers.append(answer)
        if not prints_json(args):
            effect = "accepts jobs and starts none; running jobs continue" if answer.get("drained") else "starts jobs"
            write_line(escape(f"queue {name} {effect}"))
    if prints_json(args):
        print_json(args, {"queues": answers, "errors": errors})
    return REFUSED if errors else DONE


def _add_common(command: ArgumentParser, run: Callable[[Namespace], int]) -> None:
    command.set_defaults(run=run)
    command.add_argument("jobs", nargs="+", metavar="JOB", help=job_handles.HELP)
    add_json_flags(command)
    add_server_flags(command)


def _add_reason(command: ArgumentParser) -> None:
    command.add_argument("--reason", help="reason that list, show and why print")


def _reason(args: Namespace) -> dict[str, object]:
    return {} if args.reason is None else {"reason": args.reason}


def _change(args: Namespace, verb: str, content: Mapping[str, object], render: Callable[[Row], str]) -> int:
    """Request the change of each job, and print what has happened to it. A refusal does not stop the others."""
    url, answers, errors = url_of(args), [], []
    for job_id in job_handles.resolve_jobs(url, args.jobs):
        try:
            answer = call(url, f"/v1/batchq/jobs/{quote(job_id, safe='')}/{verb}", content)
        except Invalid as refused:
            errors.append({"jobId": job_id, "error": str(refused)})
            _print_refusal(args, f"{job_id}  {str(refused).removeprefix(f'Job {job_id} ')}")
            continue
        answers.append(answer)
        if not prints_json(args):
            text = f"{job_id}  {render(answer)}  {answer.get('jobName')} ({answer.get('status')})"
            write_line(escape(text), flush=False)
    if prints_json(args):
        print_json(args, {"jobs": answers, "errors": errors})
    return REFUSED if errors else DONE


def _print_refusal(args: Namespace, text: str) -> None:
    if not prints_json(args):
        print_error(text)


def _render_hold(job: Row) -> str:
    """What the hold does to the job, with the hold that stands: an earlier one is not replaced."""
    found = job.get("hold")
    standing = found if isinstance(found, dict) else {}
    at = local_time(standing.get("heldAt"))
    since = f" since {at:%H:%M:%S}" if at else ""
    by = f" by {standing['user']}" if standing.get("user") else ""
    if job.get("status") in ACTIVE:
        order = job.get("stopOrder")
        requested = isinstance(order, dict) and order.get("finalCheckpointRequested")
        checkpoint = "final checkpoint, " if requested else ""
        return f"pausing{since}{by}: {checkpoint}stop signal, then held until batchq resume"
    verb, undo = ("paused", "resume") if standing.get("paused") else ("held", "release")
    return f"{verb}{since}{by}, until batchq {undo}"
