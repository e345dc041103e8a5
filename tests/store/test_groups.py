"""Groups in SQLite: rows that follow their jobs, and reads of the jobs of a group."""

from datetime import timedelta

import pytest
from msgspec import inspect

from batchq.domain.enums import Status
from batchq.domain.group_terms import GroupTerms
from batchq.domain.groups import new_group
from batchq.domain.ids import GroupId, child_id
from batchq.domain.job import Dependency, JobSpec
from batchq.domain.job_selection import JobSelection
from batchq.ports.job_search import PageQuery
from batchq.ports.jobs import Changes
from tests.support.builders import NOON, child, job, moment

TERMS = GroupTerms(id=GroupId("g-1"), name="fit", max_running=1)


def member(number, status=Status.SUCCEEDED, **members):
    return job(number=number, status=status, group=TERMS, **members)


async def save(store, *jobs, groups=()):
    await store.commit(Changes(inserted=jobs, history=tuple(moment(other_job) for other_job in jobs), groups=groups))


async def found(store, **selection):
    page = await store.search(PageQuery(selection=JobSelection(**selection), limit=10))
    return [other_job.id for other_job in page.jobs]


async def test_a_group_is_deleted_with_its_last_job(store):
    first, last = member(1, stopped_at=NOON), member(2, stopped_at=NOON)
    await save(store, first, last, job(number=3), groups=(new_group(first),))

    await store.prune(NOON + timedelta(days=1), keep=(), limit=1)
    assert (await store.groups([TERMS.id])).keys() == {TERMS.id}
    await store.prune(NOON + timedelta(days=1), keep=(), limit=1)

    assert await store.groups([TERMS.id]) == {}


async def test_the_jobs_of_a_group_are_found_without_those_that_others_replaced(store):
    old, other = member(1, Status.FAILED), job(number=2)
    await save(store, old, other, member(3, rerun_of=old.id))

    assert await found(store, groups=frozenset({TERMS.id})) == [member(3).id]
    assert await found(store, ungrouped=True) == [other.id]


async def test_only_jobs_whose_dependencies_succeeded_wait_for_a_place(store):
    done, runs = job(number=1, status=Status.SUCCEEDED), job(number=2, status=Status.RUNNING)
    ready = member(3, Status.PENDING, depends_on=[done])
    await save(store, done, runs, ready, member(4, Status.PENDING, depends_on=[runs]), member(5, Status.PENDING))

    assert [other_member.id for other_member in await store.waiting_members(TERMS.id, 10)] == [ready.id, member(5).id]
    assert [other_member.id for other_member in await store.waiting_members(TERMS.id, 1)] == [ready.id]


async def test_only_the_next_child_of_a_sequential_array_waits_for_a_place(store):
    array = member(1, Status.PENDING, array_size=3, depends_on=[Dependency(job_id=None)])
    statuses = [Status.SUCCEEDED, Status.PENDING, Status.PENDING]
    await save(store, array, *(child(array, index, status=status) for index, status in enumerate(statuses)))

    assert [job.id for job in await store.waiting_members(TERMS.id, 10)] == [child_id(array.id, 1)]


async def test_a_job_that_names_a_child_does_not_wait_for_the_array(store):
    array = job(number=1, status=Status.PENDING, array_size=2)
    first, last = child(array, 0, status=Status.SUCCEEDED), child(array, 1, status=Status.RUNNING)
    ready = member(5, Status.PENDING, depends_on=[first])
    await save(store, array, first, last, ready, member(6, Status.PENDING, depends_on=[first, array]))

    assert [job.id for job in await store.waiting_members(TERMS.id, 10)] == [ready.id]


@pytest.mark.parametrize("text", ['"job_id":"{}"', '\\"job_id":"{}"', '","job_id":"{}","'])
async def test_a_text_of_a_job_is_not_read_as_a_dependency(store, text):
    array = job(number=1, status=Status.PENDING, array_size=1)
    first = child(array, 0, status=Status.SUCCEEDED)
    texts = {"client_document": text.format(array.id), "parameters": ((text.format(array.id), text.format(array.id)),)}
    ready = member(5, Status.PENDING, depends_on=[first], **texts)
    await save(store, array, first, ready)

    assert [job.id for job in await store.waiting_members(TERMS.id, 10)] == [ready.id]


def test_only_a_dependency_has_a_member_job_id_in_the_specification_of_a_job():
    """`waiting_members` searches the stored JSON for this member."""
    assert [kind for kind in struct_types(inspect.type_info(JobSpec), set()) if "job_id" in kind.__struct_fields__] == [
        Dependency
    ]


def struct_types(kind, known):
    """The types of all values that a value of this type may contain."""
    if isinstance(kind, inspect.StructType) and kind.cls not in known:
        known.add(kind.cls)
        for field in kind.fields:
            struct_types(field.type, known)
    for part in (getattr(kind, "item_type", None), *getattr(kind, "item_types", ()), *getattr(kind, "types", ())):
        if part is not None:
            struct_types(part, known)
    return known
