"""The resources that jobs hold, updated as they change."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from batchq.domain.job import ConsumableRequirement, Status
from batchq.domain.scheduling.resources import Usage
from tests.support.builders import attempt, job, stop

NEEDS = ((), (ConsumableRequirement(resource="licences", quantity=2),))


@st.composite
def moments(draw):
    """A few jobs, each several times, as they might be one after another."""
    return job(
        number=draw(st.integers(0, 4)),
        status=draw(st.sampled_from(Status)),
        attempt=attempt(environment=draw(st.sampled_from(["east", "west"]))),
        millicpus=draw(st.sampled_from([250, 1000])),
        needs=draw(st.sampled_from(NEEDS)),
        timeout=draw(st.sampled_from([None, timedelta(hours=1)])),
    )


def adopted(turns):
    held = Usage()
    for jobs in turns:
        held.update(jobs)
    return held


def told(holding):
    return dict(holding.sums), dict(holding.accounts), sorted(holding.needed), sorted(it.id for it in holding.timed())


def turns(**most):
    """What each has changed: a job once."""
    return st.lists(moments(), unique_by=lambda it: it.id, **most)


@given(st.lists(turns()), turns(max_size=3))
def test_the_usage_updated_by_changes_equals_the_usage_of_all_jobs(before, changed):
    held = adopted(before)
    last = {it.id: it for turn in (*before, changed) for it in turn}

    counted = held.after(changed)

    assert told(counted) == told(Usage(last.values()).after(()))


def test_a_unit_of_work_that_is_not_saved_has_changed_nothing():
    runs = job(number=1, status=Status.RUNNING)
    held = Usage([runs])
    before = told(held.after(()))

    held.after([job(number=1, status=Status.SUCCEEDED), job(number=2, status=Status.STARTING)])

    assert told(held.after(())) == before


def test_a_stopping_job_has_a_known_end():
    stops = job(number=1, status=Status.RUNNING, stop_orders=(stop(),))

    assert list(Usage([stops]).after(()).timed()) == [stops]
