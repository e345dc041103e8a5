"""Metrics that are counted as they happen: of jobs, attempts, the container engine and HTTP requests."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Generic, TypeVar

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram

from batchq.api.http.dialect_profiles import TARGET
from batchq.api.operations.operations import Operation
from batchq.domain import status_reasons
from batchq.domain.enums import FINISHED, Status, StopKind
from batchq.domain.job import Attempt, Job
from batchq.domain.scheduling.fairshare import Change
from batchq.domain.use import Use
from batchq.ports.jobs import StatusChanged

Metric = TypeVar("Metric", Counter, Histogram)

MAX_NAMES = 100  # values of one label

OTHER = "other"  # the label of all further names


class BoundedNames:
    """Maps the names of queues, environments, accounts, resources or machines to label values.

    The first MAX_NAMES names are mapped to themselves. A name keeps its label until it no longer exists.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()

    def label(self, name: str) -> str:
        """The label value of a name."""
        if name not in self._names:
            if len(self._names) >= MAX_NAMES:
                return OTHER
            self._names.add(name)
        return name

    def remove_missing(self, existing: Collection[str]) -> Collection[str]:
        """Release the names that do not exist any more, and return them."""
        missing = self._names.difference(existing)
        self._names -= missing
        return missing


class Children(dict[tuple[str, ...], Metric], Generic[Metric]):
    """The children of a metric by the values of its labels. A look-up is faster than `Metric.labels`."""

    def __init__(self, metric: Metric) -> None:
        self._metric: Metric = metric

    def __missing__(self, values: tuple[str, ...]) -> Metric:
        self[values] = child = self._metric.labels(*values)
        return child

    def remove(self, label: str, value: str) -> None:
        """Remove all children with this value of a label."""
        self.clear()
        self._metric.remove_by_labels({label: value})


WAIT_BUCKETS = (0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400)
START_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
RUN_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 14400, 86400, 604800)
FAST_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
RATIO_BUCKETS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)
MIB = 2**20
MESSAGE_BUCKETS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)


class EngineMetrics:
    """Implements Observer. Counters begin at 0 with each start of the server, as is usual with Prometheus."""

    def __init__(self, registry: CollectorRegistry, names: Mapping[str, BoundedNames]) -> None:
        """`names`: the bounded names of the labels `queue` and `environment`."""
        self._queues, self._environments = names["queue"], names["environment"]
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        start, fast = partial(histogram, buckets=START_BUCKETS), partial(histogram, buckets=FAST_BUCKETS)
        wait, run = partial(histogram, buckets=WAIT_BUCKETS), partial(histogram, buckets=RUN_BUCKETS)
        queue, outcome = ("queue",), ("queue", "outcome")
        self._submitted = Children(
            counter("batchq_jobs_submitted_total", "Jobs, and array children, that were created.", queue)
        )
        self._finished = Children(counter("batchq_jobs_finished_total", "Jobs that ended.", outcome))
        self._attempts = Children(counter("batchq_attempts_total", "Attempts that ended.", outcome))
        self._wait = Children(wait("batchq_job_wait_seconds", "From RUNNABLE to STARTING.", queue))
        self._run = Children(run("batchq_attempt_run_seconds", "How long attempts ran.", outcome))
        self._start = Children(start("batchq_attempt_start_seconds", "From STARTING to RUNNING.", ("environment",)))
        self._signal = start("batchq_stop_signal_seconds", "From the order to stop to the stop signal.")
        self._stop = Children(
            start("batchq_stop_seconds", "From the order to stop to the end of the attempt.", ("how",))
        )
        self._cpu = Children(
            counter("batchq_attempt_cpu_seconds_total", "CPU time of ended attempts that were measured.", queue)
        )
        self._memory = Children(
            histogram(
                "batchq_attempt_memory_used_ratio",
                "Working set by requested memory of ended attempts that were measured.",
                queue,
                buckets=RATIO_BUCKETS,
            )
        )
        self._calls = Children(
            counter("batchq_engine_calls_total", "Calls of the container engine.", ("call", "outcome"))
        )
        self._call = Children(start("batchq_engine_call_seconds", "Calls of the container engine.", ("call",)))
        self._unit = fast("batchq_unit_of_work_seconds", "Duration of the scheduler's units of work.")
        self._messages = histogram(
            "batchq_unit_of_work_messages", "Messages that a unit of work handled.", buckets=MESSAGE_BUCKETS
        )
        self._commit = fast("batchq_commit_seconds", "Duration of commits of the store.")

    def jobs_changed(self, changes: Collection[Change], transitions: Sequence[StatusChanged], now: datetime) -> None:
        for earlier_status, job in transitions:
            if job.spec.array_size is not None and job.child is None:
                continue
            if earlier_status is None:
                self._submitted[self._queues.label(job.spec.queue),].inc()
            if job.status in FINISHED:
                self._finished[self._queues.label(job.spec.queue), job_outcome(job)].inc()
        for before, after in changes:
            if before is None or before.attempt is not after.attempt or before.stop_orders is not after.stop_orders:
                self._observe_attempt(before, after, now)

    def unit_of_work(self, *, messages: int, seconds: float) -> None:
        self._unit.observe(seconds)
        self._messages.observe(messages)

    def commit(self, seconds: float) -> None:
        self._commit.observe(seconds)

    def engine_call(self, call: str, *, seconds: float, outcome: str) -> None:
        self._calls[call, outcome].inc()
        self._call[call,].observe(seconds)

    def remove(self, queues: Sequence[str], environments: Sequence[str]) -> None:
        """Remove the series of deleted queues and environments."""
        for queue in queues:
            for metric in (self._submitted, self._finished, self._attempts, self._wait, self._run):
                metric.remove("queue", queue)
            for used in (self._cpu, self._memory):
                used.remove("queue", queue)
        for environment in environments:
            self._start.remove("environment", environment)

    def _observe_attempt(self, before: Job | None, after: Job, now: datetime) -> None:
        attempt, begun = after.attempt, None if before is None else before.attempt
        if attempt is not None and begun is None and attempt.placed_at is not None and after.runnable_at is not None:
            self._wait[self._queues.label(after.spec.queue),].observe(_seconds(after.runnable_at, attempt.placed_at))
        if before is None:
            return
        if attempt is not None and begun is not None and begun.started_at is None and attempt.started_at is not None:
            self._observe_start(attempt, now)
        if before.stop_orders is not after.stop_orders:
            ordered, order = before.stop, after.stop
            if ordered is not None and order is not None and ordered.signalled_at is None is not order.signalled_at:
                self._signal.observe(_seconds(order.ordered_at, now))
        for ended in after.attempts[len(before.attempts) :]:
            if begun is not None and begun.started_at is None and ended.started_at is not None:
                self._observe_start(ended, ended.started_at)
            self._observe_end(self._queues.label(after.spec.queue), after, ended, now)

    def _observe_start(self, attempt: Attempt, at: datetime) -> None:
        if attempt.placed_at is not None:
            environment = self._environments.label(attempt.environment)
            self._start[environment,].observe(_seconds(attempt.placed_at, at))

    def _observe_end(self, queue: str, job: Job, ended: Attempt, now: datetime) -> None:
        outcome = attempt_outcome(job, ended)
        self._attempts[queue, outcome].inc()
        if ended.started_at is not None and ended.stopped_at is not None and not ended.paused:
            result = "succeeded" if outcome == "succeeded" else "failed"
            self._run[queue, result].observe(_seconds(ended.started_at, ended.stopped_at))
        if ended.use is not None:
            self._observe_use(queue, job, ended.use)
        if job.stop is not None:
            how = "signal" if job.stop.killed_at is None else "kill"
            self._stop[how,].observe(_seconds(job.stop.ordered_at, now))

    def _observe_use(self, queue: str, job: Job, use: Use) -> None:
        if use.cpu_seconds is not None:
            self._cpu[queue,].inc(use.cpu_seconds)
        if use.working_set is not None:
            self._memory[queue,].observe(use.working_set / (job.spec.resources.memory_mib * MIB))


