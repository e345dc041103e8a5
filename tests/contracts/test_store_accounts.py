"""What every store must do, held on each: what is asked of the jobs of accounts."""

from collections import Counter
from dataclasses import replace

from batchq.domain.job import Child, Family, Status
from batchq.domain.names import child_id
from batchq.domain.people import Owner
from batchq.values import Changes, Moment
from tests.support.builders import NOON, attempt, job

LAB, OTHER = Owner(user="ada", account="lab"), Owner(user="bob", account="other")


def owned(number, owner=LAB, **changes):
    return job(number=number, owner=owner, **{"status": Status.RUNNABLE} | changes)


def child_of(parent, index, **changes):
    made = owned(parent.order + 1 + index, array_size=parent.spec.array_size, **changes)
    return replace(made, id=child_id(parent.id, index), child=Child(parent=parent.id, index=index))


def over(it):
    return Moment(job_id=it.id, at=NOON, status=it.status, reason=None, attempt=None)


async def test_jobs_that_wait_are_counted_by_account(store):
    ended = owned(6, status=Status.SUCCEEDED)
    await store.commit(
        Changes(
            inserted=(
                owned(1, status=Status.SUBMITTED),
                owned(2, status=Status.PENDING),
                owned(3),
                owned(4, misfit=True),
                owned(5, status=Status.RUNNING, attempt=attempt()),
                ended,
                owned(7, OTHER),
                owned(8, Owner(user="eve", account="lab")),
            ),
            history=(over(ended),),
        )
    )

    assert await store.queued() == {"lab": 5, "other": 1}


async def test_an_array_stands_for_the_children_it_has_yet_to_make(store):
    fresh = owned(100, array_size=7, status=Status.SUBMITTED)
    begun = owned(200, array_size=5, status=Status.PENDING, family=Family(spawned=3))
    gone = owned(300, array_size=9, status=Status.FAILED)
    done = child_of(begun, 1, status=Status.SUCCEEDED)
    children = (child_of(begun, 0), done, child_of(begun, 2, status=Status.STARTING, attempt=attempt()))
    await store.commit(Changes(inserted=(fresh, begun, gone, *children), history=(over(gone), over(done))))

    assert +Counter(await store.queued()) == {"lab": 7 + 2 + 1}


async def test_where_nothing_waits_nothing_is_counted(store):
    assert await store.queued() == {}
