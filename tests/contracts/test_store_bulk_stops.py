"""The contract of every store: bulk stops."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.access.accounts import Owner, Visibility
from batchq.domain.bulk_stop import BulkStop, Candidates, Progress
from batchq.domain.enums import Status, StopKind
from batchq.domain.ids import child_id, node_id
from batchq.domain.job import ArrayState
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_request import StopRequest
from batchq.domain.stop_values import Hold
from batchq.domain.times import milliseconds
from batchq.ports.history import HistoryEntry
from batchq.ports.jobs import Changes
from tests.support import filters
from tests.support.builders import NOON, attempt, child, gang, job, job_id
from tests.support.examples import examples
from tests.support.inline import InlineStore

ORDER = StopRequest(kind=StopKind.TERMINATE, reason="enough of it")
BULK_STOP = BulkStop(number=1, request=ORDER)
ALL = JobSelection(children=True)


def array(size=3, **changes):
    return job(**{"array_size": size, "status": Status.PENDING, "array_state": ArrayState(spawned=size)} | changes)


def children(of, *statuses):
    return tuple(child(of, index, status=status) for index, status in enumerate(statuses))


@pytest.fixture
def chosen(store):
    """The places of the selected jobs: those of a preview, which must equal those of the order."""

    async def chosen(jobs, **selection):
        job_filter = JobSelection(**selection)
        await store.commit(Changes(inserted=tuple(jobs), history=ended(jobs)))
        previewed = [candidate.place for candidate in await store.preview(job_filter, 100)]
        await store.commit(Changes(bulk_stops=((BULK_STOP, job_filter),)))
        selected = [(target.job.sequence, target.part) for target in await store.next_targets(1, 100)]
        assert selected == previewed[::-1]
        return previewed

    return chosen


def ended(jobs):
    over = (other_job for other_job in jobs if other_job.status in {Status.SUCCEEDED, Status.FAILED})
    return tuple(
        HistoryEntry(job_id=other_job.id, at=NOON, status=other_job.status, reason=None, attempt=None)
        for other_job in over
    )


def whole(*orders):
    return [(order, None) for order in orders]


# ---------------------------------------------------------------------------------------------- the targets of a filter


async def test_an_environment_is_that_of_the_attempt_under_way(chosen):
    there, elsewhere = attempt(environment="big"), attempt(environment="small")
    jobs = [
        job(number=1, status=Status.RUNNING, attempt=there),
        job(number=2, status=Status.STARTING, attempt=elsewhere),
        job(number=3, status=Status.RUNNABLE, attempts=(replace(there, number=1),)),
    ]

    assert await chosen(jobs, environments=frozenset({"big"})) == whole(1)


async def test_a_job_is_selected_if_it_was_created_before(chosen):
    jobs = [job(number=number, created_at=NOON + timedelta(milliseconds=number)) for number in (1, 2, 3)]

    assert await chosen(jobs, created_before=milliseconds(NOON) + 2) == whole(1)


async def test_an_array_is_selected_as_a_whole(chosen):
    parent = array(number=10, name="sim")

    assert await chosen([parent, *children(parent, *[Status.RUNNING] * 3)], names=frozenset({"sim"})) == whole(10)


async def test_a_filter_on_statuses_selects_children_and_not_their_array(chosen):
    parent, waiting = array(number=10), job(number=5, array_size=3, status=Status.PENDING)
    statuses = Status.RUNNING, Status.RUNNABLE, Status.FAILED

    selection = frozenset({Status.PENDING, Status.RUNNABLE})

    assert await chosen([parent, *children(parent, *statuses), waiting], statuses=selection) == whole(5, 12)


async def test_named_jobs_are_selected_unless_finished_or_unknown(chosen):
    parent = array(number=10)
    named = [job_id(1), job_id(2), child_id(parent.id, 1), job_id(99)]
    jobs = [job(number=1), job(number=2, status=Status.FAILED), job(number=3), parent]

    found = await chosen([*jobs, *children(parent, *[Status.RUNNABLE] * 3)], ids=(*named, named[0]))

    assert found == whole(1, 12)


async def test_a_node_is_selected_beside_its_job(chosen):
    ids = (node_id(job_id(1), 2), job_id(1), node_id(job_id(1), 0))

    assert await chosen([job(number=1, nodes=gang(3))], ids=ids) == [(1, None), (1, 0), (1, 2)]


async def test_a_named_array_selects_its_children_with_a_filter_on_statuses(chosen):
    parent, other = array(number=10), array(number=20)
    lives = [*children(parent, Status.RUNNING, Status.RUNNABLE, Status.RUNNING), *children(other, Status.RUNNING)]

    found = await chosen([parent, other, *lives], ids=(parent.id,), statuses=frozenset({Status.RUNNING}))

    assert found == whole(11, 13)


async def test_invalid_unicode_selects_nothing(chosen):
    assert await chosen([job()], users=frozenset({"\ud800"}), names=frozenset({"\ud800*"})) == []


async def test_a_preview_continues_after_a_position(store):
    parent = array(number=10, name="Sim")
    await store.commit(Changes(inserted=(job(number=1), parent)))
    (first,) = await store.preview(JobSelection(), 1)

    (second,) = await store.preview(JobSelection(), 5, first.place)

    assert (second.job_id, second.name, second.status, second.has_children) == (parent.id, "Sim", "PENDING", True)
    assert (first.name, first.status, first.has_children) == ("a-job", "SUBMITTED", False)


# ---------------------------------------------------------------------------------------------------------- a bulk stop


async def test_the_selection_includes_changes_of_the_same_commit(store):
    waits, comes = job(number=1, status=Status.RUNNABLE), job(number=2)
    await store.commit(Changes(inserted=(waits,)))
    runs = replace(waits, status=Status.STARTING, attempt=attempt())

    selection = JobSelection(statuses=frozenset({Status.RUNNABLE, Status.SUBMITTED}))
    await store.commit(Changes(inserted=(comes,), updated=(runs,), bulk_stops=((BULK_STOP, selection),)))

    assert [target.job.sequence for target in await store.next_targets(1, 10)] == [2]


async def test_later_jobs_are_not_selected(store):
    await store.commit(Changes(inserted=(job(number=1),), bulk_stops=((BULK_STOP, ALL),)))
    await store.commit(Changes(inserted=(job(number=2),)))

    assert [target.job.sequence for target in await store.next_targets(1, 10)] == [1]


async def test_a_bulk_stop_continues_at_its_position_and_is_deleted_at_its_end(store):
    await store.commit(
        Changes(inserted=tuple(job(number=number) for number in range(4)), bulk_stops=((BULK_STOP, ALL),))
    )
    [_, last] = await store.next_targets(1, 2)

    await store.commit(
        Changes(progress=(Progress(bulk_stop=1, sequence=last.job.sequence, part=None, complete=False),))
    )

    assert [target.job.sequence for target in await store.next_targets(1, 10)] == [1, 0]
    assert await store.bulk_stops() == (BULK_STOP,)
    await store.commit(Changes(progress=(Progress(bulk_stop=1, sequence=0, part=None, complete=True),)))
    assert (await store.bulk_stops(), await store.next_targets(1, 10), list(await store.target_ranges(1))) == (
        (),
        (),
        [],
    )


async def test_a_completed_bulk_stop_leaves_no_rows_for_its_number(store):
    over = job(number=1, status=Status.FAILED)
    await store.commit(Changes(inserted=(job(number=1), job(number=2)), bulk_stops=((BULK_STOP, ALL),)))
    await store.commit(Changes(updated=(over,), history=ended([over])))
    await store.prune(NOON + timedelta(days=1), keep=(), limit=10)
    assert [target.job.sequence for target in await store.next_targets(1, 10)] == [2]

    await store.commit(Changes(progress=(Progress(bulk_stop=1, sequence=2, part=None, complete=True),)))
    await store.commit(Changes(bulk_stops=((BULK_STOP, JobSelection(names=frozenset({"unknown"}))),)))
    await store.commit(Changes(inserted=(replace(over, id=job_id(7), status=Status.RUNNABLE),)))

    assert (await store.next_targets(1, 10), list(await store.target_ranges(1))) == ((), [])


async def test_nodes_of_a_job_are_selected_one_after_another(store):
    await store.commit(Changes(inserted=(job(number=1, nodes=gang(3)),)))
    ids = (node_id(job_id(1), 0), node_id(job_id(1), 2), job_id(1))
    await store.commit(Changes(bulk_stops=((BULK_STOP, JobSelection(ids=ids)),)))

    await store.commit(Changes(progress=(Progress(bulk_stop=1, sequence=1, part=2, complete=False),)))

    assert [target.part for target in await store.next_targets(1, 10)] == [0, None]


async def test_a_bulk_stop_has_its_jobs_with_the_ranges_of_their_children(store):
    parent = array(number=10)
    others = [job(number=number) for number in (1, 14, 15)]
    await store.commit(Changes(inserted=(*others, parent)))

    await store.commit(Changes(bulk_stops=((BULK_STOP, JobSelection()),)))

    assert list(await store.target_ranges(1)) == [(1, 1), (10, 15)]


async def test_two_bulk_stops_may_select_one_job(store):
    await store.commit(
        Changes(inserted=(job(number=1),), bulk_stops=((BULK_STOP, ALL), (BulkStop(number=2, request=ORDER), ALL)))
    )

    assert [len(await store.next_targets(number, 10)) for number in (1, 2)] == [1, 1]


# ------------------------------------------------------------------------------------------- SQL and the specification

WORDS = st.text(alphabet="aAb*%_é", max_size=3)
JOBS = st.lists(
    st.fixed_dictionaries(
        {
            "name": WORDS,
            "queue": WORDS,
            "status": st.sampled_from(Status),
            "owner": st.builds(Owner, user=WORDS, account=WORDS),
            "hold": st.sampled_from([None, None, Hold(reason="not yet", held_at=NOON)]),
        }
    ),
    max_size=8,
)
SETS = st.none() | st.frozensets(WORDS, max_size=2)
SELECTIONS = st.builds(
    JobSelection,
    ids=st.none() | st.lists(st.integers(0, 9).map(job_id), max_size=4).map(tuple),
    id_prefix=st.sampled_from([None, None, None, job_id(0)[:8]]),
    parent=st.sampled_from([None, None, None, job_id(9)]),
    names=SETS,
    users=SETS,
    accounts=SETS,
    queues=SETS,
    definitions=st.sampled_from([None, None, frozenset({"a-*", "b:1"})]),
    shares=st.sampled_from([None, None, None, frozenset({"red"})]),
    exit_codes=st.sampled_from([None, None, None, frozenset({1})]),
    held=st.sampled_from([False, False, True]),
    children=st.booleans(),
    statuses=st.none() | st.frozensets(st.sampled_from(Status)),
    environments=st.none() | st.frozensets(st.sampled_from(["local", "other"])),
    created_before=st.none() | st.integers(-1, 1).map(lambda value: milliseconds(NOON) + value),
    visibility=st.none() | st.builds(Visibility, user=WORDS, accounts=st.frozensets(WORDS, max_size=2)),
)


@settings(max_examples=examples(60))
@given(made=JOBS, selection=st.lists(SELECTIONS, min_size=1, max_size=8))
async def test_any_selection_previews_the_jobs_of_its_specification(made, selection):
    jobs, store = [job(number=number, **of) for number, of in enumerate(made)], InlineStore()
    await store.commit(Changes(inserted=tuple(jobs), history=ended(jobs)))

    found = [
        [(other_job.place[0], other_job.job_id) for other_job in await store.preview(each, 5)] for each in selection
    ]

    specified = [filters.selected({other_job.id: other_job for other_job in jobs}, each).values() for each in selection]
    assert found == [[(element.sequence, element.id) for element in each][:5] for each in specified]


@settings(max_examples=examples(60))
@given(made=JOBS, later=st.lists(st.none() | st.sampled_from(Status), max_size=12), selection=SELECTIONS)
async def test_candidates_with_later_changes_equal_a_selection_at_the_commit(made, later, selection):
    parent = array(number=9)
    waiting = children(parent, Status.RUNNABLE, Status.RUNNING, Status.RUNNABLE)
    jobs = (*(job(number=number, **of) for number, of in enumerate(made)), parent, *waiting)
    changed = [
        replace(other_job, status=status) for other_job, status in zip(jobs, later, strict=False) if status is not None
    ]
    store = InlineStore()
    await store.commit(Changes(inserted=jobs, history=ended(jobs)))
    candidates = Candidates(
        places=await store.candidates(selection),
        changed=frozenset(other_job.sequence for other_job in changed) | {job(number=20).sequence},
    )

    await store.commit(
        Changes(
            inserted=(job(number=20),),
            updated=tuple(changed),
            history=ended(changed),
            bulk_stops=((BULK_STOP, selection), (BulkStop(number=2, request=ORDER), selection)),
            candidates=((1, candidates),),
        )
    )

    assert await store.next_targets(1, 100) == await store.next_targets(2, 100)
