"""What training jobs report: their checkpoints, and the last values of their metrics.

Metrics are in METRICS_FILE or in the log, or saved with the job's last attempt. Their regular expressions are
google-re2's, whose time is linear in the length of a line. Python's `re` would let one user stop the server with a
regular expression that backtracks. Still a line may take 0.1 s, and thousands of jobs may end at the same time, so one
log is searched at a time, in a thread. google-re2 lets other threads run meanwhile. The users take turns.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
from time import perf_counter
from typing import Protocol
from weakref import WeakValueDictionary

import re2
from msgspec import Struct
from msgspec.json import decode
from msgspec.structs import replace

from batchq.audit import Journal
from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.access.audit import DONE, record_of
from batchq.domain.enums import ACTIVE, CheckpointType, Status
from batchq.domain.ids import JobId, node_of
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle.container_rules import is_captured, leading_tag
from batchq.domain.times import from_microseconds
from batchq.domain.training import DEFAULT_RULES, MAX_NAME, MetricRule, MetricValue, metric_value
from batchq.engine.engine import Engine
from batchq.errors import Invalid, NotFound
from batchq.logs.service import CloudWatchLogs
from batchq.ports.checkpoints import Checkpoint, CheckpointStore
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.ports.logs import StoredLine
from batchq.system.throttling import ConcurrencyLimit

MAX_LINES = 20_000  # lines of a log that are searched, the last ones
MAX_LINE = 4096  # characters of a line that are searched; a longer line of METRICS_FILE is ignored
MAX_OBJECTS = 1000  # lines of METRICS_FILE that are read, the last ones
MAX_METRICS = 100  # metrics of METRICS_FILE
MAX_SECONDS = 0.5  # for one job; metrics that are not found until then are left out
MAX_WAITING = 15  # requests of one user that wait while another one of the same user is being read
MAX_ENDED = 1_000_000  # jobs of one user that have ended and wait; none is refused
MAX_MEMORY = 256 * 1024  # bytes for one compiled expression; it also bounds the time for a line, to 0.1 s
_CACHED = 256  # compiled expressions


class MetricsService:
    """Reads metrics. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, *, logs: CloudWatchLogs, checkpoints: CheckpointStore) -> None:
        self._logs = logs
        self._checkpoints = checkpoints
        self._requests = ConcurrencyLimit[UserName](at_once=1, waiting=MAX_WAITING)
        self._ends = ConcurrencyLimit[UserName](at_once=1, waiting=MAX_ENDED)
        #: Of all searches, first come, first served.
        self._one_at_a_time = asyncio.Lock()

    async def current(self, job: Job, *, caller: Caller) -> Mapping[str, MetricValue]:
        """The last values of the newest attempt, by name; empty for a job that has reported none or never ran.

        Raises NotFound, Throttled and StoreFailed.
        """
        if not caller.reaches(job.spec.owner):
            raise NotFound(f"Job {job.id} not found.")
        attempt = job.latest_attempt
        if attempt is None or attempt.started_at is None:
            return {}
        if attempt.metrics:
            return dict(attempt.metrics)
        async with self._requests.of(caller.user):
            tag = leading_tag(job, attempt.number)
            if is_captured(job, tag):
                await self._logs.copy(tag)
            return await self._stored(job, attempt)

    async def of_ended(self, job: Job, attempt: Attempt) -> Mapping[str, MetricValue]:
        """The last values of an attempt that has ended, by name. Raises StoreFailed."""
        async with self._ends.of(job.spec.owner.user):
            return await self._stored(job, attempt)

    async def _stored(self, job: Job, attempt: Attempt) -> Mapping[str, MetricValue]:
        """The last values in METRICS_FILE of the job or, without any, in the stored log of the attempt, by name."""
        if job.spec.checkpoints is not None:
            found = values_in_file(await self._checkpoints.metrics(job.id))
            if found:
                return found
        async with self._one_at_a_time:
            page = await self._logs.tail(leading_tag(job, attempt.number), limit=MAX_LINES)
            return await asyncio.to_thread(last_values, page.lines, job.spec.metric_rules)


