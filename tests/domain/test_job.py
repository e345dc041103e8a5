from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.ids import Tag, child_id, stream_name
from batchq.domain.job import Status
from tests.domain.lives import runnable, running
from tests.support.builders import job_id

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


def test_a_log_stream_is_named_as_aws_batch_does():
    assert stream_name("a-definition", FIRST) == f"a-definition/default/{FIRST.task_id}"


def test_a_log_stream_has_no_more_than_200_characters_of_the_definitions_name():
    assert stream_name("x" * 201, FIRST) == f"{'x' * 200}/default/{FIRST.task_id}"


def test_the_tag_of_an_active_job_is_its_attempt():
    job = running()

    assert job.tag == Tag(job_id=job.id, attempt=1)


def test_a_job_that_is_not_active_has_no_tag():
    job = runnable()

    with pytest.raises(AssertionError, match=f"{job.id} is {Status.RUNNABLE} and has no attempt"):
        _ = job.tag
