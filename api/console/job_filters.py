"""The filters of jobs in the query of a page: the list of jobs and the pages that stop jobs have the same ones."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from batchq.api.http.http import InvalidMember, RequestQuery, Word
from batchq.domain.enums import Status
from batchq.domain.ids import GroupId, JobId
from batchq.domain.job_selection import MAX_PATTERNS, JobSelection
from batchq.domain.times import duration_of, milliseconds

Words = Annotated[tuple[Word, ...], Field(max_length=1000)]
Patterns = Annotated[tuple[Word, ...], Field(max_length=MAX_PATTERNS)]
GroupWord = Annotated[str, Field(pattern=r"^g-[0-9a-f]{20}$")]
ExitCode = Annotated[int, Field(ge=0, lt=2**32)]


class By(StrEnum):
    """The time by which jobs are sorted, and to which `from` and `to` apply."""

    CREATED = "created"
    ENDED = "ended"


class Stopped(StrEnum):
    """Which FAILED jobs are selected."""

    #: Those that were cancelled or terminated.
    YES = "yes"
    #: Those that failed by themselves.
    NO = "no"


class JobFilters(RequestQuery):
    """The values of one filter are alternatives; a job must match all filters. An unknown filter is refused."""

    #: Ids.
    job: Words = ()
    state: Annotated[tuple[Status, ...], Field(max_length=len(Status))] = ()
    stopped: Stopped | None = None
    queue: Words = ()
    #: Ids of groups.
    group: Annotated[tuple[GroupWord, ...], Field(max_length=MAX_PATTERNS)] = ()
    #: In any case: `name`, `prefix*`, `*suffix` or `*part*`.
    name: Patterns = ()
    user: Words = ()
    #: With the accounts below them.
    account: Words = ()
    #: `name`, `prefix*` or `name:revision`.
    definition: Patterns = ()
    #: Exit codes of the latest attempt.
    exit_code: Annotated[tuple[ExitCode, ...], Field(alias="exit", max_length=MAX_PATTERNS)] = ()
    #: Compute environments on which the jobs run now.
    environment: Words = ()
    #: A duration before now, as `24h`, or an ISO 8601 time, UTC without an offset.
    since: Annotated[Word | None, Field(alias="from")] = None
    #: As `from`.
    until: Annotated[Word | None, Field(alias="to")] = None
    by: By = By.CREATED

    def filters(self) -> list[tuple[str, str]]:
        """The filters that are given, as in the query; without `by`."""
        return [(name, str(item)) for name, member in _FILTERS for item in _values(getattr(self, member))]

    def narrowed_filters(self) -> list[tuple[str, str]]:
        """The filters without `from` and `to`."""
        return [each for each in self.filters() if each[0] not in {"from", "to"}]

    def selection(self, now: datetime) -> JobSelection:
        """The selected jobs. Raises InvalidMember."""
        since, until = milliseconds_at("from", self.since, now), milliseconds_at("to", self.until, now)
        ended = self.by is By.ENDED
        return JobSelection(
            ids=tuple(map(JobId, self.job)) or None,
            statuses=frozenset(self.state) or None,
            stopped=None if self.stopped is None else self.stopped is Stopped.YES,
            groups=frozenset(map(GroupId, self.group)) or None,
            queues=frozenset(self.queue) or None,
            names=frozenset(self.name) or None,
            users=frozenset(self.user) or None,
            accounts=frozenset(self.account) or None,
            definitions=frozenset(self.definition) or None,
            exit_codes=frozenset(self.exit_code) or None,
            environments=frozenset(self.environment) or None,
            created_after=None if ended else since,
            created_before=None if ended else until,
            ended_after=since if ended else None,
            ended_before=until if ended else None,
        )


#: The name of each filter in a query, and its member.
_FILTERS = [(info.alias or name, name) for name, info in JobFilters.model_fields.items() if name != "by"]


def milliseconds_at(member: str, text: str | None, now: datetime) -> int | None:
    """The time that is given as `24h` before now or in ISO 8601, in milliseconds since the epoch; None for None."""
    if text is None:
        return None
    try:
        length = duration_of(text)
        at = datetime.fromisoformat(text) if length is None else now - length
        return max(milliseconds(at if at.tzinfo else at.replace(tzinfo=UTC)), 0)
    except (ValueError, OverflowError):
        message = f"'{member}' is neither a duration, as 24h, nor a time, as 2026-11-23T14:02."
        raise InvalidMember(message, member=member) from None


def _values(value: object) -> tuple[object, ...]:
    if isinstance(value, tuple):
        return value
    return () if value is None else (value,)
