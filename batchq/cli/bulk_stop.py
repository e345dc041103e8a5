"""The part that `batchq cancel` and `batchq terminate` share: flags, request, output and exit status."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterator, Mapping
from inspect import cleandoc

from msgspec import Struct, field

from batchq.cli.http_client import add_url, call, stream, url_of
from batchq.cli.job_filters import add_choice, chosen
from batchq.cli.output import AWAY, INTERRUPTED, MISUSED, REFUSED, complain
from batchq.cli.stop_report import DONE, JsonReporter, Line, LineReporter, StopReporter, summary
from batchq.errors import Invalid, Unavailable

WHO_AM_I = "/v1/batchq/whoami"
PATIENCE = 120.0  # seconds until the first byte of the response, and between two of them
AS_ASKED = {*DONE, "ALREADY_FINISHED", "NOT_MATCHED"}
STATUSES = """\
exit status:
  0    all jobs are stopped; also if no job matches, or a given job has already finished
  1    a given job does not exist, or you may not stop it; the others are stopped
  2    invalid arguments, or the server refused the request; nothing is changed
  3    the server cannot be reached, or is unavailable
  130  interrupted by Ctrl-C; the server completes a request that it has accepted"""


def add_arguments(command: ArgumentParser) -> None:
    """Declare the flags that both commands have, and print the description and the exit statuses as they are."""
    command.formatter_class = RawDescriptionHelpFormatter
    command.description = cleandoc(command.description or "")
    command.epilog = STATUSES
    add_choice(command)
    command.add_argument("--reason", help="statusReason of the stopped jobs")
    command.add_argument("--dry-run", action="store_true", help="print what would be done, and change nothing")
    command.add_argument("--json", action="store_true", help="print the response as JSON")
    command.add_argument("-Q", "--quiet", action="store_true", help="print only jobs that were not stopped")
    add_url(command)


class Progress(Struct):
    """What is known of an order if its response is interrupted."""

    #: Whether the server has accepted the order, which is so when its response begins.
    is_ordered: bool = False
    #: Jobs reported so far, by outcome.
    counts: Counter[str] = field(default_factory=Counter)


def stop(asked: Namespace, path: str, **more: object) -> int:
    """Send the order, print the outcome of each job, and return the exit status."""
    progress = Progress()
    try:
        _stop(asked, path, more, progress)
    except Invalid as refused:
        return complain(str(refused), MISUSED)
    except Unavailable as away:
        return complain(f"{away}{_known(progress, asked)}", AWAY)
    except KeyboardInterrupt:
        unknown = "" if progress.is_ordered else "; it is unknown whether the server has accepted the request"
        return complain(f"interrupted{unknown}{_known(progress, asked)}", INTERRUPTED)
    return 0 if set(progress.counts) <= AS_ASKED else REFUSED


def _stop(asked: Namespace, path: str, more: Mapping[str, object], progress: Progress) -> None:
    url = url_of(asked)
    if asked.me:
        asked.users = [*(asked.users or ()), [_name_at(url)]]
    content = {**chosen(asked), "dryRun": asked.dry_run, "reason": asked.reason, **more}
    given = {member: value for member, value in content.items() if value is not None}
    teller = JsonReporter() if asked.json else LineReporter(dry_run=asked.dry_run, quiet=asked.quiet)
    with stream(url, path, given, patience=PATIENCE) as lines:
        progress.is_ordered = True
        _show(lines, teller, progress.counts)


def _show(lines: Iterator[Line], teller: StopReporter, counts: Counter[str]) -> None:
    """Print all lines. Raises Unavailable if the last line, which has `counts`, is missing."""
    for line in lines:
        if "counts" in line:
            teller.end(line, counts)
            return
        if "outcome" not in line:
            break
        counts[str(line["outcome"])] += 1
        teller.tell(line)
    raise Unavailable("the response is incomplete, or not from batchq")


def _name_at(url: str) -> str:
    """The name of the caller on the server. Raises Unavailable if its response has none."""
    user = call(url, WHO_AM_I, {}).get("user")
    if not isinstance(user, str) or not user:
        raise Unavailable(f"the response of {url} does not contain your user name")
    return user


def _known(progress: Progress, asked: Namespace) -> str:
    """The outcomes reported before the interruption, as the end of an error text; empty if nothing was ordered."""
    if not progress.is_ordered or asked.dry_run:
        return ""
    known = summary(progress.counts, DONE) if progress.counts else "nothing"
    return f"; before that: {known}. The server completes the request"
