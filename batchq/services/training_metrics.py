"""The metrics of a job: the last values in METRICS_FILE or in its log, or those saved with its last attempt.

The regular expressions are google-re2's, whose time is linear in the length of a line. Python's `re` would let one user
stop the server with a regular expression that backtracks.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from time import perf_counter
from typing import Protocol

import re2
from msgspec.json import decode

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle.container_rules import leading_tag, spec_of
from batchq.domain.times import from_microseconds
from batchq.domain.training_metrics import DEFAULT_RULES, MAX_NAME, MetricRule, MetricValue, metric_value
from batchq.errors import Invalid, NotFound
from batchq.logs.service import LogService
from batchq.ports.checkpoints import CheckpointStore
from batchq.ports.logs import StoredLine
from batchq.throttling import ConcurrencyLimit

MAX_LINES = 20_000  # lines of a log that are searched, the last ones
MAX_LINE = 4096  # characters of a line that are searched; a longer line of METRICS_FILE is ignored
MAX_OBJECTS = 1000  # lines of METRICS_FILE that are read, the last ones
MAX_METRICS = 100  # metrics of METRICS_FILE
SLICE_SECONDS = 0.01  # after which the event loop is yielded
MAX_SECONDS = 0.5  # of CPU for one job; metrics that are not found until then are left out
MAX_WAITING = 15  # requests of one user that wait while another one of the same user is being read


class MetricsService:
    """Reads metrics. Jobs that are not visible to the caller are treated as missing."""

    def __init__(self, *, logs: LogService, checkpoints: CheckpointStore) -> None:
        self._logs = logs
        self._checkpoints = checkpoints
        self._one_at_a_time = ConcurrencyLimit[UserName](at_once=1, waiting=MAX_WAITING)

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
        async with self._one_at_a_time.of(caller.user):
            tag = leading_tag(job, attempt.number)
            if spec_of(job, tag).logging.captured:
                await self._logs.copy(tag)
            return await self.stored(job, attempt)

    async def stored(self, job: Job, attempt: Attempt) -> Mapping[str, MetricValue]:
        """The last values in METRICS_FILE of the job or, without any, in the stored log of the attempt, by name.

        Raises StoreFailed.
        """
        if job.spec.checkpoints is not None:
            found = values_in_file(await self._checkpoints.metrics(job.id))
            if found:
                return found
        page = await self._logs.tail(leading_tag(job, attempt.number), limit=MAX_LINES)
        return await last_values(page.lines, job.spec.metric_rules)


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


async def last_values(lines: Sequence[StoredLine], rules: Sequence[MetricRule]) -> dict[str, MetricValue]:
    """For each rule the value of its last match, by name; rules without a match are left out."""
    missing, found = patterns(rules), dict[str, MetricValue]()
    began = slice_began = perf_counter()
    for line in reversed(lines):
        message = line.message[:MAX_LINE]
        for name, pattern in list(missing.items()):
            match = pattern.search(message)
            value = None if match is None else metric_value(match.group(1) or "", _time(line.at))
            if value is not None:
                found[name] = value
                del missing[name]
            now = perf_counter()
            if now - slice_began > SLICE_SECONDS:
                if now - began > MAX_SECONDS:
                    return found
                await asyncio.sleep(0)  # noqa: TID251 - yields the event loop, does not wait
                slice_began = perf_counter()
        if not missing:
            break
    return found


def _time(nanoseconds: int) -> datetime:
    return from_microseconds(nanoseconds // 1000)


MAX_MEMORY = 256 * 1024  # bytes for one compiled expression; it also bounds the time for a line, to 0.1 s
_CACHED = 256  # compiled expressions


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
