"""The commands of one request to a server: `batchq whoami`, `batchq force-fail` and `batchq leave-safe-mode`."""

import json
from argparse import ArgumentParser, Namespace
from urllib.parse import quote

from batchq.cli.http_client import Response, add_server_flags, call, url_of
from batchq.cli.job_handles import HELP_ONE, resolve_job
from batchq.escapes import escape

WHO_AM_I = "/v1/batchq/whoami"
LEAVE_SAFE_MODE = "/v1/batchq/leavesafemode"
DEFAULT_REASON = "its container does not end"


def add_whoami(command: ArgumentParser) -> None:
    """Print which user the server associates with your access key."""
    command.set_defaults(run=run_whoami)
    add_server_flags(command)
    command.add_argument("--json", action="store_true", help="print all details as JSON")


def run_whoami(args: Namespace) -> int:
    identity = call(url_of(args), WHO_AM_I, {})
    print(json.dumps(identity, indent=2) if args.json else escape(_render_identity(identity)))
    return 0


def _render_identity(identity: Response) -> str:
    coordinates, queues = (_joined(identity.get(it)) for it in ("coordinates", "queues"))
    role = f"{identity.get('role')}, coordinator of {coordinates}" if coordinates else f"{identity.get('role')}"
    visible = "all queues" if identity.get("queues") is None else f"queues {queues or 'none'}"
    return f"{identity.get('user')} of account {identity.get('account')}, {role}; {visible}"


def _joined(names: object) -> str:
    return ",".join(map(str, names)) if isinstance(names, list) else ""


def add_force_fail(command: ArgumentParser) -> None:
    """Fail a job at once and free its resources, although its container may still run. For admins.

    Terminate the job first, and wait: force-fail is for a container that does not end.

      batchq force-fail 8f2c51a7 --reason 'its node is gone'
    """
    command.set_defaults(run=run_force_fail)
    command.add_argument("job", metavar="JOB", help=HELP_ONE)
    command.add_argument("--reason", default=DEFAULT_REASON, help=f"statusReason of the job ({DEFAULT_REASON})")
    add_server_flags(command)


def run_force_fail(args: Namespace) -> int:
    url = url_of(args)
    path = f"/v1/batchq/jobs/{quote(resolve_job(url, args.job), safe='')}/forcefail"
    job = call(url, path, {"reason": args.reason})
    print(escape(f"job {job.get('jobId')} is {job.get('status')}: {job.get('statusReason')}"))
    return 0


def add_leave_safe_mode(command: ArgumentParser) -> None:
    """Start jobs again after `batchq restore`. Containers of unknown jobs are ignored, or removed with --purge.

    With --new-engine: accept a container engine other than the one that jobs were started on.
    """
    command.set_defaults(run=run_leave_safe_mode)
    command.add_argument("--purge", action="store_true", help="remove containers of unknown jobs")
    command.add_argument(
        "--new-engine", action="store_true", help="accept the present container engine; jobs on another one are lost"
    )
    add_server_flags(command)


def run_leave_safe_mode(args: Namespace) -> int:
    call(url_of(args), LEAVE_SAFE_MODE, {"purge": args.purge, "newEngine": args.new_engine})
    print("the container engine is accepted" if args.new_engine else "jobs are started again")
    return 0
