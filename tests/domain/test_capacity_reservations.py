"""Capacity that is reserved for waiting jobs, and not used by a job that may end too late."""

from hypothesis import given
from hypothesis import strategies as st

from batchq.domain.scheduling.backfill import Reservation, Reservations
from tests.domain.lives import at

MINUTES = st.none() | st.integers(0, 9)
AMOUNTS = st.dictionaries(st.sampled_from(["memory", "GPUs", "vCPUs of compute environment local"]), st.integers(1, 9))


def moment(minute):
    return None if minute is None else at(60 * minute)


@given(listed=st.lists(st.tuples(MINUTES, AMOUNTS), max_size=6), minute=MINUTES)
def test_capacity_is_reserved_for_jobs_that_may_start_before_the_job_ends(listed, minute):
    asides = Reservations()
    for start, amounts in listed:
        asides.add(Reservation(amounts=amounts, starts=moment(start)))

    kept = asides.reserved_for(asides.before(moment(minute)))

    mine = [amounts for start, amounts in listed if start is None or minute is None or start <= minute]
    assert {of: amount for of, amount in kept.items() if amount} == {
        of: sum(it.get(of, 0) for it in mine) for each in mine for of in each
    }
