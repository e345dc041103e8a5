"""Many jobs stopped by one request: by ids and filters, as people of HPC sites know it.

`POST /v1/batchq/canceljobs` is CancelJob, and `/v1/batchq/terminatejobs` TerminateJob, of all jobs that meet ALL the
filters given; the values within one filter are alternatives. At least one filter must be there. Which jobs are meant
is decided once, in one transaction; what does not exist for the caller, or is over, does not hinder the others.

    {"jobs": ["<id>", "<array>:3", "<gang>#1", "<array or gang>.3"],   jobs, children of arrays, nodes of gangs
     "jobNames": ["sim*"],              any case; a trailing * is any rest; at most 100
     "users": ["ann"], "accounts": ["physics"],    an account with those below it
     "jobQueues": ["night"],            names or ARNs
     "states": ["pending"],             any case: PENDING is SUBMITTED, PENDING and RUNNABLE; RUNNING is STARTING and
                                        RUNNING; ALL; SUBMITTED, RUNNABLE, STARTING
     "computeEnvironments": ["node1"],  where they run now
     "reason": "...", "dryRun": true,
     "signal": "SIGINT", "graceSeconds": 5}        of terminatejobs: in place of SIGTERM, and of the job's own grace

The answer is 200, also where nothing matches. It is NDJSON, one JSON object a line: a line for each job as soon as it
is handled, and a last line with `counts`. An answer may be long and take seconds. An answer without the last line was
cut off, and the order is carried out all the same:

    {"jobId": "...", "jobName": "...", "status": "RUNNABLE", "outcome": "CANCELLED"}
    {"jobId": "...", "outcome": "NOT_FOUND", "message": "..."}
    {"counts": {"CANCELLED": 1, "NOT_FOUND": 1}, "dryRun": false}

Of one user's bulk stops two at a time are answered and the others wait; beyond 16 they are refused with 429.

`status` is that before the request; `message` is there where nothing was done, and says why; of an array it says what
becomes of its children, and of a job that is stopping already since when. Outcomes:
CANCELLED, TERMINATED: it had not started, and is FAILED. STOPPING: it is over when its containers, or its children,
are. NOT_RETRIED (of a cancel): it runs on, and has no other attempt. And where nothing was done: ALREADY_FINISHED, and
of what `jobs` names NOT_MATCHED (by another filter) and NOT_FOUND (or not the caller's to see, or a child that its
array has not spawned yet: then `message` reports that). A dry run tells the same of what would be done. What is
malformed (an id, a state, a signal) is refused with 400, and changes nothing; so is the name of a queue, a user or an
account that does not exist, or that the caller may not see.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import timedelta
from typing import Annotated

import msgspec
from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from batchq.api.authorization import asker
from batchq.api.http import REQUEST_ID, Dialect, parse, read
from batchq.api.openapi import OperationDoc as Described
from batchq.api.openapi import document
from batchq.domain.access.accounts import AccountName, Permission, UserName
from batchq.domain.bulk_stop import JobOutcome, Kind, Outcome, Selection, SweepOrder
from batchq.domain.job import ACTIVE, FINISHED, QUEUED, Status
from batchq.errors import Invalid
from batchq.services.bulk_stop import BulkStopRequest, BulkStopService
from batchq.throttling import ConcurrencyLimit

NDJSON = "application/x-ndjson"
CANCEL_JOBS = "/v1/batchq/canceljobs"
TERMINATE_JOBS = "/v1/batchq/terminatejobs"
MAX_STREAMED = 2  # answers that one user is sent at the same time
MAX_WAITING = 14  # bulk stops of one user that wait for that

MAX_PATTERNS = 100  # each is compared with the name of each job

ALL = "ALL"
SIGNALS = frozenset({"ABRT", "ALRM", "HUP", "INT", "KILL", "QUIT", "TERM", "USR1", "USR2", "WINCH"})
STATES = {Status.PENDING.value: QUEUED, Status.RUNNING.value: ACTIVE} | {
    it.value: frozenset({it}) for it in Status if it not in FINISHED | {Status.PENDING, Status.RUNNING}
}
WHY_NOT = {
    Outcome.ALREADY_FINISHED: "Job {id} is already {status}.",
    Outcome.NOT_MATCHED: "Job {id} does not match the other filters: it is {status}.",
    Outcome.NOT_FOUND: "Job {id} not found.",
}

_ENCODER = msgspec.json.Encoder()
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?:[:#.][0-9]{1,5})?")
_QUEUE = re.compile(r"arn:aws[a-z-]*:batch:[a-z0-9-]*:\d*:job-queue/(?P<name>[^/]+)")

Word = Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=256)]
Words = Annotated[list[Word], Field(min_length=1, max_length=1000)]


class CancelJobsRequest(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)

    jobs: Annotated[list[Word], Field(min_length=1, max_length=5000)] | None = None
    job_names: Annotated[list[Word], Field(min_length=1, max_length=MAX_PATTERNS)] | None = None
    users: Words | None = None
    accounts: Words | None = None
    job_queues: Words | None = None
    states: Words | None = None
    compute_environments: Words | None = None
    reason: Annotated[str, Field(pattern=r"^[^\x00]*$", min_length=1, max_length=1024)] | None = None
    dry_run: bool = False


class JobLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    job_id: str
    #: None, as `status` is, for a job that was not found.
    job_name: str | None = None
    #: Before the request.
    status: Status | None = None
    outcome: Outcome
    message: str = ""


class TerminateJobsRequest(CancelJobsRequest):
    signal: Annotated[str, Field(max_length=16)] | None = None
    grace_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None


def dialect(stopping: BulkStopService) -> Dialect:
    streams = ConcurrencyLimit[UserName](at_once=MAX_STREAMED, waiting=MAX_WAITING)

    def mount(app: web.Application) -> None:
        for path, shape, name in (
            (CANCEL_JOBS, CancelJobsRequest, "CancelJobsByFilter"),
            (TERMINATE_JOBS, TerminateJobsRequest, "TerminateJobsByFilter"),
        ):
            route = app.router.add_post(path, _stops(stopping, shape, name, streams))
            document(app, route, Described(name=name, body=shape, response_media=NDJSON))

    return mount


def _stops(
    stopping: BulkStopService, shape: type[CancelJobsRequest], name: str, streams: ConcurrencyLimit[UserName]
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def stop(request: web.Request) -> web.StreamResponse:
        caller = asker(request, Permission.OWN, name)
        it = parse(shape, await read(request))
        order, asked = order_of(it, str(caller.user)), asked_of(it)
        await stopping.check(asked, caller=caller)
        async with streams.of(caller.user):
            told = await (stopping.preview if it.dry_run else stopping.stop)(order, asked, caller=caller)
            return await _answer(request, told, dry_run=it.dry_run)

    stop.__name__ = name
    return stop


def order_of(it: CancelJobsRequest, user: str) -> SweepOrder:
    """Raises Invalid."""
    if not isinstance(it, TerminateJobsRequest):
        return SweepOrder(kind=Kind.CANCEL, reason=it.reason or f"Cancelled by {user or 'a request'}")
    return SweepOrder(
        kind=Kind.TERMINATE,
        reason=it.reason or f"Terminated by {user or 'a request'}",
        grace=None if it.grace_seconds is None else timedelta(seconds=it.grace_seconds),
        signal=None if it.signal is None else _signal(it.signal),
    )


def asked_of(it: CancelJobsRequest) -> BulkStopRequest:
    """Raises Invalid."""
    filters = (it.jobs, it.job_names, it.users, it.accounts, it.job_queues, it.states, it.compute_environments)
    if all(given is None for given in filters):
        raise Invalid("At least one filter is required: jobs, or one that says which.")
    for job_id in it.jobs or ():
        if _ID.fullmatch(job_id) is None:
            raise Invalid(f"{job_id[:100]!r} is not the id of a job, of a child of an array or of a node.")
    queues = None if it.job_queues is None else frozenset(_queue(said) for said in it.job_queues)
    rest = Selection(
        names=_set(it.job_names),
        users=_set(it.users),
        queues=queues,
        statuses=None if it.states is None else _statuses(it.states),
        environments=_set(it.compute_environments),
    )
    accounts = None if it.accounts is None else frozenset(map(AccountName, it.accounts))
    return BulkStopRequest(ids=None if it.jobs is None else tuple(it.jobs), accounts=accounts, rest=rest)


def _statuses(states: Iterable[str]) -> frozenset[Status] | None:
    """None is whatever is not over."""
    wanted = {said.upper() for said in states}
    unknown = sorted(wanted - STATES.keys() - {ALL})
    if unknown:
        raise Invalid(f"{unknown[0][:100]!r} is not a state to stop jobs in: {', '.join(sorted(STATES))} or ALL.")
    return None if ALL in wanted else frozenset(status for said in wanted for status in STATES[said])


def _signal(said: str) -> str:
    name = said.upper().removeprefix("SIG")
    if name not in SIGNALS:
        raise Invalid(f"{said!r} is not a signal to stop with: {', '.join(sorted(SIGNALS))}.")
    return f"SIG{name}"


def _queue(said: str) -> str:
    found = _QUEUE.fullmatch(said)
    return said if found is None else found["name"]


def _set(words: Iterable[str] | None) -> frozenset[str] | None:
    return None if words is None else frozenset(words)


async def _answer(
    request: web.Request, told: AsyncIterator[tuple[JobOutcome, ...]], *, dry_run: bool
) -> web.StreamResponse:
    """Send a line for each job as it is handled, and the last line. A cut answer is aborted, so that clients see it."""
    answer = web.StreamResponse(headers={"x-amzn-RequestId": request[REQUEST_ID], "Content-Type": NDJSON})
    counts: Counter[str] = Counter()
    is_whole = False
    try:
        await answer.prepare(request)
        async for some in told:
            counts.update(it.outcome.value for it in some)
            await answer.write(_ENCODER.encode_lines(map(_line, some)))
        await answer.write(_ENCODER.encode_lines([{"counts": counts, "dryRun": dry_run}]))
        await answer.write_eof()
        is_whole = True
    except ConnectionError:
        pass  # the client has gone, or was disconnected because it read too slowly; the order stands
    finally:
        if not is_whole and request.transport is not None:
            request.transport.abort()
    return answer


def _line(it: JobOutcome) -> JobLine:
    why_not = WHY_NOT.get(it.outcome, "").format(id=it.job_id, status=it.status)
    name = None if it.status is None else it.name
    return JobLine(job_id=it.job_id, job_name=name, status=it.status, outcome=it.outcome, message=it.note or why_not)
