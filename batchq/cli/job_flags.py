"""Flags that describe a job, and the SubmitJob request that they make. `submit`, `run` and `rerun` share them.

The lines `#BATCHQ` of a job script are such flags, too, and the script's text is the job's command.
"""

import os
import re
import shlex
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from batchq.cli.job_handles import parse_handle
from batchq.cli.output import print_notice
from batchq.cli.quantities import flag_parser, parse_count, parse_mib, parse_seconds, parse_vcpus
from batchq.domain.container import CREATE_HOST_PATHS_TAG
from batchq.domain.webhooks import NOTIFY_TAG
from batchq.errors import UsageError

MARK = "#BATCHQ"
DEFAULT_INTERPRETER = "sh"
_INTERPRETERS = re.compile(r"(?:ba|da|k|z|a)?sh|python[\d.]*")  # that take the program as text by -c
_SHEBANG = re.compile(r"#!\s*(\S+)(?:\s+(.*))?")
_ENV = "env"
_VARIABLE = re.compile(r"[^=\0]+")
_SHELL_VARIABLE = re.compile(r"\$\{?[A-Za-z_]\w*\}?")
#: Marks of Slurm, PBS, Grid Engine and LSF, and misspelled ones of batchq.
_OTHER_MARK = re.compile(r"#SBATCH\b|#PBS\b|#\$ +-|#BSUB\b|# *batchq\b", re.IGNORECASE)
_PRIORITY = re.compile("[0-9]{1,4}")
_BYTE_ORDER_MARK = "\ufeff"  # at the beginning of files from Windows, Excel among others
_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_ENTER_FOLDER = 'cd "$0" && exec "$@"'  # run by sh, with the folder and the command as arguments
N_TO_N = "n2n"
Request = dict[str, Any]

_variable = flag_parser(lambda text: text if _VARIABLE.match(text) else None, "is neither NAME=VALUE nor NAME")
_priority = flag_parser(
    lambda text: int(text) if _PRIORITY.fullmatch(text) else None, "is not a whole number from 0 to 9999"
)
_job_name = flag_parser(
    lambda text: text if _JOB_NAME.fullmatch(text) else None,
    "is not a name of at most 128 letters, digits, hyphens and underscores that begins with a letter or digit",
)
_time_limit = flag_parser(
    lambda text: parse_seconds(text) or None, "is not a time limit: omit the flag for a job without a limit"
)


def add_change_flags(command: ArgumentParser) -> None:
    """Declare the flags that a rerun may also change: resources, environment and limits of a job."""
    flag = command.add_argument_group("job").add_argument
    flag("--vcpus", type=parse_vcpus, metavar="N", help="vCPUs, for example 2 or 0.5")
    flag("--memory", type=parse_mib, metavar="SIZE", help="memory, for example 512m or 4g")
    flag("--gpus", type=parse_count, metavar="N", help="GPUs")
    flag(
        "-e",
        "--env",
        action="append",
        type=_variable,
        metavar="NAME[=VALUE]",
        help="environment variable; without a value: the one of your environment",
    )
    flag("--env-file", action="append", type=Path, metavar="FILE", help="file with a NAME=VALUE on each line")
    flag("--retry", type=parse_count, metavar="N", help="attempts, at most 10")
    flag(
        "--time",
        type=_time_limit,
        metavar="DURATION",
        help="time limit of each attempt, for example 90m; at least 60s",
    )
    flag("--priority", type=_priority, metavar="N", help="scheduling priority within the share, 0 to 9999")
    flag("--share", type=_filled, metavar="NAME", help="share identifier, in a queue with a scheduling policy")
    flag("--tag", action="append", type=parse_pair, metavar="NAME=VALUE", help="tag of the job")
    flag(
        "--need",
        action="append",
        type=_need,
        metavar="RESOURCE=N",
        help="units of a consumable resource; in place of those of the job definition",
    )


def add_job_flags(command: ArgumentParser) -> None:
    """Declare the flags of a new job, with those of `add_change_flags`."""
    flag = command.add_argument_group("new job").add_argument
    flag("-d", "--definition", metavar="DEF[:REV]", help="job definition to use in place of an image")
    flag("--name", type=_job_name, help="name of the job (from the image, the script or the job definition)")
    flag("-q", "--queue", type=_queue, help="job queue (`queue` of the config file's [defaults], or default)")
    add_change_flags(command)
    flag(
        "-v",
        "--volume",
        action="append",
        type=_volume,
        metavar="HOST:PATH[:ro]",
        help="mount a path of the server's machine; a relative one is below your current folder",
    )
    flag(
        "--create-host-paths",
        action="store_true",
        help="create paths of the server's machine that the job mounts and that do not exist; else the job fails",
    )
    flag("--cd", metavar="DIR", help="folder of the container in which the command starts; the image must have sh")
    flag("--user", type=_filled, metavar="USER", help="user in the container (that of the image)")
    flag("--group", metavar="NAME", help="group of the job (with --each: a new group with the name of the job)")
    flag("--max-running", type=parse_count, metavar="N", help="let at most N jobs of the group run at the same time")
    flag("--max-failed", type=parse_count, metavar="N", help="cancel the others when N jobs of the group have failed")
    flag("--notify", metavar="WEBHOOK", help="send the end of the job, or of its group, to your webhook of this name")
    flag("--array", type=parse_count, metavar="N", help="submit an array job with N children, 2 to 10000")
    flag(
        "--after",
        action="append",
        type=_dependency,
        metavar=f"JOB[:{N_TO_N}]",
        help=f"start after this job has succeeded; with :{N_TO_N} each child after the child of the same index",
    )


