"""`batchq submit` and `batchq run`: submit jobs of a job definition, or of an image for which one is registered."""

import json
import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from batchq.cli.attach import add_stop_flag, attend
from batchq.cli.config import defaults
from batchq.cli.groups import group_of_sweep, group_tags, wait_for_group
from batchq.cli.http_client import Document, url_of
from batchq.cli.job_flags import JobScript, Request, add_job_flags, is_script, job_request, read_script
from batchq.cli.job_handles import resolve_job
from batchq.cli.main import CommandParser
from batchq.cli.output import DONE, EXIT_STATUSES, NO_EXIT_CODE, is_terminal, print_error, print_notice, write_line
from batchq.cli.quantities import parse_count
from batchq.cli.server_commands import job_url
from batchq.cli.server_requests import (
    fetch_active_revisions,
    fetch_caller,
    fetch_definitions,
    send_definition,
    send_submission,
)
from batchq.cli.sweep import DEFAULT_REQUESTS, read_axes, submit_sweep, unknown_placeholder
from batchq.cli.tables import json_of
from batchq.cli.webhooks import require_own_webhook
from batchq.domain.ids import short_id
from batchq.domain.webhooks import NOTIFY_TAG
from batchq.errors import Invalid, UsageError
from batchq.services.client_requests import (
    Volume,
    container_properties,
    equal_revision,
    foreign_authors,
    image_definition,
    image_definition_name,
    short_name,
)
from batchq.services.sweep_requests import expand

DEFAULT_QUEUE = "default"
MAX_OVERRIDES = 8192  # AWS: characters of a job's command and environment as JSON
MAX_JOB_NAME = 128


class JobPlan(Struct, frozen=True, kw_only=True):
    """A job to submit."""

    #: The SubmitJob request without jobDefinition.
    request: Request
    #: The job definition: `name`, `name:revision` or an ARN; empty if the job has an image.
    definition: str = ""
    #: The image; empty if the job has a definition.
    image: str = ""
    #: Host path, container path, and whether it is read-only, of each volume of the image.
    volumes: tuple[tuple[str, str, bool], ...] = ()
    #: The user in the image's container; None: that of the image.
    user: str | None = None
    #: Whether the server refuses the job if no compute environment of its queue could hold it.
    strict: bool = False

    def resolved(self, url: str) -> Request:
        """The whole SubmitJob request; the definition of an image is registered if it does not exist.

        Raises UsageError and NotFound for a job of `--after` or a webhook of `--notify`, and the errors of `call`.
        """
        if webhook := self.request.get("tags", {}).get(NOTIFY_TAG):
            require_own_webhook(url, webhook)
        if self.definition:
            _name_author(url, self.definition)
        definition = self.definition or find_or_register(url, image=self.image, volumes=self.volumes, user=self.user)
        return _with_job_ids(url, self.request) | {"jobDefinition": definition}


def add_submit(command: CommandParser) -> None:
    """Submit a job and print its id: from an image, a job definition, or a script whose #BATCHQ lines are flags.

    For an image, one job definition is registered for each combination of image, volumes and user, and reused. A script
    is sent as the job's command; the words behind -- are its arguments.

      batchq submit python:3.12 --memory 2g -v $PWD:/data --cd /data -- python train.py
      batchq submit -d align:3 --after 8f2c51a7 -- align.sh sample-7
      batchq submit train.sh --time 90m
      ls *.bam | batchq submit -d align --name align --each - -- align.sh {}
      batchq submit train.sh --image my/train --each lr=0.1,0.01 --each seed=1..5 --max-running 4 --wait
    """
    declare_submission(command)
    command.add_argument(
        "--each",
        action="append",
        metavar="FILE|-|NAME=VALUES",
        help=(
            "submit a job for each line of a file or of stdin, where {} in the command, or in a value of -e, is the "
            "line; or for each value, as lr=0.1,0.01 or seed=1..5, where {lr} and the variable lr are the value; "
            "repeated: for each combination"
        ),
    )
    command.add_argument(
        "--each-row", metavar="FILE.csv", help="submit a job for each row; {COLUMN} and the variable COLUMN are a value"
    )
    command.add_argument("--jobs", type=parse_count, metavar="N", help="with --each: requests at the same time (4)")
    command.add_argument(
        "--wait",
        action="store_true",
        help="wait until the job, or all jobs of --each, have ended; exit status as that of `batchq wait`",
    )
    command.add_argument("--dry-run", action="store_true", help="print the requests as JSON, and submit nothing")
    add_stop_flag(command)


