"""The engine or the machine went down with containers: retry rules for `Host EC2*`. EN01, EN05."""

from datetime import timedelta

import pytest

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Action, ExitRule, Status
from batchq.domain.lifecycle.reconcile import reconcile, tags_running
from tests.domain.lives import after, exited, running, starting, terminate
from tests.domain.part_lives import app, ends, runs, sidecar, tasked
from tests.support.builders import NOON, retry

APP, SIDECAR = "0/app", "0/sidecar"
LATER, EARLIER = NOON + timedelta(minutes=1), NOON - timedelta(minutes=1)
ONLY_FOR_THE_HOST = retry(
    5,
    ExitRule(action=Action.RETRY, on_status_reason="Host EC2*"),
    ExitRule(action=Action.EXIT, on_reason="*"),
)


@pytest.mark.fault("EN01")
def test_an_attempt_lost_with_its_host_has_the_reason_and_exit_code():
    (attempt,) = after(running(retry=retry(2)), exited(137, host_lost=True)).attempts

    assert (attempt.status_reason, attempt.exit_code) == (status_reasons.HOST_TERMINATED, 137)
    assert attempt.status_reason.startswith("Host EC2")


def test_an_attempt_without_a_reported_start_has_the_reason_too():
    assert after(starting(), exited(255, host_lost=True)).status_reason == status_reasons.HOST_TERMINATED


@pytest.mark.fault("EN01")
def test_a_retry_rule_for_lost_hosts_applies():
    assert after(running(retry=ONLY_FOR_THE_HOST), exited(137, host_lost=True)).status is Status.RUNNABLE
    assert after(running(retry=ONLY_FOR_THE_HOST), exited(137)).status is Status.FAILED


def test_exit_code_0_on_a_lost_host_is_a_success():
    over = after(running(), exited(0, host_lost=True))

    assert (over.status, over.status_reason) == (Status.SUCCEEDED, status_reasons.EXITED)


def test_a_stop_order_keeps_its_reason_on_a_lost_host():
    over = after(running(retry=retry(2)), terminate("enough"), exited(143, host_lost=True))

    assert (over.status, over.status_reason) == (Status.FAILED, "enough")


def test_of_several_containers_the_deciding_one_has_the_reason():
    job = after(tasked(app(), sidecar()), runs(APP), runs(SIDECAR))

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
    ids=["went down since", "went down before", "nobody knows"],
)
@pytest.mark.parametrize("job", [running(), after(tasked(app()), runs(APP))], ids=["one container", "several"])
def test_an_absent_container_was_lost_with_its_host(job, lost_before, reason):
    (tag,) = tags_running(job)

    found = reconcile(active={job.id: job}, known=(), surveyed=(), expected=[tag], lost_before=lost_before)

    assert found.events == ((job.id, on.ContainerLost(attempt=1, container_key=tag.container_key, reason=reason)),)
