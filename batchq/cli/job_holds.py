"""`batchq hold`, `release`, `pause`, `resume`, `drain`, and `checkpoints`, from which paused jobs continue."""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence

from batchq.cli.http_client import call, url_of
from batchq.cli.job_handles import HELP_ONE, resolve_job
from batchq.cli.job_selection import STATES, Filters, add_selection_flags, selected_ids
from batchq.cli.output import DONE, REFUSED, can_ask, confirm, print_error, write_line
from batchq.cli.quantities import local_time, now
from batchq.cli.server_requests import Answer, fetch_rows, job_endpoint
from batchq.cli.tables import (
    Column,
    print_json,
    print_list,
    print_result,
    prints_json,
    text_column,
    time_column,
)
from batchq.domain.enums import ACTIVE
from batchq.domain.stop_messages import WIDE
from batchq.errors import Invalid
from batchq.ports.responses import checkpoints
from batchq.ports.responses.jobs import HeldJobResponse
from batchq.ports.responses.server import DrainQueueResponse
from batchq.system.escapes import escape

DRAIN_QUEUE = "/v1/batchq/drainqueue"
DRAINED = "accepts jobs and starts none; running jobs continue"
KIB = 1024
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_CHECKPOINT_ID = re.compile(r"ckpt_[0-9a-f]{12}")


def add_hold(command: ArgumentParser) -> None:
    """Keep queued jobs from starting, until `batchq release`. They keep their position in line and block no other job.

    A job that has started is refused; pause it. An array is held with all its children.

      batchq hold 8f2c51a7 --reason 'waits for the new data'
      batchq hold 8f2c51a7:190-194
      batchq hold -n 'fit-*' -q gpu
    """
    _declare(command, "hold", _render_hold, {"jobStatuses": STATES["PENDING"]})
    _add_reason(command)


def add_release(command: ArgumentParser) -> None:
    """Let held or paused jobs start again, at their old position in line.

    batchq release 8f2c51a7
    batchq release --me
    """
    _declare(command, "release", _render_release("released"), {"held": True})


def add_pause(command: ArgumentParser) -> None:
    """Stop running jobs with a final checkpoint, free their resources and hold them, until `batchq resume`.

    The attempt does not count as one of the job's attempts. A job that ends while it is being paused is
    paused, whatever its exit code. A job that has not started is held.

      batchq pause @ --reason 'room for the demo'
      batchq pause 8f2c51a7 && batchq show 8f2c51a7
    """
    _declare(command, "pause", _render_hold, {"jobStatuses": STATES["PENDING"] + STATES["RUNNING"]})
    _add_reason(command)


def add_resume(command: ArgumentParser) -> None:
    """Let paused or held jobs start again, at their old position in line, from their newest checkpoint.

    batchq resume @
    """
    _declare(command, "resume", _render_release("resumed"), {"held": True})


def add_drain(command: ArgumentParser) -> None:
    """Let job queues accept jobs and start none, for example before maintenance; `--off` lets them start jobs again.

    Jobs that run continue. For operators and admins.

      batchq drain gpu
      batchq drain gpu --off
    """
    command.add_argument("queue_names", nargs="+", metavar="QUEUE", help="name of a job queue")
    command.add_argument("--off", action="store_true", help="start jobs of these queues again")


def run_drain(args: Namespace) -> int:
    url = url_of(args)

    def request(name: str) -> DrainQueueResponse:
        return call(url, DRAIN_QUEUE, {"queue": name, "drained": not args.off}, answer=DrainQueueResponse)

    def render(name: str, queue: DrainQueueResponse) -> str:
        return f"queue {name} {DRAINED if queue.drained else 'starts jobs'}"

    return _request_each(args, args.queue_names, request, render, id_member="queue", list_member="queues")


def _declare(command: ArgumentParser, verb: str, render: Callable[[HeldJobResponse], str], default: Filters) -> None:
    """Declare a command that requests `verb` for each job.

    `render`: what has happened to a job. `default`: as in `selected_ids`.
    """

    def run(args: Namespace) -> int:
        url, reason = url_of(args), getattr(args, "reason", None)
        content = {} if reason is None else {"reason": reason}

        def request(job_id: str) -> HeldJobResponse:
            return call(url, f"{job_endpoint(job_id)}/{verb}", content, answer=HeldJobResponse)

        def line(job_id: str, job: HeldJobResponse) -> str:
            return f"{job_id}  {render(job)}  {job.job_name} ({job.status})"

        jobs = selected_ids(args, url, default)
        if not args.yes and can_ask() and (total := _count_jobs(url, jobs)) > WIDE:
            confirm(f"{verb} {total} jobs")
        return _request_each(args, jobs, request, line, id_member="jobId", list_member="jobs", separator="  ")

    command.set_defaults(run=run)
    add_selection_flags(command)
    command.add_argument("-y", "--yes", action="store_true", help="do not ask before many jobs are changed")


def _count_jobs(url: str, jobs: Sequence[str]) -> int:
    """How many jobs the command changes: an array counts as its children."""
    try:
        return sum(row.array_size or 1 for row in fetch_rows(url, jobs))
    except Invalid:  # one does not exist, which the command reports for each job
        return len(jobs)


def _add_reason(command: ArgumentParser) -> None:
    command.add_argument("--reason", help="reason that list, show and why print")