def declare_submission(command: CommandParser) -> None:
    """Declare what `submit` and `run` have in common: the image, definition or script, the job and the server."""
    command.takes_program = True
    command.epilog = EXIT_STATUSES
    command.usage = f"{command.prog} [-h] [IMAGE | -d DEF[:REV] | SCRIPT] [flags] [-- COMMAND...]"
    command.add_argument("target", nargs="?", metavar="IMAGE|SCRIPT", help="image, or file of a script (*.sh, ./FILE)")
    command.add_argument("--image", help="image in which a script runs")
    add_job_flags(command)
    command.add_argument(
        "--strict", action="store_true", help="refuse a job that no compute environment of its queue could ever hold"
    )


def submit_planned(url: str, plan: JobPlan) -> tuple[Request, str]:
    """Submit the job: the request, and the id of the job. Raises the errors of `call`.

    A notice warns of a job that no compute environment could hold. After Ctrl-C a notice says whether the job may have
    been submitted.
    """
    request: Request | None = None
    try:
        request = plan.resolved(url)
        job_id, warning = send_submission(url, request, invocation=str(uuid4()), strict=plan.strict)
    except KeyboardInterrupt:
        if request is None:
            print_notice("nothing is submitted")
        else:
            name = shlex.quote(str(request["jobName"]))
            print_notice(f"the server may have accepted the job: batchq list -n {name} --since 5m shows it")
        raise
    if warning:
        print_notice(f"warning: {warning}")
    return request, job_id


def run_submit(args: Namespace) -> int:
    plan = plan_job(args)
    _warn_of_one_word(args.program)
    if args.each or args.each_row:
        return _submit_each(args, plan)
    if args.jobs is not None:
        raise UsageError("--jobs belongs to --each")
    plan = replace(plan, request=plan.request | group_tags(args, plan.request, size=None))
    if args.dry_run:
        print_requests(plan, [plan.request])
        return DONE
    url = url_of(args)
    _, job = submit_planned(url, plan)
    write_line(job)
    if is_terminal() and (page := job_url(url, job)):
        print_notice(page)
    return attend(url, job, shows_output=False, stops_on_exit=args.stop_on_exit) if args.wait else DONE


def _submit_each(args: Namespace, plan: JobPlan) -> int:
    if args.array is not None:
        raise UsageError("--each and --array exclude each other")
    axes = read_axes(args.each or (), args.each_row)
    members = expand(plan.request, axes, words=len(args.program or ()))
    if warning := unknown_placeholder(args.program or (), axes):
        print_notice(warning)
    for member in members:
        _check_length(member.request, None)
    tags = group_tags(args, plan.request, size=len(members))
    if args.dry_run:
        print_requests(plan, [member.request | tags for member in members])
        return DONE
    url = url_of(args)
    digest = sha256(json.dumps([[axis.source for axis in axes], plan.request]).encode()).hexdigest()
    group, tags = group_of_sweep(url, args, tags, digest)
    resolved = plan.resolved(url) | tags
    sweep = [member.with_members_of(resolved) for member in members]
    status = submit_sweep(url, sweep, at_once=args.jobs or DEFAULT_REQUESTS, strict=plan.strict)
    if status != DONE:
        return status
    return wait_for_group(url, group) if args.wait else DONE


def print_requests(plan: JobPlan, requests: Sequence[Request]) -> None:
    """Print the requests of a dry run as JSON, a line each."""
    definition = plan.definition
    if plan.image:
        properties = container_properties(image=plan.image, volumes=plan.volumes, user=plan.user)
        definition = image_definition_name(plan.image, properties)
        write_line(json.dumps({"registerJobDefinition": image_definition(definition, properties)}))
    for request in requests:
        write_line(json.dumps({"submitJob": request | {"jobDefinition": definition}}))
    print_notice("dry run: nothing is submitted")


def plan_job(args: Namespace) -> JobPlan:
    """The job that the flags describe. Raises UsageError."""
    script = read_script(Path(args.target)) if args.target and is_script(args.target) else None
    if script is not None:
        args = _with_script_flags(args, script)
    known = defaults(args.config)
    definition, image = _source(args, script, known)
    if definition and (args.volume or args.user):
        raise UsageError("--volume and --user are parts of a job definition: give an image in place of -d")
    command = list(args.program or ()) if script is None else script.command(args.program or ())
    request = job_request(args, queue=args.queue or known.get("queue", DEFAULT_QUEUE), command=command)
    _check_length(request, script)
    name = args.name or _default_name(image=image, definition=definition, script=script)
    return JobPlan(
        request={"jobName": name} | request,
        definition=definition,
        image=image,
        volumes=tuple(args.volume or ()),
        user=args.user,
        strict=args.strict,
    )


def _with_script_flags(args: Namespace, script: JobScript) -> Namespace:
    """The arguments parsed again behind the script's flags, so that those of the command line take precedence."""
    parser: ArgumentParser = args.parser
    found = parser.parse_args([*script.flags, *args.words])
    found.program = args.program
    return found


