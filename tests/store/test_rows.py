"""Every stored value is read back unchanged, also by a later version."""

from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.catalog import ComputeEnvironment, JobDefinition, JobQueue
from batchq.domain.container import ContainerSpec, Logging, Overrides, Resources
from batchq.domain.ids import DefinitionRef, QueueName
from batchq.domain.job import (
    Action,
    ArrayChild,
    ArrayState,
    Attempt,
    AttemptContainer,
    ConsumableRequirement,
    Dependency,
    ExitRule,
    Job,
    JobSpec,
    RetryStrategy,
    Status,
)
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.stop_orders import SignalStep, StopOrder
from batchq.domain.task import ContainerDependency, NodeRange, Nodes, Task, TaskContainer
from batchq.ports.history import HistoryEntry
from batchq.ports.logs import LogStream
from batchq.store import rows
from tests.support.builders import NOON, attempt, cancel, job, job_id, stop
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
    next_step_at=MAYBE_MOMENT,
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
    task=st.none() | TASKS,
    nodes=st.none() | NODES,
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


def all_of(values):
    """On a machine that has much else to do, large values are drawn slowly; that is no fault of theirs."""
    few = settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    return lambda test: few(given(values)(test))


@all_of(JOBS)
def test_every_job_survives_a_round_trip(given_job):
    read = rows.job(rows.state_row(given_job, version=given_job.version)["state"], rows.spec_row(given_job)["spec"])

    assert read == given_job


@all_of(JOBS)
def test_a_job_is_read_with_its_written_version(given_job):
    state = rows.state_row(given_job, version=given_job.version + 1)["state"]

    assert rows.job(state, rows.spec_row(given_job)["spec"]) == replace(given_job, version=given_job.version + 1)


@all_of(st.builds(HistoryEntry, at=MOMENTS))
def test_every_history_entry_survives_a_round_trip(moment):
    assert rows.history_entry_of_row(moment.job_id, rows.moment_value(moment)) == moment


@all_of(st.builds(LogStream, created_at=MOMENTS))
def test_every_log_stream_survives_a_round_trip(stream):
    row = rows.stream_row(stream)

    assert rows.log_stream_of_row(row["name"], row["value"]) == stream


@all_of(st.builds(ShareUse, as_of=MOMENTS, used=st.floats(0, allow_infinity=False)))
def test_every_share_usage_survives_a_round_trip(use):
    key = ShareKey(QueueName("q"), "s")
    row = rows.share_usage_row(key, use)

    assert rows.share_usage(row["queue"], row["share_identifier"], row["value"]) == (key, use)


@all_of(st.builds(JobDefinition, created_at=MOMENTS, timeout=MAYBE_SPAN))
def test_every_definition_survives_a_round_trip(definition):
    assert rows.DEFINITION.decode(rows.definition_row(definition)["value"]) == definition


@all_of(st.builds(JobQueue, created_at=MOMENTS))
def test_every_queue_survives_a_round_trip(queue):
    assert rows.RESOURCES[JobQueue].decode(rows.as_json(queue)) == queue


@all_of(st.builds(ComputeEnvironment, created_at=MOMENTS))
def test_every_environment_survives_a_round_trip(environment):
    assert rows.RESOURCES[ComputeEnvironment].decode(rows.as_json(environment)) == environment


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
        '{"id":"00000000-0000-4000-8000-000000000001","order":1,"created_at":"2026-11-21T12:00:00Z"}'
    )
    assert plain["spec"] == (
        '{"name":"n","queue":"default","definition":{"name":"a-definition","revision":1},'
        '"container":{"image":"batchq-test:latest","resources":{"millicpus":1000,"memory_mib":128},'
        '"command":["true"]},"stop_grace":"PT30S"}'
    )


def test_rows_of_the_first_version_are_readable():
    """A default that changes, or a member that is renamed, changes what is already on disk: then write a migration."""
    state = (
        '{"id":"00000000-0000-4000-8000-000000000001","order":1,"created_at":"2026-11-21T12:00:00.000001Z",'
        '"status":"RUNNING","status_reason":"r","attempts":[{"number":1,"environment":"local",'
        '"started_at":"2026-11-21T12:00:00Z","stopped_at":"2026-11-21T12:00:01Z","exit_code":1,"reason":"x",'
        '"status_reason":"y"}],"attempt":{"number":2,"environment":"local"},"stop_orders":[{"kind":"CANCEL",'
        '"reason":"c","user":"cora","ordered_at":"2026-11-21T12:00:00Z"},{"kind":"TERMINATE",'
        '"reason":"enough","ordered_at":"2026-11-21T12:00:00Z","steps":[{"wait":"PT30S"}]}],'
        '"tags":[["k","v"]],"version":7}'
    )
    spec = (
        '{"name":"n","queue":"q","definition":{"name":"d","revision":3},"container":{"image":"i","resources":'
        '{"millicpus":250,"memory_mib":64},"command":["a","b"],"environment":[["A","1"]]},'
        '"retry":{"attempts":2,"evaluate_on_exit":[{"action":"RETRY","on_exit_code":"1*"}]},"timeout":"PT1M",'
        '"depends_on":[{"job_id":"00000000-0000-4000-8000-000000000009"}],"stop_grace":"PT30S"}'
    )

    read = rows.job(state, spec)

    second = timedelta(seconds=1)
    assert read == Job(
        id=job_id(1),
        order=1,
        created_at=NOON + timedelta(microseconds=1),
        status=Status.RUNNING,
        status_reason="r",
        attempts=(attempt(started_at=NOON, stopped_at=NOON + second, exit_code=1, reason="x", status_reason="y"),),
        attempt=attempt(number=2),
        stop_orders=(cancel("c", user="cora"), stop()),
        unschedulable=False,
        started_at=None,
        stopped_at=None,
        tags=(("k", "v"),),
        version=7,
        spec=JobSpec(
            name="n",
            queue="q",
            definition=DefinitionRef(name="d", revision=3),
            container=ContainerSpec(
                image="i",
                resources=Resources(millicpus=250, memory_mib=64, gpus=0),
                command=("a", "b"),
                environment=(("A", "1"),),
                user=None,
                privileged=False,
                read_only_root=False,
                init=False,
                ulimits=(),
                devices=(),
                tmpfs=(),
                shared_memory_mib=None,
                max_swap_mib=None,
                swappiness=None,
                mounts=(),
                logging=Logging(driver=None, options=()),
                secrets=(),
                platform=None,
            ),
            overrides=Overrides(command=None, environment=(), millicpus=None, memory_mib=None, gpus=None),
            parameters=(),
            retry=RetryStrategy(
                attempts=2,
                evaluate_on_exit=(
                    ExitRule(action=Action.RETRY, on_status_reason=None, on_reason=None, on_exit_code="1*"),
                ),
            ),
            timeout=timedelta(minutes=1),
            depends_on=(Dependency(job_id=job_id(9), type=None),),
            scheduling_priority=None,
            share_identifier=None,
            propagate_tags=False,
            stop_grace=timedelta(seconds=30),
        ),
    )


def test_an_empty_retry_strategy_is_one_attempt():
    given_job = job(retry=RetryStrategy(attempts=1, evaluate_on_exit=()))

    row = rows.new_job_row(given_job) | rows.spec_row(given_job)

    assert '"retry":{}' in row["spec"]
    assert rows.job(row["state"], row["spec"]).spec.retry == RetryStrategy(attempts=1, evaluate_on_exit=())