def job_request(args: Namespace, *, queue: str, command: Sequence[str]) -> Request:
    """The SubmitJob request, without jobName and jobDefinition. Raises UsageError for an unset variable or bad file."""
    request = changes(args, command=command) | {"jobQueue": queue}
    if args.create_host_paths:
        request["tags"] = request.get("tags", {}) | {CREATE_HOST_PATHS_TAG: "true"}
    if args.notify is not None:
        request["tags"] = request.get("tags", {}) | {NOTIFY_TAG: args.notify}
    if args.array is not None:
        request["arrayProperties"] = {"size": args.array}
    if args.after:
        request["dependsOn"] = args.after
    return request


def changes(args: Namespace, *, command: Sequence[str]) -> Request:
    """The members of a SubmitJob request for the flags of `add_change_flags` that are given."""
    overrides = {
        "command": _in_folder(command, getattr(args, "cd", None)),
        "environment": environment_of_flags(args),
        "resourceRequirements": _resources(args),
    }
    members: Mapping[str, object] = {
        "containerOverrides": {member: value for member, value in overrides.items() if value},
        "retryStrategy": args.retry and {"attempts": args.retry},
        "timeout": args.time and {"attemptDurationSeconds": args.time},
        "shareIdentifier": args.share,
        "tags": dict(args.tag or ()),
        "consumableResourcePropertiesOverride": args.need and {"consumableResourceList": args.need},
    }
    request = {member: value for member, value in members.items() if value}
    return request if args.priority is None else request | {"schedulingPriorityOverride": args.priority}


def environment_of_flags(args: Namespace) -> list[Mapping[str, str]]:
    """The variables of `--env-file` and `--env`, each name once; the last value counts. Raises UsageError."""
    lines = [line for file in args.env_file or () for line in _lines(file)]
    found: dict[str, str] = {}
    for text in [*lines, *(args.env or ())]:
        name, separator, value = text.partition("=")
        if not separator and name not in os.environ:
            raise UsageError(f"the environment variable {name} is not set; give it a value: -e {name}=VALUE")
        found[name] = value if separator else os.environ[name]
    return [{"name": name, "value": value} for name, value in found.items()]


def _lines(file: Path) -> list[str]:
    """The variables of a file; empty lines and lines that begin with # are skipped."""
    try:
        lines = [line.strip() for line in without_mark(file.read_text()).splitlines()]
    except (OSError, ValueError) as why:
        raise UsageError(f"cannot read {file}: {reading_failure(why)}") from None
    found = [line for line in lines if line and not line.startswith("#")]
    if invalid := [text for text in found if not _VARIABLE.match(text)]:
        raise UsageError(f"{file}: {invalid[0]!r} is not NAME=VALUE")
    if invalid := [name for name, _, _ in (text.partition("=") for text in found) if len(name.split()) > 1]:
        raise UsageError(f"{file}: {invalid[0]!r} has a space: write NAME=VALUE, without export and quotation marks")
    return found


def without_mark(text: str) -> str:
    """The text of a file without its byte order mark."""
    return text.removeprefix(_BYTE_ORDER_MARK)


def reading_failure(why: OSError | ValueError) -> str:
    """Why a file of text was not read, and what to do with one in another encoding."""
    if isinstance(why, UnicodeDecodeError):
        return "it is not UTF-8 text: save it as UTF-8, a table of Excel as CSV UTF-8"
    return getattr(why, "strerror", None) or str(why)


def _resources(args: Namespace) -> list[Mapping[str, str]]:
    wanted = (("VCPU", args.vcpus), ("MEMORY", args.memory), ("GPU", args.gpus))
    return [{"type": kind, "value": str(value)} for kind, value in wanted if value is not None]


def _in_folder(command: Sequence[str], folder: str | None) -> list[str]:
    if folder is None:
        return list(command)
    if not command:
        raise UsageError("--cd needs a command: give it after --")
    return ["sh", "-c", _ENTER_FOLDER, folder, *command]


def parse_pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _need(text: str) -> Mapping[str, object]:
    name, _, quantity = text.partition("=")
    if not name:
        raise ArgumentTypeError(f"{text!r} is not RESOURCE=N")
    return {"consumableResource": name, "quantity": parse_count(quantity or "1")}


