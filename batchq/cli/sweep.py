"""`batchq submit --each` and `--each-row`: one job for each line or row of a file, or each combination of values.

Each request has an id that is made of the file's path, the number of the job and its values. A server recognizes it for
15 minutes, so the same command, repeated after an interruption, submits only the jobs that are missing.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import product
from json import dumps
from math import prod
from pathlib import Path
from threading import Event

from msgspec import Struct
from msgspec.structs import replace

from batchq.cli.job_flags import Request
from batchq.cli.job_handles import STDIN
from batchq.cli.output import DONE, INTERRUPTED, INTERVAL, REFUSED, UNAVAILABLE, StatusLine, print_error, write_line
from batchq.cli.server_requests import fetch_described, fetch_server_time, send_submission
from batchq.errors import BatchqError, ServerUnavailable, UsageError

DEFAULT_REQUESTS = 4  # at the same time
PLACE = "{}"
LINE = "line"  # the parameter of a job that has the line of a file
MAX_MEMBERS = 100_000  # jobs of one command
_PLACE = re.compile(r"\{([A-Za-z_]\w*)?\}", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w{0,127}", re.ASCII)
_NAMED_VALUES = re.compile(r"[A-Za-z_]\w{0,127}=", re.ASCII)
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})", re.ASCII)
RETRIES = 10
RETRY_INTERVAL = 1.0  # seconds, times the number of failures so far
REST = "the same command submits the rest within 15 minutes"


class SweepMember(Struct, frozen=True, kw_only=True):
    """One job of a sweep."""

    #: From 1.
    number: int
    #: The SubmitJob request.
    request: Request
    #: Identifies the request when it is repeated.
    invocation: str

    def with_members_of(self, resolved: Request) -> "SweepMember":
        """This job with the definition, the dependencies and the tags of the resolved request."""
        known = {text: resolved[text] for text in ("jobDefinition", "dependsOn", "tags") if text in resolved}
        return replace(self, request=self.request | known)


class Axis(Struct, frozen=True, kw_only=True):
    """One `--each` or `--each-row`: a job is submitted for each of its points."""

    #: What identifies the axis in repeated commands: the path of a file, or the text of the flag.
    source: str
    #: The values of each point by name. The name LINE is that of a line.
    points: tuple[Mapping[str, str], ...]


def read_axes(each: Sequence[str], each_row: str | None) -> list[Axis]:
    """The axes of the flags: `FILE`, `-`, `NAME=a,b` or `NAME=1..5`, and the file of rows. Raises UsageError."""
    axes = [_values(text) if _NAMED_VALUES.match(text) else _line_axis(text) for text in each]
    axes += [] if each_row is None else [_row_axis(each_row)]
    names = [name for axis in axes for name in axis.points[0]]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise UsageError("one file of lines can be given" if repeated[0] == LINE else f"{repeated[0]!r} is given twice")
    if (jobs := prod(len(axis.points) for axis in axes)) > MAX_MEMBERS:
        raise UsageError(f"{jobs} jobs are too many; one command submits at most {MAX_MEMBERS}")
    return axes


def _line_axis(source: str) -> Axis:
    lines = [line for line in _read(source).splitlines() if line.strip()]
    if not lines:
        raise UsageError(f"{source} has no lines")
    return Axis(source=_place(source), points=tuple({LINE: line} for line in lines))


def _row_axis(source: str) -> Axis:
    found = list(csv.DictReader(_read(source).splitlines(), strict=True))
    if not found:
        raise UsageError(f"{source} has no rows below its head")
    for number, row in enumerate(found, start=2):
        if None in row or None in row.values():
            raise UsageError(f"{source}: row {number} has not as many values as the head")
    if invalid := [name for name in found[0] if not _NAME.fullmatch(name)]:
        raise UsageError(f"{source}: the column {invalid[0]!r} is not a name of letters, digits and underscores")
    return Axis(source=_place(source), points=tuple(found))


def _values(text: str) -> Axis:
    name, _, listed = text.partition("=")
    values = [value for part in listed.split(",") for value in _range(part)]
    if not all(values):
        raise UsageError(f"--each {text}: a value is empty")
    return Axis(source=text, points=tuple({name: value} for value in values))


def _range(text: str) -> Sequence[str]:
    """The numbers of `1..5`; any other text is one value."""
    ends = _RANGE.fullmatch(text)
    if ends is None:
        return [text]
    first, last = int(ends[1]), int(ends[2])
    if not 0 <= last - first < MAX_MEMBERS:
        raise UsageError(f"{text} is not a range of 1 to {MAX_MEMBERS} numbers")
    return [str(number) for number in range(first, last + 1)]


def _read(source: str) -> str:
    """The text of a file, or of stdin for `-`. Raises UsageError."""
    try:
        return sys.stdin.read() if source == STDIN else Path(source).read_text()
    except (OSError, ValueError) as why:
        raise UsageError(f"cannot read {source}: {getattr(why, 'strerror', None) or why}") from None


def _place(source: str) -> str:
    return STDIN if source == STDIN else str(Path(source).absolute())


def expand(request: Request, axes: Sequence[Axis], *, words: int) -> list[SweepMember]:
    """A job for each combination of points. Raises UsageError.

    `{}` is the line, and `{NAME}` a value, in the command and in the values of variables. Each value is also one of
    AWS's parameters, and a variable of the job, unless `-e` sets one of this name. `words`: how many words at the end
    of the command are the caller's; others, as a script, are left as they are.
    """
    overrides = request.get("containerOverrides", {})
    command: Sequence[str] = overrides.get("command", ())
    values = [item["value"] for item in overrides.get("environment", ())]
    has_lines = any(LINE in axis.points[0] for axis in axes)
    if has_lines and not any(PLACE in value for value in (*command[len(command) - words :], *values)):
        raise UsageError(
            f"--each needs {PLACE}, which stands for the line, in the command behind -- or in a value of -e"
        )
    sources = [axis.source for axis in axes]
    combinations = [
        {name: text for point in points for name, text in point.items()} for points in product(*_points(axes))
    ]
    return [
        SweepMember(
            number=number,
            request=request
            | {"jobName": f"{request['jobName']}-{number}", "containerOverrides": _filled(overrides, found, words)}
            | {"parameters": found},
            invocation=sha256(dumps([sources, number, found]).encode()).hexdigest(),
        )
        for number, found in enumerate(combinations, start=1)
    ]


def _points(axes: Sequence[Axis]) -> list[tuple[Mapping[str, str], ...]]:
    return [axis.points for axis in axes]


def _filled(overrides: Request, values: Mapping[str, str], words: int) -> Request:
    """The overrides with the values in their places, and as variables."""

    def fill(text: str) -> str:
        return _PLACE.sub(lambda place: values.get(place[1] or LINE, place[0]), text)

    filled = dict(overrides)
    if words:
        command = overrides["command"]
        filled["command"] = [*command[:-words], *map(fill, command[-words:])]
    given = [item | {"value": fill(item["value"])} for item in overrides.get("environment", ())]
    names = {item["name"] for item in given}
    own = [{"name": name, "value": text} for name, text in values.items() if name != LINE and name not in names]
    return filled | ({"environment": [*given, *own]} if given or own else {})


def submit_sweep(
    url: str, members: Sequence[SweepMember], *, at_once: int, advice: str = REST, strict: bool = False
) -> int:
    """Submit the jobs, print their ids in this order, and return the exit status.

    `at_once`: requests at the same time. `advice`: the end of the message if not all jobs are submitted. `strict`: as
    in `send_submission`. A warning that several jobs have is printed once.
    """
    began, line, ids, warnings = fetch_server_time(url), StatusLine(delay=INTERVAL), list[str](), set[str]()
    pool, stopped = ThreadPoolExecutor(at_once), Event()
    try:
        for each in [pool.submit(_submit, url, member, stopped, strict=strict) for member in members]:
            job_id, warning = each.result()
            ids.append(job_id)
            if warning and warning not in warnings:
                line.notice(f"warning: {warning}")
                warnings.add(warning)
            line.show(f"{len(ids)} of {len(members)} submitted")
            write_line(ids[-1])
        line.clear()
        _report(line, url, ids, began=began)
    except KeyboardInterrupt:
        line.clear()
        return print_error(f"interrupted: {len(ids)} of {len(members)} submitted; {advice}", INTERRUPTED)
    except BatchqError as failure:
        line.clear()
        status = UNAVAILABLE if isinstance(failure, ServerUnavailable) else REFUSED
        return print_error(f"{failure}; {len(ids)} of {len(members)} submitted; {advice}", status)
    finally:
        stopped.set()
        pool.shutdown(cancel_futures=True)
    return DONE


def _submit(url: str, member: SweepMember, stopped: Event, *, strict: bool) -> tuple[str, str]:
    """Submit a job. An unavailable server, or a rate limit, is tried again RETRIES times, unless `stopped` is set."""
    for failures in range(1, RETRIES + 1):
        try:
            return send_submission(url, member.request, invocation=member.invocation, strict=strict)
        except ServerUnavailable:
            if stopped.wait(RETRY_INTERVAL * failures):
                raise
    return send_submission(url, member.request, invocation=member.invocation, strict=strict)


def _report(line: StatusLine, url: str, ids: Sequence[str], *, began: int) -> None:
    """Print how many jobs are new: the server has recognized the others as repeated requests."""
    earlier = sum(job.created_at < began for job in fetch_described(url, ids))
    if earlier:
        again = "; another --name submits them again" if earlier == len(ids) else ""
        line.notice(f"{len(ids) - earlier} submitted; {earlier} were submitted before, by the same command{again}")
    else:
        line.notice(f"{len(ids)} submitted")
