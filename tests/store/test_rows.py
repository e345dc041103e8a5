"""Every stored value is read back unchanged, also by a later version."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.catalog import ComputeEnvironment, JobDefinition, JobQueue
from batchq.domain.enums import Status
from batchq.domain.ids import QueueName
from batchq.domain.job import (
    ArrayChild,
    ArrayState,
    Attempt,
    AttemptContainer,
    ConsumableRequirement,
    Job,
    JobSpec,
    RetryStrategy,
)
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.stop_values import SignalStep, StopOrder
from batchq.domain.task import ContainerDependency, NodeRange, Nodes, Task, TaskContainer
from batchq.ports.history import HistoryEntry
from batchq.ports.logs import LogStream
from batchq.store import rows
from tests.support.builders import job
from tests.support.examples import examples

FIRST, LAST = datetime(1970, 1, 2), datetime(9000, 1, 1)  # noqa: DTZ001 - hypothesis adds the zone
MOMENTS = st.datetimes(FIRST, LAST, timezones=st.just(UTC))
SPANS = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=400 * 365))
MAYBE_MOMENT, MAYBE_SPAN = st.none() | MOMENTS, st.none() | SPANS

PARTS = st.builds(
    AttemptContainer,
    start_requested_at=MAYBE_MOMENT,
    started_at=MAYBE_MOMENT,
    stopped_at=MAYBE_MOMENT,
    exit_code=st.none() | st.integers(),
    next_step_at=MAYBE_MOMENT,
    killed_at=MAYBE_MOMENT,
)
ATTEMPTS = st.builds(
    Attempt, started_at=MAYBE_MOMENT, stopped_at=MAYBE_MOMENT, containers=st.lists(PARTS, max_size=2).map(tuple)
)
STOPS = st.builds(
    StopOrder,
    ordered_at=MOMENTS,
    steps=st.lists(st.builds(SignalStep, wait=SPANS), max_size=2).map(tuple),
    signalled_at=MAYBE_MOMENT,
    killed_at=MAYBE_MOMENT,
)
CONTAINERS = st.builds(
    TaskContainer,
    essential=st.booleans(),
    depends_on=st.lists(st.builds(ContainerDependency), max_size=1).map(tuple),
    start_timeout=MAYBE_SPAN,
    stop_timeout=MAYBE_SPAN,
)
TASKS = st.builds(Task, containers=st.lists(CONTAINERS, min_size=1, max_size=2).map(tuple), share_ipc=st.booleans())
RANGES = st.builds(NodeRange, first=st.just(0), last=st.integers(0, 9), task=TASKS)
NODES = st.builds(Nodes, count=st.just(1), ranges=st.lists(RANGES, min_size=1, max_size=2).map(tuple))
SPECS = st.builds(
    JobSpec,
    timeout=MAYBE_SPAN,
    stop_grace=SPANS,
    retry=st.builds(RetryStrategy),
    nodes=NODES,
    array_size=st.none() | st.integers(2, 10_000),
    needs=st.lists(st.builds(ConsumableRequirement), max_size=2).map(tuple),
)
FAMILIES = st.builds(
    ArrayState,
    failed_index=st.none() | st.integers(0),
    counts=st.lists(st.tuples(st.sampled_from(Status), st.integers(0)), max_size=2).map(tuple),
    counted_at=MAYBE_MOMENT,
)
JOBS = st.builds(
    Job,
    spec=SPECS,
    created_at=MOMENTS,
    attempts=st.lists(ATTEMPTS, max_size=2).map(tuple),
    attempt=st.none() | ATTEMPTS,
    stop_orders=st.lists(STOPS, max_size=3).map(tuple),
    started_at=MAYBE_MOMENT,
    stopped_at=MAYBE_MOMENT,
    blocked_at=MAYBE_MOMENT,
    child=st.none() | st.builds(ArrayChild),
    array_state=st.none() | FAMILIES,
    version=st.integers(0),
).filter(lambda job: job.array_state is None or job.spec.array_size is not None)


#: On a busy machine large values are drawn slowly, which is not a fault of the product.
LAW = settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@LAW
@given(JOBS)
def test_every_job_is_read_as_written_with_its_new_version(given_job):
    state = rows.state_row(given_job, version=given_job.version + 1)["state"]

    assert rows.job(state, rows.spec_row(given_job)["spec"]) == replace(given_job, version=given_job.version + 1)


def _read_stream(stream):
    row = rows.stream_row(stream)
    return rows.log_stream_of_row(row["name"], row["value"])


def _read_share_usage(use):
    row = rows.share_usage_row(ShareKey(QueueName("q"), "s"), use)
    return rows.share_usage(row["queue"], row["share_identifier"], row["value"])[1]


#: The values of each kind, and the function that writes and reads one.
KINDS = {
    "history entry": (
        st.builds(HistoryEntry, at=MOMENTS),
        lambda other_job: rows.history_entry_of_row(other_job.job_id, rows.moment_value(other_job)),
    ),
    "log stream": (st.builds(LogStream, created_at=MOMENTS), _read_stream),
    "share usage": (st.builds(ShareUse, as_of=MOMENTS, used=st.floats(0, allow_infinity=False)), _read_share_usage),
    "job definition": (
        st.builds(JobDefinition, created_at=MOMENTS, timeout=MAYBE_SPAN),
        lambda value: rows.DEFINITION.decode(rows.definition_row(value)["value"]),
    ),
    "job queue": (
        st.builds(JobQueue, created_at=MOMENTS),
        lambda value: rows.RESOURCES[JobQueue].decode(rows.as_json(value)),
    ),
    "compute environment": (
        st.builds(ComputeEnvironment, created_at=MOMENTS),
        lambda value: rows.RESOURCES[ComputeEnvironment].decode(rows.as_json(value)),
    ),
}


@pytest.mark.parametrize(("values", "written_and_read"), KINDS.values(), ids=KINDS)
@LAW
@given(data=st.data())
def test_every_other_value_is_read_as_written(values, written_and_read, data):
    value = data.draw(values)

    assert written_and_read(value) == value


@given(st.text(alphabet=st.characters(), max_size=20))
def test_every_text_can_be_written(text):
    broken = job(status_reason=text, name=text, tags=((text, text),), share_identifier=text)
    row = rows.new_job_row(broken) | rows.spec_row(broken)

    read = rows.job(row["state"], row["spec"])

    assert {type(value) for value in row.values()} <= {str, int, type(None)}
    assert [row[name].encode() for name in ("name", "share_identifier", "state", "spec")]
    assert read.status_reason == text.encode(errors="replace").decode()


def test_members_with_their_default_are_omitted():
    given_job = job(number=1, name="n", depends_on=())

    plain = rows.new_job_row(given_job) | rows.spec_row(given_job)

    assert plain["state"] == (
        '{"id":"00000000-0000-4000-8000-000000000001","sequence":1,"created_at":"2026-11-21T12:00:00Z"}'
    )
    assert plain["spec"] == (
        '{"name":"n","queue":"default","definition":{"name":"a-definition","revision":1},'
        '"nodes":{"ranges":[{"task":{"containers":[{"spec":{"image":"batchq-test:latest",'
        '"resources":{"millicpus":1000,"memory_mib":128},"command":["true"]}}]}}]},"stop_grace":"PT30S"}'
    )