def _request_each(
    args: Namespace,
    names: Iterable[str],
    request: Callable[[str], Answer],
    render: Callable[[str, Answer], str],
    *,
    id_member: str,
    list_member: str,
    separator: str = ": ",
) -> int:
    """Request the change of each resource, and print what has happened to it. A refusal does not stop the others.

    `separator`: between the name and the text of a refusal.
    """
    answers, errors = [], []
    for name in names:
        try:
            answer = request(name)
        except Invalid as refused:
            errors.append({id_member: name, "error": str(refused)})
            if not prints_json(args):
                print_error(f"{name}{separator}{str(refused).removeprefix(f'Job {name} ')}")
            continue
        answers.append(answer)
        if not prints_json(args):
            write_line(escape(render(name, answer)), flush=False)
    if prints_json(args):
        print_json(args, {list_member: answers, "errors": errors})
    return REFUSED if errors else DONE


def _render_hold(job: HeldJobResponse) -> str:
    """What the hold does to the job, with the hold that stands: an earlier one is not replaced."""
    hold, order = job.hold, job.stop_order
    at = None if hold is None else local_time(hold.held_at)
    since = f" since {at:%H:%M:%S}" if at else ""
    by = f" by {hold.user}" if hold is not None and hold.user else ""
    if job.status in ACTIVE:
        checkpoint = "final checkpoint, " if order is not None and order.final_checkpoint_requested else ""
        return f"pausing{since}{by}: {checkpoint}stop signal, then held until batchq resume"
    verb, undo = ("paused", "resume") if hold is not None and hold.paused else ("held", "release")
    return f"{verb}{since}{by}, until batchq {undo}"


def _render_release(done: str) -> Callable[[HeldJobResponse], str]:
    return lambda job: "was not held" if job.was_held is False else done


def add_checkpoints(command: ArgumentParser) -> None:
    """List the checkpoints of a job, oldest first. They outlive the job, until they are deleted.

    A job has a checkpoint directory if it was submitted with the tag batchq:checkpoints=true.

      batchq checkpoints @
      batchq checkpoints 8f2c51a7 --make
      batchq checkpoints 8f2c51a7 --delete ckpt_8a1f02bb93c4
    """
    command.add_argument("job", metavar="JOB", help=HELP_ONE)
    group = command.add_mutually_exclusive_group()
    group.add_argument("--make", action="store_true", help="send the running job its checkpoint signal")
    group.add_argument(
        "--delete", action="append", metavar="CHECKPOINT", help="delete the checkpoint with this id or name"
    )


def run_checkpoints(args: Namespace) -> int:
    url = url_of(args)
    job_id = resolve_job(url, args.job)
    path = f"{job_endpoint(job_id)}/checkpoints"
    if args.delete:
        return _delete(args, url, path)
    if args.make:
        made = call(url, path, {}, answer=checkpoints.RequestCheckpointResponse)
        text = f"{job_id}  the checkpoint signal was sent; batchq checkpoints {args.job} lists the result"
        print_result(args, made, [text])
    else:
        response = call(url, path, answer=checkpoints.CheckpointsResponse)
        print_list(args, response, response.checkpoints, _columns(), empty=f"job {job_id} has no checkpoints")
    return DONE


def _delete(args: Namespace, url: str, path: str) -> int:
    listed: Sequence[checkpoints.CheckpointResponse] = ()
    if not all(map(_CHECKPOINT_ID.fullmatch, args.delete)):
        listed = call(url, path, answer=checkpoints.CheckpointsResponse).checkpoints
    ids = {checkpoint.name: checkpoint.id for checkpoint in listed}

    def request(name: str) -> checkpoints.DeleteCheckpointResponse:
        found = name if _CHECKPOINT_ID.fullmatch(name) else ids.get(name)
        if found is None:
            raise Invalid(f"the job has no such checkpoint; batchq checkpoints {args.job} lists ids and names")
        return call(url, f"{path}/{found}", answer=checkpoints.DeleteCheckpointResponse, method="DELETE")

    def render(name: str, _: checkpoints.DeleteCheckpointResponse) -> str:
        return f"{name}  deleted"

    return _request_each(args, args.delete, request, render, id_member="checkpointId", list_member="deleted")


def _columns() -> list[Column[checkpoints.CheckpointResponse]]:
    return [
        text_column("ID", lambda checkpoint: checkpoint.id),
        text_column("NAME", lambda checkpoint: checkpoint.name, elastic=True),
        Column(title="TYPE", full=lambda each: f"{each.type}{'' if each.complete else ' (incomplete)'}"),
        Column(title="SIZE", full=lambda checkpoint: str(checkpoint.size_bytes), short=_size, right=True),
        text_column("EPOCH", lambda checkpoint: checkpoint.epoch, right=True),
        text_column("STEP", lambda checkpoint: checkpoint.step, right=True),
        time_column("MADE", lambda checkpoint: checkpoint.created_at, present=now()),
    ]


def _size(checkpoint: checkpoints.CheckpointResponse) -> str:
    """`512 B`, `1.5 GiB`."""
    size, unit = float(checkpoint.size_bytes), 0
    while size >= KIB and unit < len(UNITS) - 1:
        size, unit = size / KIB, unit + 1
    return f"{size:.3g} {UNITS[unit]}"