def _source(args: Namespace, script: JobScript | None, known: Mapping[str, str]) -> tuple[str, str]:
    """The definition and the image; one of them is empty. Raises UsageError if both are given, or none."""
    images = [value for value in (args.image, None if script else args.target) if value]
    if script is None and args.target and Path(args.target).suffix and Path(args.target).is_file():
        raise UsageError(f"{args.target} counts as an image: a script ends in .sh, .bash or .py, or is ./{args.target}")
    if len(images) + bool(args.definition) > 1:
        raise UsageError("give either one image or -d, not both")
    definition = args.definition or ("" if images else known.get("definition", ""))
    if not definition and not images:
        raise UsageError("give an image or a job definition: batchq submit IMAGE, or -d DEF; for a script also --image")
    return definition, "".join(images)


def find_or_register(url: str, *, image: str, volumes: Sequence[Volume], user: str | None) -> str:
    """The `name:revision` of the definition for this image. Raises Invalid, and ServerUnavailable."""
    properties = container_properties(image=image, volumes=volumes, user=user)
    name, caller = image_definition_name(image, properties), json_of(fetch_caller(url))
    try:
        return _find(url, name, properties, caller) or _register(url, name, properties)
    except Invalid:  # the name belongs to a user of another account, or the image is not allowed
        own = image_definition_name(image, properties, owner=caller["user"])
        return _find(url, own, properties, caller) or _register(url, own, properties)


def _name_author(url: str, definition: str) -> None:
    """Print a notice if the author of the definition may limit the job. The server refuses a missing definition."""
    if ":" in definition:
        found = fetch_definitions(url, [definition])
    else:
        found = sorted(fetch_active_revisions(url, definition), key=lambda revision: int(revision["revision"]))[-1:]
    if found:
        for sentence in foreign_authors([], found, caller=json_of(fetch_caller(url))):
            print_notice(sentence)


def _find(url: str, name: str, properties: Document, caller: Document) -> str | None:
    """The newest active revision with exactly this content; None without one."""
    return equal_revision(fetch_active_revisions(url, name), name, properties, caller=caller)


def _register(url: str, name: str, properties: Document) -> str:
    return send_definition(url, image_definition(name, properties))


def _default_name(*, image: str, definition: str, script: JobScript | None) -> str:
    if script is not None:
        return short_name(script.file.stem)[:MAX_JOB_NAME]
    if image:
        return short_name(image)[:MAX_JOB_NAME]
    return short_name(definition.rpartition("/")[2])[:MAX_JOB_NAME]


def _with_job_ids(url: str, request: Request) -> Request:
    """The request with complete ids in place of the job handles of `--after`."""
    if "dependsOn" not in request:
        return request
    return request | {"dependsOn": [job | {"jobId": resolve_job(url, job["jobId"])} for job in request["dependsOn"]]}


def _warn_of_one_word(program: Sequence[str] | None) -> None:
    """Print a notice on a shell command in quotation marks: a container has no program of this name."""
    if program is not None and len(program) == 1 and " " in program[0].strip():
        print_notice(f"warning: the command is one word with spaces; for a shell: -- sh -c {shlex.quote(program[0])}")


def _check_length(request: Request, script: JobScript | None) -> None:
    """Raise UsageError for overrides that are longer than AWS allows: the server would accept and fail the job."""
    overrides = request.get("containerOverrides", {})
    measured = {member: overrides.get(member, []) for member in ("command", "environment")}
    length = len(json.dumps(measured, ensure_ascii=False, separators=(",", ":")))
    if length > MAX_OVERRIDES:
        what = "the command and the environment" if script is None else f"the script {script.file} and the environment"
        advice = "put the program into the image or on a volume"
        raise UsageError(f"{what} have {length} characters as JSON; AWS Batch allows {MAX_OVERRIDES}: {advice}")


def add_run(command: CommandParser) -> None:
    """Submit a job, print its output while it runs, and end with its exit code.

    Takes the flags of `batchq submit`. Ctrl-C asks whether to leave the job running, cancel or terminate it; a second
    Ctrl-C leaves it running, as do SIGTERM, SIGHUP, and Ctrl-C without a terminal.

      batchq run python:3.12 --memory 2g -v $PWD:/data --cd /data -- python train.py
      batchq run train.sh --time 90m
    """
    declare_submission(command)
    add_stop_flag(command)


def run_run(args: Namespace) -> int:
    plan = plan_job(args)
    _warn_of_one_word(args.program)
    url = url_of(args)
    try:
        request, job_id = submit_planned(url, plan)
    except Invalid as refused:
        return print_error(str(refused), NO_EXIT_CODE)
    page = job_url(url, job_id) if is_terminal(sys.stderr) else ""
    print_notice(f"{request['jobName']} {short_id(job_id)} in queue {request['jobQueue']}  {page}".rstrip())
    return attend(url, job_id, shows_output=True, stops_on_exit=args.stop_on_exit)
