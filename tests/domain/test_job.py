"""Ids, tags, task ids and log streams of jobs."""

from datetime import timedelta
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.enums import Status, StopKind
from batchq.domain.ids import JobId, Tag, child_id, node_id, node_of, parent_of, stream_name
from batchq.domain.job import Attempt, AttemptContainer, Job
from batchq.domain.lifecycle.reconcile import container_tags
from batchq.domain.lifecycle.status import MAX_MOVES, recent_moves
from batchq.domain.stop_values import StopOrder
from tests.domain.lives import runnable, running
from tests.support.builders import NOON, attempt, job, job_id, spec

TASKS = UUID("5f1c9d0e-3c53-4b7a-9a53-0b9c1f6b2f5e")
ID = job_id(1)
FIRST = Tag(job_id=ID, attempt=1)


@pytest.mark.parametrize(
    ("of", "part", "expected"),
    [
        (ID, "", ID),
        (ID, "0/sidecar", ID),
        (ID, "3/default", f"{ID}#3"),
        (child_id(ID, 7), "", f"{ID}_7"),
        (child_id(ID, 7), "0/sidecar", f"{ID}_7"),
    ],
)
def test_the_task_id_of_a_first_attempt_is_the_jobs_own_without_colons(of, part, expected):
    assert Tag(job_id=of, attempt=1, container_key=part).task_id == expected


@given(number=st.integers(0, 10**6), container_key=st.sampled_from(["", "0/default", "3/sidecar"]))
def test_the_task_id_of_a_later_attempt_is_a_uuid_of_its_own(number, container_key):
    tag = Tag(job_id=job_id(number), attempt=2, container_key=container_key)

    assert tag.log_id == uuid5(TASKS, str(tag)).hex
    assert tag.task_id == uuid5(TASKS, str(replace(tag, container_key=container_key.partition("/")[0]))).hex


def test_the_ids_of_this_version_are_those_of_the_next():
    assert FIRST.log_id == "fea4ef722a8a5ba6b2753f6a1cd804b7"


@pytest.mark.parametrize(("name", "shown"), [("a-definition", "a-definition"), ("x" * 201, "x" * 200)])
def test_a_log_stream_is_named_as_aws_batch_does(name, shown):
    assert stream_name(name, FIRST) == f"{shown}/default/{FIRST.task_id}"


def test_the_tag_of_an_active_job_is_its_attempt():
    job = running()

    assert job.tag == Tag(job_id=job.id, attempt=1)


def test_a_job_that_is_not_active_has_no_tag():
    job = runnable()

    with pytest.raises(AssertionError, match=f"{job.id} is {Status.RUNNABLE} and has no attempt"):
        _ = job.tag


ENDLESS = "1" * 5000  # more digits than Python reads as a number
NOT_NUMBERS = pytest.mark.parametrize("text", ["", "x", "-1", "1.0", "²", "٣", ENDLESS])


def test_the_id_of_a_child_or_node_names_its_job_and_its_index():
    assert parent_of(child_id(ID, 9999)) == (ID, 9999)
    assert node_of(node_id(ID, 12)) == (ID, 12)


@NOT_NUMBERS
def test_other_ids_name_a_whole_job(text):
    assert parent_of(JobId(f"{ID}:{text}")) is None
    assert node_of(JobId(f"{ID}#{text}")) == (f"{ID}#{text}", None)


def test_tags_of_one_job_hash_as_well_as_those_of_many():
    tags = [Tag(job_id=ID, attempt=1, container_key=f"{node}:app") for node in range(1000)]

    assert len({hash(tag) for tag in tags}) == len(tags)


def test_each_container_of_each_attempt_has_a_tag():
    containers = (AttemptContainer(key="0/app"), AttemptContainer(key="1/app"))
    ended = (attempt(number=1), attempt(number=2, containers=containers))
    active = job(status=Status.RUNNING, attempts=ended)

    tags = container_tags(active)

    assert [str(tag) for tag in tags[:3]] == [f"{active.id}/1", f"{active.id}/2/0/app", f"{active.id}/2/1/app"]
    assert tags[3:] == (active.tag,)
    assert container_tags(job(status=Status.FAILED)) == ()


SECOND = timedelta(seconds=1)


def ended(number):
    begun = NOON + 10 * number * SECOND
    return Attempt(
        number=number,
        environment="local",
        placed_at=begun,
        started_at=begun + SECOND,
        stopped_at=begun + 2 * SECOND,
        exit_code=number,
        containers=(AttemptContainer(),),
    )


def retried(*attempts, **changes):
    job = Job(id=job_id(1), sequence=1, spec=spec(), created_at=NOON, status=Status.RUNNABLE, attempts=attempts)
    return replace(job, **changes)


def test_moves_are_listed_oldest_first_with_their_times():
    assert recent_moves(retried(ended(1))) == (
        "2026-11-21T12:00:00.000+00:00 submitted",
        "2026-11-21T12:00:10.000+00:00 attempt 1 placed on local",
        "2026-11-21T12:00:11.000+00:00 attempt 1 started",
        "2026-11-21T12:00:12.000+00:00 attempt 1 ended (exit code 1, None)",
    )


def test_only_the_last_moves_of_a_long_history_are_shown():
    moves = recent_moves(retried(*map(ended, range(1, 11))))

    assert len(moves) == MAX_MOVES
    assert "attempt 8 started" in moves[0]
    assert "attempt 10 ended (exit code 10, None)" in moves[-1]


def test_a_stop_order_and_the_end_are_moves():
    stop = StopOrder(kind=StopKind.TERMINATE, reason="enough", user="cora", ordered_at=NOON + 5 * SECOND)
    over = retried(
        status=Status.FAILED,
        status_reason="enough",
        stop_orders=(stop,),
        stopped_at=NOON + 6 * SECOND,
        blocked_at=NOON + SECOND,
    )

    assert [move.partition(" ")[2] for move in recent_moves(over)] == [
        "submitted",
        "blocked (enough)",
        "TERMINATE ordered by cora (enough)",
        "FAILED (enough)",
    ]


def test_a_time_without_a_time_zone_in_a_damaged_record_does_not_hide_the_history():
    assert len(recent_moves(retried(ended(1), created_at=NOON.replace(tzinfo=None)))) == 4
