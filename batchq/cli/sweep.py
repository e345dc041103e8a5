"""`batchq submit --each` and `--each-row`: one job for each line or row of a file, or each combination of values.

Each request has an id that is made of the file's path, the number of the job and its values. A server recognizes it for
15 minutes, so the same command, repeated after an interruption, submits only the jobs that are missing.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from math import prod
from pathlib import Path
from threading import Event

from batchq.cli.job_flags import reading_failure, without_mark
from batchq.cli.job_handles import STDIN
from batchq.cli.output import (
    DONE,
    INTERRUPTED,
    INTERVAL,
    REFUSED,
    UNAVAILABLE,
    StatusLine,
    print_error,
    print_notice,
    write_line,
)
from batchq.cli.server_requests import fetch_described, fetch_server_time, send_submission
from batchq.errors import BatchqError, ServerUnavailable, UsageError
from batchq.services.sweep_requests import LINE, MAX_MEMBERS, Axis, SweepMember, values_axis

DEFAULT_REQUESTS = 4  # at the same time
_NAME = re.compile(r"[A-Za-z_]\w{0,127}", re.ASCII)
_NAMED_VALUES = re.compile(r"[A-Za-z_]\w{0,127}=", re.ASCII)
_DASHED_RANGE = re.compile(r"([A-Za-z_]\w*=\d+)-(\d+)", re.ASCII)
_PLACEHOLDER = re.compile(r"\{[A-Za-z_]\w*\}", re.ASCII)
RETRIES = 10
RETRY_INTERVAL = 1.0  # seconds, times the number of failures so far
REST = "the same command submits the rest within 15 minutes"


def read_axes(each: Sequence[str], each_row: str | None) -> list[Axis]:
    """The axes of the flags: `FILE`, `-`, `NAME=a,b` or `NAME=1..5`, and the file of rows. Raises UsageError."""
    axes = [values_axis(text) if _NAMED_VALUES.match(text) else _line_axis(text) for text in each]
    axes += [] if each_row is None else [_row_axis(each_row)]
    for ends in filter(None, map(_DASHED_RANGE.fullmatch, each)):
        print_notice(f"warning: {ends[0]} is one value; a range is {ends[1]}..{ends[2]}")
    names = [name for axis in axes for name in axis.points[0]]
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise UsageError("one file of lines can be given" if repeated[0] == LINE else f"{repeated[0]!r} is given twice")
    if (jobs := prod(len(axis.points) for axis in axes)) > MAX_MEMBERS:
        raise UsageError(f"{jobs} jobs are too many; one command submits at most {MAX_MEMBERS}")
    return axes


def _line_axis(source: str) -> Axis:
    if _NAME.fullmatch(source) and not Path(source).exists():
        raise UsageError(f"there is no file {source}; values are given as {source}=0.1,0.01 or {source}=1..5")
    if "=" in source and source != STDIN and not Path(source).exists():
        name = source.partition("=")[0]
        raise UsageError(
            f"{source}: the name {name!r} must be letters, digits and underscores, and begin with no digit"
        )
    lines = [line for line in _read(source).split("\n") if line.strip()]
    if not lines:
        raise UsageError(f"{source} has no lines")
    return Axis(source=_place(source), points=tuple({LINE: line} for line in lines))


def _row_axis(source: str) -> Axis:
    head, *rows = _table(source) or [[]]
    if not rows:
        raise UsageError(f"{source} has no rows below its head")
    if invalid := [name for name in head if not _NAME.fullmatch(name)]:
        advice = "; separate the columns by commas" if re.search(r"[;\t]", invalid[0]) else ""
        raise UsageError(
            f"{source}: the column {invalid[0]!r} is not a name of letters, digits and underscores{advice}"
        )
    if repeated := [name for name, count in Counter(head).items() if count > 1]:
        raise UsageError(f"{source}: two columns have the name {repeated[0]!r}; rename one")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(head):
            raise UsageError(f"{source}: row {number} has not as many values as the head")
    return Axis(source=_place(source), points=tuple(dict(zip(head, row, strict=True)) for row in rows))


def _table(source: str) -> list[list[str]]:
    """The rows of a file of values that are separated by commas, without empty ones. Raises UsageError.

    Spreadsheets write an emptied row as a line of commas.
    """
    reader = csv.reader(StringIO(_read(source), newline=""), strict=True)
    try:
        return [row for row in reader if any(row)]
    except csv.Error as why:
        advice = 'a value with a comma or a quotation mark is written as "a, ""b"""'
        raise UsageError(f"{source}, line {reader.line_num}: {why}; {advice}") from None


def unknown_placeholder(words: Sequence[str], axes: Sequence[Axis]) -> str | None:
    """A warning of a command that has a `{word}` but none of the names of its values; None: there is none.

    Braces may also be part of the command, as in awk or JSON, so they are no error.
    """
    names = [name for axis in axes for name in axis.points[0] if name != LINE]
    text = " ".join(words)
    found = _PLACEHOLDER.search(text)
    if found is None or not names or any(name in text for name in names):
        return None
    return f"warning: the command has {found[0]}, which --each does not name; its names are {', '.join(names)}"


def _read(source: str) -> str:
    """The text of a file, or of stdin for `-`. Raises UsageError."""
    try:
        return without_mark(sys.stdin.read() if source == STDIN else Path(source).read_text())
    except (OSError, ValueError) as why:
        raise UsageError(f"cannot read {source}: {reading_failure(why)}") from None


def _place(source: str) -> str:
    return STDIN if source == STDIN else str(Path(source).absolute())


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
