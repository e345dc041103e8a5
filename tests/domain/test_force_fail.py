"""Force-fail: a job ends without its container, which does not exit."""

from batchq.domain.job import Status
from tests.domain.lives import (
    after,
    apply_events,
    at,
    cancel,
    force_fail,
    outcome,
    running,
)
from tests.domain.part_lives import (
    described,
    multi_node_job,
    runs,
)

WHY = "Force-failed: it does not end"


def test_a_remembered_cancel_does_not_change_the_reason():
    assert outcome(after(running(), cancel(), force_fail())) == (Status.FAILED, WHY, False, False)


def test_the_end_is_not_before_the_start():
    job = after(running(), force_fail(), now=at(-5))

    assert job.stopped_at == job.attempts[0].stopped_at == at(0)


def test_nodes_that_never_started_need_no_clean_up():
    over, effects = apply_events(after(multi_node_job(), runs("0/app")), force_fail())

    assert over.status is Status.FAILED
    assert "clear 0/app" in map(described, effects)
    assert all(described(it).startswith("clear") for it in effects)
