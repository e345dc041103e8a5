"""The counts of a group after changes of its jobs."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from batchq.domain.enums import FINISHED, Status, StopKind
from batchq.domain.group_terms import GroupTerms
from batchq.domain.groups import group_after, new_group
from batchq.domain.ids import GroupId
from batchq.domain.job import ArrayState, AttemptContainer
from batchq.domain.scheduling.fairshare import Change
from batchq.domain.status_counts import counts_after
from batchq.domain.use import Use
from tests.support.builders import NOON, attempt, job, stop
from tests.support.examples import examples

TERMS = GroupTerms(id=GroupId("g-1"), name="fit", size=3, max_running=2, max_failed=2)


def member(number, status, **members):
    return job(number=number, status=status, group=TERMS, **members)


def group(*jobs):
    first = new_group(jobs[0])
    return group_after(first, [Change(None, other_job) for other_job in jobs], NOON)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(Status)), max_size=60))
@settings(max_examples=examples(100))
def test_counts_are_those_of_a_recount(moves):
    present = {}
    counts = ()
    for number, status in moves:
        counts = counts_after(counts, [(present.get(number), status, 1)])
        present[number] = status

    recounted = [(status, [*present.values()].count(status)) for status in Status if status in present.values()]
    assert counts == tuple(recounted)


def test_a_stopped_job_did_not_fail_by_itself():
    order = stop(kind=StopKind.TERMINATE)
    found = group(member(1, Status.FAILED), member(2, Status.FAILED, stop_orders=(order,)), member(3, Status.RUNNING))

    assert (found.failed, found.stopped, found.unfinished, found.is_failing) == (1, 1, 1, False)


@pytest.mark.parametrize("status", sorted(FINISHED))
def test_a_group_ends_only_with_as_many_jobs_as_declared(status):
    two, three = (group(*(member(number, status) for number in range(1, size + 1))) for size in (2, 3))

    assert (two.ended_at, three.ended_at) == (None, NOON)
    assert (two.size, three.size) == (3, 3)


def test_a_group_that_gets_another_job_continues():
    ended = group(*(member(number, Status.SUCCEEDED) for number in (1, 2, 3)))

    again = group_after(ended, [Change(None, member(4, Status.SUBMITTED))], NOON)

    assert again.ended_at is None
    assert again.size == 4


def test_a_replaced_job_does_not_count():
    failed = member(1, Status.FAILED)

    after = group_after(group(failed), [Change(None, member(2, Status.SUBMITTED))], NOON, replaced=[failed])

    assert (after.failed, after.submitted, after.waiting) == (0, 1, 1)


def test_an_array_counts_as_its_children():
    array = job(number=1, status=Status.PENDING, array_size=5, group=replace(TERMS, size=None))
    spawning = replace(array, array_state=ArrayState(spawned=2))
    children = [member(number, Status.RUNNABLE) for number in (2, 3)]
    changes = [Change(array, spawning), *(Change(None, child) for child in children)]

    found = group_after(group(array), changes, NOON)

    assert (found.submitted, found.uncreated, found.waiting, found.free_places) == (5, 3, 5, 0)


@pytest.mark.parametrize("stopped", [False, True])
def test_an_array_that_ends_before_it_begins_counts_as_failed_jobs(stopped):
    waiting = job(number=1, status=Status.PENDING, array_size=3, group=TERMS)
    ended = replace(waiting, status=Status.FAILED, stop_orders=(stop(kind=StopKind.CANCEL),) if stopped else ())

    found = group_after(group(waiting), [Change(waiting, ended)], NOON)

    assert (found.submitted, found.uncreated, found.ended_at) == (3, 0, NOON)
    assert (found.failed, found.stopped) == ((0, 3) if stopped else (3, 0))
    assert group_after(found, [Change(None, member(2, Status.PENDING))], NOON, replaced=[ended]).submitted == 1


def test_the_run_times_of_succeeded_jobs_are_added():
    ran = member(1, Status.SUCCEEDED, started_at=NOON, stopped_at=NOON + timedelta(seconds=40))
    failed = member(2, Status.FAILED, started_at=NOON, stopped_at=NOON + timedelta(seconds=9))

    assert group(ran, failed).run_time == timedelta(seconds=40)


def used(number, **figures):
    use = Use(sampled_at=NOON, **figures) if figures else None
    container = AttemptContainer(started_at=NOON, use=use)
    return member(number, Status.SUCCEEDED, attempts=(attempt(started_at=NOON, containers=(container,)),))


def test_a_group_counts_what_was_measured_of_its_jobs():
    found = group(used(1, cpu_seconds=2.5, peak_memory=30), used(2, peak_memory=20), used(3))

    assert (found.measured, found.cpu_seconds, found.peak_memory) == (1, 2.5, 30)


def test_a_group_without_a_measured_job_has_no_peak():
    found = group(used(1), member(2, Status.RUNNING))

    assert (found.measured, found.peak_memory) == (0, None)


def test_a_replaced_job_does_not_count_for_the_cpu_time_of_its_group():
    first, second = used(1, cpu_seconds=2.5, peak_memory=30), used(2, cpu_seconds=1.0, peak_memory=20)

    found = group_after(group(first), [Change(None, second)], NOON, replaced=[first])

    assert (found.measured, found.cpu_seconds, found.peak_memory) == (1, 1.0, 30)
