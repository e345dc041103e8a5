"""`batchq hold`, `release`, `pause`, `resume`, `drain`, and `checkpoints`, from which paused jobs continue."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from urllib.parse import quote

from batchq.cli.http_client import add_server_flags, call, url_of
from batchq.cli.job_selection import HELP, HELP_ONE, resolve_job, resolve_jobs
from batchq.cli.output import DONE, REFUSED, print_error, print_notice, write_line
from batchq.cli.quantities import ago, iso_text, local_time, now
from batchq.cli.server_requests import ACTIVE, Row
from batchq.cli.tables import Column, add_json_flags, add_output_flags, print_json, print_list, prints_json
from batchq.errors import Invalid
from batchq.escapes import escape

DRAIN_QUEUE = "/v1/batchq/drainqueue"
KIB = 1024
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


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
    command.add_argument("jobs", nargs="+", metavar="JOB", help=HELP)
    add_json_flags(command)
    add_server_flags(command)


def _add_reason(command: ArgumentParser) -> None:
    command.add_argument("--reason", help="reason that list, show and why print")


def _reason(args: Namespace) -> dict[str, object]:
    return {} if args.reason is None else {"reason": args.reason}


def _change(args: Namespace, verb: str, content: Mapping[str, object], render: Callable[[Row], str]) -> int:
    """Request the change of each job, and print what has happened to it. A refusal does not stop the others."""
    url, answers, errors = url_of(args), [], []
    for job_id in resolve_jobs(url, args.jobs):
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


def add_checkpoints(command: ArgumentParser) -> None:
    """List the checkpoints of a job, oldest first. They outlive the job, until they are deleted.

    A job has a checkpoint directory if it was submitted with the tag batchq:checkpoints=true.

      batchq checkpoints @
      batchq checkpoints 8f2c51a7 --make
      batchq checkpoints 8f2c51a7 --delete ckpt_8a1f02bb93c4
    """
    command.set_defaults(run=run_checkpoints)
    command.add_argument("job", metavar="JOB", help=HELP_ONE)
    group = command.add_mutually_exclusive_group()
    group.add_argument("--make", action="store_true", help="send the running job its checkpoint signal")
    group.add_argument("--delete", action="append", metavar="CHECKPOINT", help="delete the checkpoint with this id")
    add_output_flags(command)
    add_server_flags(command)


def run_checkpoints(args: Namespace) -> int:
    url = url_of(args)
    job_id = resolve_job(url, args.job)
    path = f"/v1/batchq/jobs/{quote(job_id, safe='')}/checkpoints"
    if args.make:
        return _make(args, url, path, job_id)
    if args.delete:
        return _delete(args, url, path)
    response = call(url, path)
    found = response.get("checkpoints")
    rows: list[Row] = found if isinstance(found, list) else []
    print_list(args, response, rows, _columns())
    if not rows and not prints_json(args):
        print_notice(f"job {job_id} has no checkpoints")
    return DONE


def _make(args: Namespace, url: str, path: str, job_id: str) -> int:
    response = call(url, path, {})
    if prints_json(args):
        print_json(args, response)
    else:
        write_line(escape(f"{job_id}  the checkpoint signal was sent; batchq checkpoints {args.job} lists the result"))
    return DONE


def _delete(args: Namespace, url: str, path: str) -> int:
    deleted, errors = [], []
    for name in args.delete:
        try:
            deleted.append(call(url, f"{path}/{quote(name, safe='')}", method="DELETE"))
        except Invalid as refused:
            errors.append({"checkpointId": name, "error": str(refused)})
            if not prints_json(args):
                print_error(f"{name}: {refused}")
        else:
            if not prints_json(args):
                write_line(escape(f"{name}  deleted"), flush=False)
    if prints_json(args):
        print_json(args, {"deleted": deleted, "errors": errors})
    return REFUSED if errors else DONE


def _columns() -> list[Column]:
    present = now()

    def number(member: str, *, right: bool = True) -> Column:
        return Column(title=member.upper(), full=lambda it: str(it.get(member, "")), right=right)

    return [
        number("id", right=False),
        Column(title="NAME", full=lambda it: str(it.get("name", "")), elastic=True),
        Column(title="TYPE", full=_type),
        Column(
            title="SIZE",
            full=lambda it: str(it.get("sizeBytes", "")),
            short=lambda it: _size(it["sizeBytes"]),
            right=True,
        ),
        number("epoch"),
        number("step"),
        Column(
            title="MADE",
            full=lambda it: iso_text(local_time(it.get("createdAt"))),
            short=lambda it: ago(local_time(it.get("createdAt")), present),
        ),
    ]


def _type(checkpoint: Row) -> str:
    return f"{checkpoint.get('type', '')}{'' if checkpoint.get('complete') else ' (incomplete)'}"


def _size(size: float) -> str:
    """`512 B`, `1.5 GiB`."""
    unit = 0
    while size >= KIB and unit < len(UNITS) - 1:
        size, unit = size / KIB, unit + 1
    return f"{size:.3g} {UNITS[unit]}"