def job_outcome(job: Job) -> str:
    """The label `outcome` of a finished job."""
    if job.status is Status.SUCCEEDED:
        return "succeeded"
    if job.stop is not None:
        return "terminated" if job.stop.kind is StopKind.TERMINATE else "timed_out"
    if job.is_cancelled:
        return "cancelled"
    return "dependency" if _begins(job.status_reason, status_reasons.DEPENDENCY_FAILED) else "failed"


def attempt_outcome(job: Job, ended: Attempt) -> str:
    """The label `outcome` of an attempt of the job that has just ended."""
    outcomes: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("stopped", lambda: job.stop is not None and job.stop.kind is StopKind.TERMINATE),
        ("paused", lambda: ended.paused),
        ("timed_out", lambda: job.stop is not None),
        ("succeeded", lambda: ended.exit_code == 0 and ended.reason is None),
        ("memory", lambda: _begins(ended.reason, status_reasons.OUT_OF_MEMORY)),
        ("host", lambda: ended.status_reason == status_reasons.HOST_TERMINATED),
        ("lost", lambda: ended.status_reason == status_reasons.DISAPPEARED),
        ("not_started", lambda: ended.started_at is None),
    )
    return next((outcome for outcome, applies in outcomes if applies()), "exit")


def _begins(text: str | None, beginning: str) -> bool:
    return text is not None and text.startswith(beginning)


def _seconds(since: datetime, until: datetime) -> float:
    """Never negative: the container engine's clock may differ a little."""
    return max(0.0, (until - since).total_seconds())


BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)

#: The label of requests without an operation: unknown paths, and headers that are refused before the router.
NO_OPERATION = "none"


class RequestMetrics:
    """Counts requests. The operations are those of the API's description, so labels are bounded."""

    def __init__(self, registry: CollectorRegistry) -> None:
        requests = Counter(
            "batchq_http_requests_total",
            "Requests, by operation and class of the status code.",
            ("operation", "class"),
            registry=registry,
        )
        seconds = Histogram(
            "batchq_http_request_seconds",
            "Duration of requests until the response's headers.",
            ("operation",),
            buckets=BUCKETS,
            registry=registry,
        )
        self._requests, self._seconds = Children(requests), Children(seconds)
        #: The operations by method and path.
        self._operations: Mapping[tuple[str, str], tuple[Operation, ...]] = {}

    def describe(self, operations: Mapping[tuple[str, str], tuple[Operation, ...]]) -> None:
        """Set the operations of the API, by method and path."""
        self._operations = operations

    def observe(self, request: web.Request, status: int, seconds: float) -> None:
        """Count one request."""
        operation = self._operation(request)
        self._requests[operation, status_class(status)].inc()
        self._seconds[operation,].observe(seconds)

    def _operation(self, request: web.Request) -> str:
        method = "GET" if request.method == "HEAD" else request.method
        found = self._operations.get((method, request.path))
        if found is None:
            resource = request.match_info.route.resource
            found = () if resource is None else self._operations.get((method, resource.canonical), ())
        if len(found) > 1:
            target = request.headers.get(TARGET, "")
            found = tuple(operation for operation in found if operation.target == target)
        return found[0].name if found else NO_OPERATION


def status_class(status: int) -> str:
    """The label `class`: `429` for responses at a rate limit, else the first digit, as `4xx`."""
    return "429" if status == HTTPStatus.TOO_MANY_REQUESTS else f"{status // 100}xx"
