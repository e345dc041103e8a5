"""How requests of batchq's own API select jobs: one shape for listjobs, canceljobs and terminatejobs.

The members have AWS's words, in the plural: `jobQueues` for AWS's `jobQueue`, `jobStatuses` for `jobStatus`.
"""

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field

from batchq.api.http.http import Milliseconds, RequestBody, Word, Words
from batchq.domain.access.accounts import Caller
from batchq.domain.enums import Status
from batchq.domain.ids import GroupId, JobId
from batchq.domain.job_selection import MAX_PATTERNS, JobSelection
from batchq.errors import Invalid

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?::[0-9]{1,5})?")
_ID_PREFIX = re.compile(r"[0-9a-f-]{8,36}(?::[0-9]{0,5})?")
_ARN = re.compile(
    r"arn:aws[a-z-]*:batch:[a-z0-9-]*:\d*:(?:job-queue|job-definition|job|compute-environment)/(?P<name>[^/]+)"
)
#: Members of a selection that narrow it, and of which a request to stop jobs needs another one.
_NARROWING = {"created_after", "created_before", "children", "ungrouped", "stopped"}

ExitCode = Annotated[int, Field(ge=0, lt=2**32)]
Patterns = Annotated[list[Word], Field(min_length=1, max_length=MAX_PATTERNS)]


class SelectionBody(RequestBody):
    """Filters of jobs, of which all must match; the values of one filter are alternatives. None: not given."""

    #: Ids or ARNs of jobs and of children of arrays, `ARRAY:3`. Requests that stop jobs also accept nodes of gangs as
    #: `GANG#1`, `.3` for a child or a node, and containers of a task by name or index, as `JOB.sidecar`.
    jobs: Annotated[list[Word], Field(min_length=1, max_length=5000)] | None = None
    #: The first 8 or more characters of a job's id.
    id_prefix: Word | None = None
    #: The id of an array: its children match, without the array.
    parent_id: Word | None = None
    #: Ids of groups. A job that another job of its group has replaced does not match.
    groups: Words | None = None
    #: Only jobs of no group.
    ungrouped: bool = False
    #: Job names in any case: `name`, `prefix*`, `*suffix` or `*part*`.
    job_names: Patterns | None = None
    #: Names, `prefix*`, `name:revision` or ARNs of job definitions.
    job_definitions: Patterns | None = None
    #: Names or ARNs of job queues.
    job_queues: Words | None = None
    #: AWS's statuses, in any case.
    job_statuses: Words | None = None
    #: Names of the users that own the jobs. A name of no visible user stands for the only one that differs in case.
    users: Words | None = None
    #: Accounts that own the jobs, with all accounts below them.
    accounts: Words | None = None
    #: Only jobs of the caller.
    mine: bool = False
    share_identifiers: Words | None = None
    #: Names or ARNs of compute environments: only jobs that run on them now.
    compute_environments: Words | None = None
    #: Exit codes of the latest attempt.
    exit_codes: Annotated[list[ExitCode], Field(min_length=1, max_length=MAX_PATTERNS)] | None = None
    #: Milliseconds since the epoch, exclusive, as are the other times.
    created_after: Milliseconds | None = None
    created_before: Milliseconds | None = None
    #: With `endedAfter` or `endedBefore` only finished jobs match.
    ended_after: Milliseconds | None = None
    ended_before: Milliseconds | None = None
    #: Only queued jobs that are held or paused.
    held: bool = False
    #: True: only FAILED jobs that were cancelled or terminated. False: only those that failed by themselves.
    stopped: bool | None = None
    #: Whether children of arrays match for themselves; else an array is one job.
    children: bool = False

    def selection(self, caller: Caller) -> JobSelection:
        """The selected jobs; `ids` as they are given. Raises Invalid for a malformed id or status."""
        users = _set(self.users)
        if self.mine:
            users = frozenset({caller.user}) if users is None else users & {caller.user}
        if self.id_prefix is not None and _ID_PREFIX.fullmatch(self.id_prefix.lower()) is None:
            raise Invalid("'idPrefix' must have at least the first 8 characters of the id of a job.")
        return JobSelection(
            ids=None if self.jobs is None else tuple(JobId(bare_name(text)) for text in self.jobs),
            id_prefix=self.id_prefix and self.id_prefix.lower(),
            parent=None if self.parent_id is None else parse_job_id(self.parent_id),
            ungrouped=self.ungrouped,
            groups=None if self.groups is None else frozenset(map(GroupId, self.groups)),
            names=_set(self.job_names),
            definitions=_names(self.job_definitions),
            queues=_names(self.job_queues),
            statuses=None if self.job_statuses is None else frozenset(map(parse_status, self.job_statuses)),
            users=users,
            accounts=_set(self.accounts),
            shares=_set(self.share_identifiers),
            environments=_names(self.compute_environments),
            exit_codes=None if self.exit_codes is None else frozenset(self.exit_codes),
            created_after=self.created_after,
            created_before=self.created_before,
            ended_after=self.ended_after,
            ended_before=self.ended_before,
            held=self.held,
            stopped=self.stopped,
            children=self.children,
        )

    @property
    def selects_nothing(self) -> bool:
        """Whether no filter is given, apart from those that narrow another one."""
        filters = SelectionBody.model_fields.keys() - _NARROWING
        return not any(getattr(self, name) not in (None, False) for name in filters)


def parse_status(text: str) -> Status:
    """A status of AWS in any case. Raises Invalid."""
    if text.upper() not in set(Status):
        raise Invalid(f"{text[:100]!r} is not a status: use {', '.join(Status)}.")
    return Status(text.upper())


def parse_job_id(text: str) -> JobId:
    """The id of a job or child, or the one in its ARN. Raises Invalid."""
    job_id = bare_name(text).lower()
    if _ID.fullmatch(job_id) is None:
        raise Invalid(f"{text[:100]!r} is not the id of a job or of a child of an array.")
    return JobId(job_id)


def bare_name(text: str) -> str:
    """A name, or the name in an ARN."""
    found = _ARN.fullmatch(text)
    return text if found is None else found["name"]


def _names(words: Iterable[str] | None) -> frozenset[str] | None:
    return None if words is None else frozenset(map(bare_name, words))


def _set(words: Iterable[str] | None) -> frozenset[str] | None:
    return None if words is None else frozenset(words)
