"""Tasks: containers that wait for each other, end each other, and decide their job. aws-batch.md 5.4, 11.3."""

import pytest

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.enums import Status
from tests.domain.lives import after, starting
from tests.domain.part_lives import app, cannot_start, ends, runs, sidecar, states, task_job
from tests.support import builders
from tests.support.builders import retry, task_container

APP, SIDECAR, INIT = "0/app", "0/sidecar", "0/init"


def init(**changes):
    return task_container("init", **{"essential": False} | changes)


def test_a_non_essential_container_that_can_never_start_fails_nothing():
    job = task_job(app(), init(), sidecar(after={"init": "SUCCESS"}))

    job = after(job, runs(APP), ends(INIT, 1))

    assert (job.status, states(job)[SIDECAR]) == (Status.RUNNING, "ENDED")
    assert after(job, ends(APP, 0)).status is Status.SUCCEEDED


def test_a_task_with_a_forbidden_container_is_not_retried():
    job = after(task_job(app(), sidecar(), retry=retry(3)), cannot_start(APP, forbidden=True), runs(SIDECAR))

    over = after(job, ends(SIDECAR, 143))

    assert (over.status, over.status_reason) == (Status.FAILED, status_reasons.NOT_STARTED)
    assert len(over.attempts) == 1


def test_the_first_essential_container_that_ends_decides():
    other = task_container("other")
    job = after(task_job(app(), other), runs(APP), runs("0/other"), ends("0/other", 3))

    over = after(job, ends(APP, 0))

    assert (over.status, over.attempts[0].decided_by, over.attempts[0].exit_code) == (Status.FAILED, "0/other", 3)


def test_a_start_failure_without_a_reason_fails_the_job():
    assert after(task_job(app()), cannot_start(APP, reason="")).status is Status.FAILED


@pytest.mark.parametrize(("work", "key"), [({}, ""), ({"task": builders.task(app())}, APP)], ids=["container", "task"])
def test_the_loss_of_a_container_that_never_ran_is_the_status_reason_of_the_attempt(work, key):
    over = after(
        starting(**work), on.ContainerLost(attempt=1, container_key=key, reason=status_reasons.HOST_TERMINATED)
    )

    assert (over.attempts[0].status_reason, over.attempts[0].reason) == (status_reasons.HOST_TERMINATED, None)
