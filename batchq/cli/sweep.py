"""`batchq submit --each`: one job for each line of a file.

Each request has an id that is made of the file's path, the number of the line and the line. A server recognizes it for
15 minutes, so the same command, repeated after an interruption, submits only the jobs that are missing.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from json import dumps
from pathlib import Path
from threading import Event

from msgspec import Struct
from msgspec.structs import replace

from batchq.cli.job_flags import Request
from batchq.cli.job_selection import STDIN
from batchq.cli.output import DONE, INTERRUPTED, INTERVAL, REFUSED, UNAVAILABLE, StatusLine, print_error, write_line
from batchq.cli.server_requests import fetch_described, fetch_server_time, send_submission
from batchq.errors import BatchqError, ServerUnavailable, UsageError

DEFAULT_REQUESTS = 4  # at the same time
PLACE = "{}"
RETRIES = 10
RETRY_INTERVAL = 1.0  # seconds, times the number of failures so far
REST = "the same command submits the rest within 15 minutes"


class SweepMember(Struct, frozen=True, kw_only=True):
    """The job of one line."""

    #: The number of the line, from 1.
    number: int
    #: The SubmitJob request.
    request: Request
    #: Identifies the request when it is repeated.
    invocation: str

    def with_members_of(self, resolved: Request) -> "SweepMember":
        """This job with the definition and the dependencies of the resolved request."""
        known = {text: resolved[text] for text in ("jobDefinition", "dependsOn") if text in resolved}
        return replace(self, request=self.request | known)


def read_lines(source: str) -> list[str]:
    """The lines of a file, or of stdin for `-`, without empty ones. Raises UsageError."""
    try:
        text = sys.stdin.read() if source == STDIN else Path(source).read_text()
    except (OSError, ValueError) as why:
        raise UsageError(f"cannot read {source}: {getattr(why, 'strerror', None) or why}") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise UsageError(f"{source} has no lines")
    return lines


def expand(request: Request, lines: Sequence[str], *, source: str, words: int) -> list[SweepMember]:
    """The jobs of the lines: `{}` in the command, and in the values of variables, is the line. Raises UsageError.

    `words`: how many words at the end of the command are the caller's; others, as a script, are left as they are.
    """
    overrides = request.get("containerOverrides", {})
    command: Sequence[str] = overrides.get("command", ())
    values = [item["value"] for item in overrides.get("environment", ())]
    if not any(PLACE in value for value in (*command[len(command) - words :], *values)):
        raise UsageError(
            f"--each needs {PLACE}, which stands for the line, in the command behind -- or in a value of -e"
        )
    place = STDIN if source == STDIN else str(Path(source).absolute())
    return [
        SweepMember(
            number=number,
            request=request
            | {"jobName": f"{request['jobName']}-{number}", "containerOverrides": _with_line(overrides, line, words)},
            invocation=sha256(dumps([place, number, line]).encode()).hexdigest(),
        )
        for number, line in enumerate(lines, start=1)
    ]


def _with_line(overrides: Request, line: str, words: int) -> Request:
    """The overrides with the line in place of `{}`."""
    filled = dict(overrides)
    if words:
        command = overrides["command"]
        filled["command"] = [*command[:-words], *(item.replace(PLACE, line) for item in command[-words:])]
    if "environment" in overrides:
        filled["environment"] = [
            item | {"value": item["value"].replace(PLACE, line)} for item in overrides["environment"]
        ]
    return filled


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
