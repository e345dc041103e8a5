"""ListGroups: groups of jobs, each with the counts of its jobs."""

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from batchq.api.http.answers import answer_of
from batchq.api.http.http import Milliseconds, RequestBody, Word, Words
from batchq.api.native.job_selection import bare_name
from batchq.api.operations.operation_table import OperationTable
from batchq.api.operations.operations import Call
from batchq.api.operations.parts import Parts
from batchq.domain.access.accounts import Permission, Visibility
from batchq.domain.enums import Status
from batchq.domain.groups import Group
from batchq.domain.ids import GroupId, QueueName
from batchq.domain.times import EPOCH
from batchq.errors import Invalid
from batchq.ports.groups import GroupQuery
from batchq.ports.responses.groups import GroupRow, GroupsResponse

MAX_GROUPS = 1000

operations = OperationTable()


class ListGroupsRequest(RequestBody):
    """The groups to list. Filters that are given must all match."""

    #: Ids of groups.
    groups: Annotated[list[Word], Field(min_length=1, max_length=MAX_GROUPS)] | None = None
    #: The name, in any case.
    group_name: Word | None = None
    #: Names or ARNs of job queues: only groups of which one of the first 1,000 jobs is in one of them.
    job_queues: Words | None = None
    #: Only groups of the caller.
    mine: bool = False
    #: Only unfinished groups, and those that ended at this time or later.
    ended_after: Milliseconds | None = None
    max_results: Annotated[int, Field(ge=1, le=MAX_GROUPS)] = 100
    next_token: str | None = None


@operations.add("ListGroups", "POST", "/v1/batchq/listgroups", Permission.SELF)
async def list_groups(parts: Parts, call: Call[ListGroupsRequest]) -> GroupsResponse:
    """Lists groups of jobs with the counts of their jobs, newest first.

    A job names its group by the tag `batchq:group` of SubmitJob. Ids of groups that do not exist, or that the caller
    may not see, are left out.
    """
    body, caller = call.input, call.caller
    if body.groups is not None:
        found = await parts.search.groups([GroupId(text) for text in body.groups], caller=caller)
        return GroupsResponse(groups=tuple(map(group_answer, found.values())))
    queues = frozenset(QueueName(bare_name(text)) for text in body.job_queues or ())
    token = "ListGroups", caller.user, body.group_name or "", f"{body.ended_after} {body.mine} {sorted(queues)}"
    query = GroupQuery(
        name=body.group_name,
        since=None if body.ended_after is None else EPOCH + timedelta(milliseconds=body.ended_after),
        before=None if body.next_token is None else _position(parts.tokens.read(token, body.next_token)),
        queues=queues,
        limit=body.max_results + 1,
        visibility=Visibility(user=caller.user, accounts=frozenset()) if body.mine else caller.visibility,
    )
    page = await parts.search.newest_groups(query)
    shown, more = page[: body.max_results], len(page) > body.max_results
    return GroupsResponse(
        groups=tuple(map(group_answer, shown)),
        next_token=parts.tokens.make(token, str(shown[-1].sequence)) if more else None,
    )


def group_answer(group: Group) -> GroupRow:
    """A group in an answer."""
    counts = dict(group.counts)
    return answer_of(
        GroupRow,
        group,
        group_id=group.terms.id,
        group_name=group.terms.name,
        user=group.owner.user,
        account=group.owner.account,
        status_summary={status: counts.get(status, 0) for status in Status},
        not_created=group.uncreated,
        declared_size=group.terms.size,
        max_running=group.terms.max_running,
        max_failed=group.terms.max_failed,
        run_seconds=group.run_time.total_seconds(),
        measured_jobs=group.measured,
        cpu_seconds=group.cpu_seconds if group.measured else None,
        peak_memory_bytes=group.peak_memory,
    )


def _position(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise Invalid("'nextToken' is not valid.")
    return int(text)