def _volume(text: str) -> tuple[str, str, bool]:
    """Parse HOST:PATH[:ro] into the absolute host path, the container's path, and whether it is read-only."""
    parts = text.split(":")
    mode = parts.pop() if parts[-1] in {"ro", "rw"} else "rw"
    match parts:
        case [host, path] if host and path.startswith("/"):
            return _host_path(host), path, mode == "ro"
        case _:
            raise ArgumentTypeError(f"{text!r} is not HOST:PATH, HOST:PATH:ro or HOST:PATH:rw, with an absolute PATH")


def _host_path(text: str) -> str:
    """The absolute path, with `~` and `$NAME` expanded: no shell expands them in #BATCHQ lines.

    Raises ArgumentTypeError for a variable or a user that does not exist.
    """
    path = os.path.expandvars(os.path.expanduser(text))  # noqa: PTH111 - Path.expanduser raises without a home folder
    unset = _SHELL_VARIABLE.search(path)
    if path.startswith("~") or unset is not None:
        what = text if unset is None else unset[0]
        raise ArgumentTypeError(f"{text!r}: {what} has no value here; give the path")
    return str(Path(path).absolute())


def _dependency(text: str) -> Mapping[str, str]:
    job = text.removesuffix(f":{N_TO_N}")
    try:
        parse_handle(job)
    except UsageError as invalid:
        raise ArgumentTypeError(str(invalid)) from None
    return {"jobId": job, "type": "N_TO_N"} if text != job else {"jobId": job}


def _filled(text: str) -> str:
    if not text:
        raise ArgumentTypeError("the text is empty: omit the flag")
    return text


def _queue(text: str) -> str:
    if not text:
        raise ArgumentTypeError("the name is empty: omit the flag for the default queue")
    return text


class JobScript(Struct, frozen=True, kw_only=True):
    """A script that is submitted as a job's command."""

    file: Path
    text: str
    #: The words of its #BATCHQ lines.
    flags: tuple[str, ...]
    #: The program that runs it, with its arguments: from the first line, else sh.
    interpreter: tuple[str, ...]

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The job's command: the interpreter, the text, and the arguments, which the script has as `$1`, `$2`.

        A shell gets the file's name as `$0`. Python has no such argument.
        """
        name = () if "python" in self.interpreter[0] else (self.file.name,)
        return [*self.interpreter, "-c", self.text, *name, *arguments]


def is_script(target: str) -> bool:
    """Whether the argument of `submit` names a script and not an image: it begins with / or ., or ends with .sh."""
    return target.startswith(("/", ".")) or target.endswith((".sh", ".bash", ".py"))


def read_script(file: Path) -> JobScript:
    """Read a script. Raises UsageError for a file that is empty or not readable, and an interpreter without `-c`."""
    try:
        text = without_mark(file.read_text())
    except (OSError, ValueError) as why:
        raise UsageError(f"cannot read the script {file}: {reading_failure(why)}") from None
    if not text.strip():
        raise UsageError(f"the script {file} is empty: write the commands of the job into it")
    return JobScript(file=file, text=text, flags=_flags(text, file), interpreter=_interpreter(text, file))


def _flags(text: str, file: Path) -> tuple[str, ...]:
    """The words of the #BATCHQ lines. They end at the first line that is neither empty nor a comment."""
    words: list[str] = []
    others: dict[str, int] = {}  # by mark of another program: the number of the first line with it
    first_command: int | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if first_command is None and line.strip() and not line.startswith("#"):
            first_command = number
        has_mark = line.partition(" ")[0] == MARK
        if first_command is None and (other := _OTHER_MARK.match(line)) and other[0] != MARK:
            others.setdefault(other[0], number)
        if has_mark and first_command is None:
            words += _split(line.removeprefix(MARK), f"{file}, line {number}")
        elif has_mark:
            place = f"{file}, line {number}: this {MARK} line has no effect"
            print_notice(f"warning: {place}; move it above the first command, line {first_command}")
            break
    for mark, number in others.items():
        print_notice(f"warning: {file}, line {number}: lines with {mark} have no effect; flags of batchq follow {MARK}")
    return tuple(words)


def _split(flags: str, place: str) -> list[str]:
    try:
        words = shlex.split(flags, comments=True)
    except ValueError as why:
        raise UsageError(f"{place}: {why}") from None
    if "--" in words:
        raise UsageError(f"{place}: the script is the command; -- cannot be used in a {MARK} line")
    return words


def _interpreter(text: str, file: Path) -> tuple[str, ...]:
    shebang = _SHEBANG.match(text.partition("\n")[0])
    if shebang is None:
        return ("python3",) if file.suffix == ".py" else (DEFAULT_INTERPRETER,)
    program, arguments = shebang[1], (shebang[2] or "").split()
    if program.rpartition("/")[2] == _ENV and arguments and not arguments[0].startswith("-"):
        program, *arguments = arguments
    if not _INTERPRETERS.fullmatch(program.rpartition("/")[2]):
        raise UsageError(f"{file}: scripts of {program} cannot be submitted, only those of a shell or Python")
    return (program, *arguments)
