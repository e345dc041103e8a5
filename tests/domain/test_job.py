import re
from dataclasses import replace
from uuid import UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchq.domain.job import Status
from batchq.domain.names import Tag, stream_name
from tests.domain.lives import runnable, running
from tests.support.builders import job_id

TASKS = UUID("5f1c9d0e-3c53-4b7a-9a53-0b9c1f6b2f5e")
FIRST, SECOND = Tag(job_id=job_id(1), attempt=1), Tag(job_id=job_id(1), attempt=2)


def test_a_task_id_is_always_the_same_for_an_attempt_and_new_for_the_next():
    assert re.fullmatch("[0-9a-f]{32}", FIRST.task_id)
    assert FIRST.task_id == Tag(job_id=job_id(1), attempt=1).task_id
    assert FIRST.task_id != SECOND.task_id


@given(number=st.integers(0, 10**6), part=st.sampled_from(["", "0/default", "3/sidecar"]))
def test_the_ids_of_a_container_are_uuids_of_its_name(number, part):
    tag = Tag(job_id=job_id(number), attempt=1, part=part)

    assert tag.log_id == uuid5(TASKS, str(tag)).hex
    assert tag.task_id == uuid5(TASKS, str(replace(tag, part=part.partition("/")[0]))).hex


def test_a_task_id_of_this_version_is_that_of_the_next():
    assert FIRST.task_id == "fea4ef722a8a5ba6b2753f6a1cd804b7"


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
