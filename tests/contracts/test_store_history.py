"""The history of every store: one numbered feed of all jobs."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Owner, Visibility
from batchq.domain.enums import Status, StopKind, StopProgress
from batchq.domain.group_terms import GroupTerms
from batchq.domain.ids import GroupId
from batchq.domain.stop_values import Hold, StopStep
from batchq.errors import Conflict
from batchq.ports.history import FeedEnds, FeedFilter, HoldChange
from batchq.ports.jobs import Changes
from tests.support.builders import NOON, child, job, job_id, moment

ALL = FeedFilter()


async def read(store, after=0, wanted=ALL, *, limit=100, scan=100):
    return await store.feed(after, wanted, limit=limit, scan=scan)


async def numbers(store, wanted=ALL, **bounds):
    return [entry.number for entry in (await read(store, wanted=wanted, **bounds)).entries]


async def add(store, *jobs):
    return await store.commit(Changes(inserted=jobs, history=tuple(moment(other_job) for other_job in jobs)))


async def test_a_step_of_a_stop_order_is_stored_and_matches_no_status(store):
    one = job(number=1)
    step = StopStep(progress=StopProgress.ORDERED, kind=StopKind.CANCEL, reason="too hot", user="cora", ordered_at=NOON)
    entries = (moment(one), replace(moment(one), stop=step))
    await store.commit(Changes(inserted=(one,), history=entries))

    assert await store.history(one.id) == entries
    assert [entry.entry for entry in (await read(store)).entries] == [*entries]
    assert await numbers(store, FeedFilter(statuses=frozenset(Status))) == [1]


async def test_a_hold_and_a_release_are_stored_and_match_no_status(store):
    one = job(number=1)
    changes = (HoldChange(hold=Hold(reason="later", held_at=NOON)), HoldChange(hold=None))
    entries = (moment(one), *(replace(moment(one), hold=change) for change in changes))
    await store.commit(Changes(inserted=(one,), history=entries))

    assert [entry.entry for entry in (await read(store)).entries] == [*entries]
    assert await numbers(store, FeedFilter(statuses=frozenset(Status))) == [1]


async def test_an_empty_feed_has_no_gap(store):
    page = await read(store)

    assert (page.entries, page.next, page.gap) == ((), 0, False)
    assert await store.feed_ends() == FeedEnds(last=0, forgotten_through=0)


async def test_a_commit_returns_its_first_number_and_the_others_follow(store):
    first, second = job(number=1), job(number=2)

    assert await add(store, first, second) == 1
    later = (moment(second, status=Status.RUNNABLE), moment(first, status=Status.RUNNABLE))
    assert await store.commit(Changes(history=later)) == 3

    page = await read(store)
    assert [(entry.number, entry.entry) for entry in page.entries] == [
        (1, moment(first)),
        (2, moment(second)),
        (3, later[0]),
        (4, later[1]),
    ]
    assert (page.next, page.gap) == (4, False)
    assert await store.feed_ends() == FeedEnds(last=4, forgotten_through=0)


async def test_a_commit_without_history_returns_no_number(store):
    assert await store.commit(Changes(inserted=(job(number=1),))) is None


async def test_the_numbers_of_a_failed_commit_are_used_by_the_next_one(store):
    await add(store, job(number=1))
    with pytest.raises(Conflict):
        await store.commit(Changes(updated=(job(number=9),), history=(moment(job(number=1)),)))

    assert await add(store, job(number=2)) == 2


async def test_an_entry_of_a_deleted_job_takes_no_number(store):
    known = job(number=1)
    await add(store, known)

    assert await store.commit(Changes(history=(moment(job(number=7)), moment(known)))) == 2
    assert await store.commit(Changes(history=(moment(job(number=7)),))) is None


async def test_an_entry_has_the_name_the_queue_and_the_owner_of_its_job(store):
    mine = job(number=1, name="Align-Ä", queue="night", owner=Owner(user="ada", account="physics"))
    await add(store, mine)

    (found,) = (await read(store)).entries

    assert (found.job_name, found.queue, found.owner) == ("Align-Ä", "night", mine.spec.owner)


async def test_pages_follow_one_another(store):
    await add(store, *(job(number=number) for number in range(1, 6)))

    first = await read(store, limit=2)
    second = await read(store, first.next, limit=2)
    third = await read(store, second.next, limit=2)

    assert [[entry.number for entry in page.entries] for page in (first, second, third)] == [[1, 2], [3, 4], [5]]
    assert (await read(store, third.next)).entries == ()


async def test_a_page_examines_a_bounded_number_of_entries(store):
    await add(store, *(job(number=number) for number in range(1, 6)))

    page = await read(store, wanted=FeedFilter(jobs=frozenset({job_id(5)})), scan=3)

    assert (page.entries, page.next) == ((), 3)
    assert [entry.number for entry in (await read(store, page.next, scan=3)).entries] == [4, 5]


async def test_every_filter_selects_its_entries(store):
    ada, bob = Owner(user="ada", account="physics"), Owner(user="bob", account="botany")
    await add(store, job(number=1, owner=ada), job(number=2, owner=bob, queue="night"))
    await store.commit(Changes(history=(moment(job(number=1), status=Status.RUNNING, attempt=1),)))

    assert await numbers(store, FeedFilter(jobs=frozenset({job_id(1)}))) == [1, 3]
    assert await numbers(store, FeedFilter(queues=frozenset({"night"}))) == [2]
    assert await numbers(store, FeedFilter(statuses=frozenset({Status.RUNNING}))) == [3]
    assert await numbers(store, FeedFilter(visibility=Visibility(user="bob"))) == [2]
    assert await numbers(store, FeedFilter(visibility=Visibility(user="eve", accounts=frozenset({"physics"})))) == [
        1,
        3,
    ]
    assert await numbers(store, FeedFilter(visibility=Visibility(user="eve"))) == []
    assert await numbers(store, FeedFilter(jobs=frozenset({"\ud800"}))) == []


async def test_a_group_selects_the_entries_of_its_jobs(store):
    terms = GroupTerms(id=GroupId("g-1"), name="fit")
    await add(store, job(number=1, group=terms), job(number=2), job(number=3, group=terms))
    wanted = FeedFilter(groups=frozenset({terms.id}))

    found = (await read(store, wanted=wanted)).entries

    assert [entry.number for entry in found] == [1, 3]
    assert all(map(wanted.matches, found))


async def test_an_array_selects_the_entries_of_its_children(store):
    array = job(number=1, array_size=2)
    await add(store, array, child(array, 0), child(array, 1), job(number=9))

    assert await numbers(store, FeedFilter(jobs=frozenset({array.id}))) == [1, 2, 3]
    assert await numbers(store, FeedFilter(jobs=frozenset({f"{array.id}:1"}))) == [3]


async def test_the_store_and_the_filter_select_the_same_entries(store):
    owners = [Owner(user="ada", account="physics"), Owner(user="bob", account="botany")]
    array = job(number=20, array_size=2, owner=owners[0])
    jobs = [
        job(number=number, owner=owners[number % 2], queue=["day", "night"][number % 3 // 2]) for number in range(9)
    ]
    await add(store, *jobs, array, child(array, 0), child(array, 1))
    saved = (await read(store)).entries

    for wanted in (
        FeedFilter(jobs=frozenset({array.id, jobs[3].id})),
        FeedFilter(queues=frozenset({"night"}), visibility=Visibility(user="ada")),
        FeedFilter(visibility=Visibility(user="eve", accounts=frozenset({"botany"}))),
        FeedFilter(statuses=frozenset({Status.PENDING})),
    ):
        assert (await read(store, wanted=wanted)).entries == tuple(entry for entry in saved if wanted.matches(entry))


async def test_a_number_that_was_never_used_is_reported_as_a_gap(store):
    await add(store, job(number=1))

    page = await read(store, 5)

    assert (page.entries, page.next, page.gap) == ((), 1, True)


async def test_deleted_entries_leave_a_gap_and_their_numbers_are_never_used_again(store):
    old, newest = job(number=1, status=Status.SUCCEEDED), job(number=2)
    await add(store, old)
    await add(store, newest)

    await store.prune(NOON + timedelta(days=1), keep=(), limit=10)

    assert await store.feed_ends() == FeedEnds(last=2, forgotten_through=1)
    before, after = await read(store, 0), await read(store, 1)
    assert ([entry.number for entry in before.entries], before.gap) == ([2], True)
    assert ([entry.number for entry in after.entries], after.gap) == ([2], False)

    assert await add(store, job(number=3)) == 3
