"""Ids of jobs, of children and of nodes, as callers may write them."""

import pytest

from batchq.domain.ids import JobId, Tag, child_id, node_id, node_of, parent_of

WHOLE = JobId("00000000-0000-4000-8000-000000000001")
ENDLESS = "1" * 5000  # more digits than Python reads as a number


def test_the_id_of_a_child_names_its_array_and_its_index():
    assert parent_of(child_id(WHOLE, 9999)) == (WHOLE, 9999)


def test_the_id_of_a_node_names_its_job_and_its_number():
    assert node_of(node_id(WHOLE, 12)) == (WHOLE, 12)


@pytest.mark.parametrize("index", ["", "x", "-1", "1.0", "²", "٣", ENDLESS])
def test_other_ids_name_no_child(index):
    assert parent_of(JobId(f"{WHOLE}:{index}")) is None


@pytest.mark.parametrize("number", ["", "x", "-1", "1.0", "²", "٣", ENDLESS])
def test_other_ids_name_a_whole_job(number):
    assert node_of(JobId(f"{WHOLE}#{number}")) == (f"{WHOLE}#{number}", None)


def test_tags_of_one_job_hash_as_well_as_those_of_many():
    tags = [Tag(job_id=WHOLE, attempt=1, container_key=f"{node}:app") for node in range(1000)]

    assert len({hash(it) for it in tags}) == len(tags)