def values_in_file(content: bytes) -> dict[str, MetricValue]:
    """The last value of each member that is a number, of the last MAX_OBJECTS lines, each a JSON object.

    Lines that are not JSON objects are ignored: the first may be cut, and the last may be incomplete.
    """
    found: dict[str, MetricValue] = {}
    for line in reversed(content.splitlines()[-MAX_OBJECTS:]):
        try:
            members = decode(line) if len(line) <= MAX_LINE else None
        except (ValueError, RecursionError):
            continue
        for name, member in members.items() if isinstance(members, dict) else ():
            is_number = isinstance(member, int | float) and not isinstance(member, bool)
            value = metric_value(member) if is_number and len(name) <= MAX_NAME else None
            if value is not None and name not in found and len(found) < MAX_METRICS:
                found[name] = value
    return found


def last_values(lines: Sequence[StoredLine], rules: Sequence[MetricRule]) -> dict[str, MetricValue]:
    """For each rule the value of its last match, by name; rules without a match are left out. Runs in a thread."""
    missing, found = patterns(rules), dict[str, MetricValue]()
    end = perf_counter() + MAX_SECONDS
    for line in reversed(lines):
        message = line.message[:MAX_LINE]
        for name, pattern in list(missing.items()):
            match = pattern.search(message)
            value = None if match is None else metric_value(match.group(1) or "", from_microseconds(line.at // 1000))
            if value is not None:
                found[name] = value
                del missing[name]
            if perf_counter() > end:
                return found
        if not missing:
            break
    return found


class RegexMatch(Protocol):
    """A match of google-re2, which has no types."""

    def group(self, number: int) -> str | None: ...


class MetricPattern(Protocol):
    """A compiled expression of google-re2."""

    groups: int

    def search(self, text: str) -> RegexMatch | None: ...


def patterns(rules: Sequence[MetricRule]) -> dict[str, MetricPattern]:
    """The compiled expressions by metric; those of DEFAULT_RULES without rules. Raises Invalid."""
    return {rule.name: _compiled(rule) for rule in rules or DEFAULT_RULES}


def _compiled(rule: MetricRule) -> MetricPattern:
    try:
        pattern = _compile(rule.regex)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args and isinstance(error.args[0], bytes) else str(error)
        raise Invalid(f"The regular expression of metric {rule.name} is not valid in RE2: {why}.") from None
    if pattern.groups != 1:
        raise Invalid(f"The regular expression of metric {rule.name} must have exactly one group, which is the value.")
    return pattern


@lru_cache(maxsize=_CACHED)
def _compile(regex: str) -> MetricPattern:
    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    compiled: MetricPattern = re2.compile(regex, options)
    return compiled


class CheckpointSummary(Struct, frozen=True, kw_only=True):
    """The checkpoints of a job as a whole."""

    count: int
    #: The size of all checkpoints.
    size_bytes: int
    #: The newest complete checkpoint; None: there is none.
    latest: Checkpoint | None


def summary_of(checkpoints: Sequence[Checkpoint]) -> CheckpointSummary:
    """The summary of the checkpoints of a job, oldest first."""
    return CheckpointSummary(
        count=len(checkpoints),
        size_bytes=sum(checkpoint.size_bytes for checkpoint in checkpoints),
        latest=next((checkpoint for checkpoint in reversed(checkpoints) if checkpoint.complete), None),
    )


class CheckpointService:
    """Requests about checkpoints. Jobs that are not visible to the caller are treated as missing.

    Checkpoints of jobs whose records were removed after the retention period are visible to operators and admins.
    """

    def __init__(
        self, *, engine: Engine, store: JobStore, checkpoints: CheckpointStore, journal: Journal, clock: Clock
    ) -> None:
        self._engine = engine
        self._store = store
        self._checkpoints = checkpoints
        self._journal = journal
        self._clock = clock
        #: By user: a user reads one directory at a time, so the threads remain free for others and for starts.
        self._reads: WeakValueDictionary[UserName, asyncio.Lock] = WeakValueDictionary()

    async def list(self, job_id: JobId, *, caller: Caller) -> tuple[Checkpoint, ...]:
        """The checkpoints of a job, oldest first, at most 1000; those of a node are those of its whole job.

        Raises NotFound and StoreFailed.
        """
        whole, _ = node_of(job_id)
        job = await self._visible(whole, job_id, caller)
        async with self._reads.setdefault(caller.user, asyncio.Lock()):
            found = await self._checkpoints.entries(whole, ended=job is None or job.status not in ACTIVE)
        final = {order.final_checkpoint for order in (() if job is None else job.stop_orders)}
        return tuple(
            replace(checkpoint, type=CheckpointType.FINAL) if checkpoint.name in final else checkpoint
            for checkpoint in found
        )

    async def outlive(self, job_id: JobId, *, caller: Caller) -> bool:
        """Whether the record of the job was removed, and its checkpoints exist and are visible to the caller.

        Raises StoreFailed.
        """
        return caller.reaches_all and not await self._store.jobs([job_id]) and await self._has_directory(job_id)

    async def get(self, job_id: JobId, checkpoint_id: str, *, caller: Caller) -> Checkpoint:
        """One checkpoint of a job. Raises NotFound and StoreFailed."""
        for checkpoint in await self.list(job_id, caller=caller):
            if checkpoint.id == checkpoint_id:
                return checkpoint
        raise NotFound(f"Checkpoint {checkpoint_id} of job {job_id} not found.")

    async def summary(self, job_id: JobId, *, caller: Caller) -> CheckpointSummary:
        """The number, the size and the newest of a job's checkpoints. Raises NotFound and StoreFailed."""
        return summary_of(await self.list(job_id, caller=caller))

    async def request(self, job_id: JobId, *, caller: Caller) -> None:
        """Request a checkpoint now: send the signal that the job declared to the containers of its main node.

        Raises NotFound; Invalid for a job that does not run, is being stopped or declared no signal; Unavailable if the
        container engine does not answer.
        """
        whole, node = node_of(job_id)
        if node is not None:
            raise Invalid(f"Job {job_id} is a node: name the whole job {whole}.")
        job = await self._visible(whole, job_id, caller)
        if job is None or job.status is not Status.RUNNING:
            raise Invalid(f"Job {job_id} is not RUNNING: a checkpoint cannot be requested.")
        if job.spec.checkpoints is None or job.spec.checkpoints.signal is None:
            raise Invalid(f"Job {job_id} declared no checkpoint signal: a checkpoint cannot be requested.")
        if job.stop is not None:
            raise Invalid(f"Job {job_id} is being stopped: a checkpoint cannot be requested.")
        await self._record(job_id, job, caller)
        await self._checkpoints.record_request(whole)
        await self._engine.signal(job, f"SIG{job.spec.checkpoints.signal}")

    async def delete(self, job_id: JobId, checkpoint_id: str, *, caller: Caller) -> None:
        """Delete a checkpoint. Raises NotFound and StoreFailed."""
        whole, _ = node_of(job_id)
        job = await self._visible(whole, job_id, caller)
        found = await self.get(job_id, checkpoint_id, caller=caller)
        await self._record(job_id, job, caller)
        await self._checkpoints.discard(whole, [found.name])

    async def _visible(self, whole: JobId, job_id: JobId, caller: Caller) -> Job | None:
        """The job; None if its record was removed and the caller may see its checkpoints.

        Raises NotFound and StoreFailed.
        """
        job = (await self._store.jobs([whole], visibility=caller.visibility)).get(whole)
        if job is not None:
            return job
        if caller.reaches_all and await self._has_directory(whole):
            return None
        raise NotFound(f"Job {job_id} not found.")

    async def _has_directory(self, job_id: JobId) -> bool:
        try:
            return await self._checkpoints.directory(job_id) is not None
        except Invalid:  # not an id of a job
            return False

    async def _record(self, job_id: JobId, job: Job | None, caller: Caller) -> None:
        """Add an audit record, before the change."""
        record = record_of(caller, at=self._clock.now(), resource=f"job/{job_id}", outcome=DONE)
        if job is not None:
            record = replace(record.about_job(job_id, job.spec.owner, job.status), outcome=DONE)
        await asyncio.to_thread(self._journal.append, record)
