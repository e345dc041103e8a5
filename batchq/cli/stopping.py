"""What `batchq cancel` and `batchq terminate` have in common: whom they mean, whom they ask, and how they end."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterator, Mapping
from inspect import cleandoc

from batchq.cli.answers import Answer
from batchq.cli.calling import add_url, call, stream, url_of
from batchq.cli.choosing import add_choice, chosen
from batchq.cli.complaint import AWAY, INTERRUPTED, MISUSED, REFUSED, complain
from batchq.cli.telling import DONE, AsJson, InLines, Teller, summary
from batchq.errors import Invalid, Unavailable

WHO_AM_I = "/v1/batchq/whoami"
PATIENCE = 120.0  # seconds to the first word, and from each to the next
AS_ASKED = {*DONE, "ALREADY_FINISHED", "NOT_MATCHED"}
STATUSES = """\
exit status:
  0    all is as asked; also when no job matches, or one that is named is over already
  1    a job that is named is not found, or not yours to stop; the others are stopped
  2    told wrong, or refused: nothing is changed
  3    no server answers, or it cannot now
  130  interrupted by Ctrl-C; what the server has taken goes on"""


def add_arguments(command: ArgumentParser) -> None:
    """Declare the flags that both commands have, and print the description and the exit statuses as they are."""
    command.formatter_class = RawDescriptionHelpFormatter
    command.description = cleandoc(command.description or "")
    command.epilog = STATUSES
    add_choice(command)
    command.add_argument("--reason", help="what their owners read in statusReason")
    command.add_argument("--dry-run", action="store_true", help="tell what would be done, and do nothing")
    command.add_argument("--json", action="store_true", help="print the whole answer as JSON")
    command.add_argument("-Q", "--quiet", action="store_true", help="print only of which jobs nothing was done")
    add_url(command)


def stop(asked: Namespace, path: str, **more: object) -> int:
    """Ask, tell of each job what becomes of it, and say by the status whether all is as asked."""
    answer = Answer(_ask(asked, path, more))
    counts: Counter[str] = Counter()
    try:
        _tell(answer, counts, AsJson() if asked.json else InLines(dry_run=asked.dry_run, quiet=asked.quiet))
    except Invalid as refused:
        return complain(str(refused), MISUSED)
    except Unavailable as away:
        return complain(f"{away}{_known(answer, counts, asked)}", AWAY)
    except KeyboardInterrupt:
        unknown = "" if answer.begun else "; whether the server has taken the order is not known"
        return complain(f"interrupted{unknown}{_known(answer, counts, asked)}", INTERRUPTED)
    return 0 if set(counts) <= AS_ASKED else REFUSED


def _ask(asked: Namespace, path: str, more: Mapping[str, object]) -> Iterator[bytes]:
    url = url_of(asked)
    if asked.me:
        asked.users = [*(asked.users or ()), [_name_at(url)]]
    content = {**chosen(asked), "dryRun": asked.dry_run, "reason": asked.reason, **more}
    said = {member: value for member, value in content.items() if value is not None}
    yield from stream(url, path, said, patience=PATIENCE)


def _name_at(url: str) -> str:
    """Who asks, as the server calls him."""
    user = call(url, WHO_AM_I, {}).get("user")
    if not isinstance(user, str) or not user:
        raise Unavailable(f"{url} does not say who you are")
    return user


def _tell(answer: Answer, counts: Counter[str], teller: Teller) -> None:
    for job in answer.jobs():
        counts[str(job.get("outcome"))] += 1
        teller.tell(job)
    teller.end(answer.rest, counts)


def _known(answer: Answer, counts: Counter[str], asked: Namespace) -> str:
    if not answer.begun or asked.dry_run:
        return ""
    return f"; until then: {summary(counts, DONE) if counts else 'nothing'}. What was ordered goes on without you"
