"""The engine or the machine went down with containers: retry rules for `Host EC2*`. EN01, EN05."""

from datetime import timedelta

import pytest

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Status
from batchq.domain.lifecycle.reconcile import reconcile, tags_running
from tests.domain.lives import after, exited, running, starting
from tests.domain.part_lives import app, ends, runs, sidecar, task_job
from tests.support.builders import NOON

APP, SIDECAR = "0/app", "0/sidecar"
LATER, EARLIER = NOON + timedelta(minutes=1), NOON - timedelta(minutes=1)


def test_an_attempt_without_a_reported_start_has_the_reason_too():
    assert after(starting(), exited(255, host_lost=True)).status_reason == status_reasons.HOST_TERMINATED


def test_exit_code_0_on_a_lost_host_is_a_success():
    over = after(running(), exited(0, host_lost=True))

    assert (over.status, over.status_reason) == (Status.SUCCEEDED, status_reasons.EXITED)


def test_of_several_containers_the_deciding_one_has_the_reason():
    job = after(task_job(app(), sidecar()), runs(APP), runs(SIDECAR))

    assert (
        after(job, ends(APP, 137, host_lost=True), ends(SIDECAR, 137)).status_reason == status_reasons.HOST_TERMINATED
    )
    assert after(job, ends(APP, 1), ends(SIDECAR, 137, host_lost=True)).status_reason == status_reasons.EXITED


@pytest.mark.parametrize(
    ("lost_before", "reason"),
    [
        (LATER, status_reasons.HOST_TERMINATED),
        (EARLIER, status_reasons.DISAPPEARED),
        (None, status_reasons.DISAPPEARED),
    ],
    ids=["went down since", "went down before", "unknown"],
)
@pytest.mark.parametrize("job", [running(), after(task_job(app()), runs(APP))], ids=["one container", "several"])
def test_an_absent_container_was_lost_with_its_host(job, lost_before, reason):
    (tag,) = tags_running(job)

    found = reconcile(active={job.id: job}, known=(), surveyed=(), expected=[tag], lost_before=lost_before)

    assert found.events == ((job.id, on.ContainerLost(attempt=1, container_key=tag.container_key, reason=reason)),)
