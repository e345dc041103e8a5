"""`batchq checkpoints`: lists the checkpoints of a job, requests one, and deletes them."""

from argparse import ArgumentParser, Namespace
from urllib.parse import quote

from batchq.cli.http_client import add_server_flags, call, url_of
from batchq.cli.job_handles import HELP_ONE, resolve_job
from batchq.cli.output import DONE, REFUSED, print_error, print_notice, write_line
from batchq.cli.server_requests import Row
from batchq.cli.tables import Column, add_output_flags, print_json, print_list, prints_json
from batchq.cli.times import ago, iso_text, local_time, now
from batchq.errors import Invalid
from batchq.escapes import escape

KIB = 1024
UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


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
