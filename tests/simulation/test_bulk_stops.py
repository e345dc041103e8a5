"""The check of bulk stops accepts outcomes that a saved order to an array has decided, and no others. Decision 0027."""

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.bulk_stop import BulkStopOrder, JobOutcome, Kind, Outcome
from batchq.domain.job import Status
from batchq.domain.lifecycle.arrays import begin, spawn, step
from tests.simulation.bulk_stops import BulkStopChecks
from tests.simulation.run_log import RunLog
from tests.support import builders
from tests.support.builders import NOON

CANCEL = BulkStopOrder(kind=Kind.CANCEL, reason="enough")


def family(*, under_order):
    """An array of two RUNNABLE children whose rows do not contain the order to its array yet."""
    parent, children = spawn(begin(builders.job(array_size=2), NOON), 2, NOON)
    if under_order:
        parent, _ = step(parent, on.CancelRequested(reason="enough"), NOON)
    return parent, *(replace(it, status=Status.RUNNABLE) for it in children)


@pytest.mark.parametrize("under_order", [True, False])
async def test_a_waiting_child_may_be_reported_as_finished_once_its_array_is_under_order(under_order):
    parent, child, other = family(under_order=under_order)
    run_log = RunLog()
    bulk_stops = BulkStopChecks(jobs={it.id: it for it in (parent, child, other)}, run_log=run_log)

    bulk_stops.reported(CANCEL, (JobOutcome(job_id=child.id, outcome=Outcome.ALREADY_FINISHED),))

    assert (run_log.failure is None) is under_order
    assert bulk_stops.last_allowed(child) == 0
