"""`batchq force-fail`: fails a job whose container does not end, as the last resort."""

import argparse
import re
from urllib.parse import quote

from batchq.cli.http_client import add_url, call, url_of
from batchq.cli.output import line
from batchq.errors import Invalid

_ID = re.compile(r"[0-9a-f:#-]{1,64}")
REASON = "its container does not end"


def add(command: argparse.ArgumentParser) -> None:
    """Fail a job at once and free its resources, whatever its container does. Terminate the job first, and wait."""
    command.set_defaults(run=run)
    command.add_argument("job", metavar="JOB", help="id of a job, or of a child of an array")
    command.add_argument("--reason", default=REASON, help=f"statusReason of the job ({REASON})")
    add_url(command)


def run(asked: argparse.Namespace) -> int:
    if not _ID.fullmatch(asked.job):
        raise Invalid(f"{asked.job!r} is not a job id")
    path = f"/v1/batchq/jobs/{quote(asked.job, safe='')}/forcefail"
    job = call(url_of(asked), path, {"reason": asked.reason})
    print(line(f"job {job.get('jobId')} is {job.get('status')}: {job.get('statusReason')}"))
    return 0
