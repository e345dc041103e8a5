"""Tasks: containers that wait for each other, end each other, and decide their job. aws-batch.md 5.4, 11.3."""

from datetime import timedelta

import pytest

from batchq.domain import status_reasons
from batchq.domain.container import Overrides, Resources
from batchq.domain.job import Status
from batchq.domain.task import (
    NodeRange,
    Nodes,
    Task,
    TaskContainer,
    effective_nodes,
    effective_task,
    together,
)
from tests.domain.lives import after, at, lived, placed, runnable
from tests.domain.part_lives import (
    app,
    asks,
    ended_at,
    ends,
    given_up,
    in_words,
    is_lost,
    never_starts,
    part,
    parts,
    runs,
    sidecar,
    states,
    tasked,
)
from tests.support import builders
from tests.support.builders import retry, task, task_container

APP, SIDECAR, INIT = "0/app", "0/sidecar", "0/init"


MINUTE = timedelta(minutes=1)


def init(**changes):
    return task_container("init", **{"essential": False} | changes)


# --------------------------------------------------------------------------------------------------------------- starts


def test_containers_without_conditions_start_at_once():
    job, effects = lived(runnable(task=task(app(), sidecar())), placed())

    assert [in_words(it) for it in effects] == ["start 0/app", "start 0/sidecar"]
    assert (job.status, states(job)) == (Status.STARTING, {APP: "STARTING", SIDECAR: "STARTING"})


def test_a_task_of_one_container_is_a_task():
    assert states(tasked(app())) == {APP: "STARTING"}


@pytest.mark.parametrize(
    ("condition", "events"),
    [("START", [runs(INIT)]), ("COMPLETE", [runs(INIT), ends(INIT, 3)]), ("SUCCESS", [runs(INIT), ends(INIT, 0)])],
)
def test_a_container_starts_when_its_condition_is_met(condition, events):
    job = tasked(init(), app(after={"init": condition}))

    assert states(job) == {INIT: "STARTING", APP: "WAITING"}
    assert asks(job, *events) == ["start 0/app"]


@pytest.mark.parametrize("condition", ["COMPLETE", "SUCCESS"])
def test_a_container_that_waits_for_an_end_starts_after_it(condition):
    job = tasked(init(), app(after={"init": condition}))

    assert asks(job, runs(INIT)) == []


def test_a_container_that_waits_for_two_starts_after_both():
    job = tasked(init(), sidecar(), app(after={"init": "SUCCESS", "sidecar": "START"}))

    assert asks(job, runs(INIT), ends(INIT)) == []
    assert asks(job, runs(INIT), ends(INIT), runs(SIDECAR)) == ["start 0/app"]


def test_the_job_runs_from_its_first_containers_start():
    job = after(tasked(app(), sidecar()), runs(SIDECAR, since=at(1)), runs(APP, since=at(5)), now=at(9))

    assert (job.status, job.started_at, job.attempt.started_at) == (Status.RUNNING, at(1), at(1))
    assert [it.started_at for it in parts(job)] == [at(5), at(1)]


def test_a_start_in_the_future_is_now():
    assert after(tasked(app()), runs(APP, since=at(60)), now=at(5)).started_at == at(5)


def test_a_container_that_ended_before_its_reported_start_has_run():
    job = after(tasked(init(), app(after={"init": "START"})), ends(INIT, 1))

    assert (job.status, states(job)) == (Status.RUNNING, {INIT: "ENDED", APP: "STARTING"})


@pytest.mark.parametrize(
    ("condition", "event", "never"),
    [
        ("START", never_starts(INIT), "START"),
        ("SUCCESS", ends(INIT, 1), "SUCCESS"),
        ("SUCCESS", never_starts(INIT, exit_code=0), "SUCCESS"),
        ("SUCCESS", is_lost(INIT), "SUCCESS"),
    ],
)
def test_a_condition_that_can_no_longer_be_met_fails_the_job(condition, event, never):
    job = after(tasked(init(), app(after={"init": condition})), event)

    assert (job.status, job.status_reason) == (Status.FAILED, status_reasons.NOT_STARTED)
    assert job.attempts[0].reason == f"ContainerDependencyError: container init will not reach {never}"
    assert job.attempts[0].exit_code is None


def test_a_non_essential_container_that_can_never_start_fails_nothing():
    job = tasked(app(), init(), sidecar(after={"init": "SUCCESS"}))

    job = after(job, runs(APP), ends(INIT, 1))

    assert (job.status, states(job)[SIDECAR]) == (Status.RUNNING, "ENDED")
    assert after(job, ends(APP, 0)).status is Status.SUCCEEDED


def test_an_abandoned_container_abandons_those_that_wait_for_it():
    job = tasked(init(), sidecar(after={"init": "SUCCESS"}), app(after={"sidecar": "START"}))

    assert after(job, ends(INIT, 1)).status is Status.FAILED


def test_no_container_starts_while_its_node_stops():
    helper = task_container("helper", after={"init": "START"}, essential=False)
    job = tasked(init(), app(after={"init": "SUCCESS"}), helper)

    assert asks(job, ends(INIT, 1)) == ["abandon 0/init", "clear 0/init"]


# ----------------------------------------------------------------------------------------------------------------- ends


def test_the_end_of_the_essential_container_stops_the_others():
    job = tasked(app(), sidecar())

    assert asks(job, runs(APP), runs(SIDECAR), ends(APP)) == ["stop 0/sidecar", "clear 0/app"]


def test_the_job_is_over_when_all_its_containers_are():
    job = after(tasked(app(), sidecar()), runs(APP), runs(SIDECAR), ends(APP, **ended_at(5)))

    over = after(job, ends(SIDECAR, 143, **ended_at(7)))

    assert (job.status, over.status) == (Status.RUNNING, Status.SUCCEEDED)
    assert (over.status_reason, over.attempts[0].exit_code, over.stopped_at) == (status_reasons.EXITED, 0, at(7))
    assert over.attempts[0].decided_by == APP
    assert [it.exit_code for it in over.attempts[0].containers] == [0, 143]


def test_a_non_essential_container_ends_alone_and_decides_nothing():
    job = after(tasked(app(), sidecar()), runs(APP), runs(SIDECAR), ends(SIDECAR, 1))

    assert (job.status, job.attempt.decided_by) == (Status.RUNNING, None)
    assert after(job, ends(APP)).status is Status.SUCCEEDED


def test_a_task_with_a_forbidden_container_is_not_retried():
    job = after(tasked(app(), sidecar(), retry=retry(3)), never_starts(APP, forbidden=True), runs(SIDECAR))

    over = after(job, ends(SIDECAR, 143))

    assert (over.status, over.status_reason) == (Status.FAILED, status_reasons.NOT_STARTED)
    assert len(over.attempts) == 1


def test_the_first_essential_container_that_ends_decides():
    other = task_container("other")
    job = after(tasked(app(), other), runs(APP), runs("0/other"), ends("0/other", 3))

    over = after(job, ends(APP, 0))

    assert (over.status, over.attempts[0].decided_by, over.attempts[0].exit_code) == (Status.FAILED, "0/other", 3)


def test_a_starting_container_is_abandoned_when_its_node_stops():
    job = after(tasked(app(), sidecar()), runs(APP))

    assert asks(job, ends(APP)) == ["abandon 0/sidecar"]
    assert after(job, ends(APP), given_up(SIDECAR)).status is Status.SUCCEEDED


def test_an_abandoned_container_that_started_is_stopped():
    assert asks(tasked(app(), sidecar()), ends(APP), runs(SIDECAR)) == ["stop 0/sidecar", "clear 0/app"]


def test_a_waiting_container_never_starts_after_its_node_stopped():
    job = tasked(app(), sidecar(after={"app": "COMPLETE"}))

    over = after(job, ends(APP))

    assert (over.status, part(over, SIDECAR).started_at) == (Status.SUCCEEDED, None)


def test_an_essential_container_that_cannot_start_fails_the_job_and_stops_the_others():
    job = tasked(app(), sidecar())

    over = after(job, runs(SIDECAR), never_starts(APP, exit_code=127), ends(SIDECAR, 143))

    assert asks(job, runs(SIDECAR), never_starts(APP)) == ["stop 0/sidecar", "clear 0/app"]
    assert (over.status, over.status_reason) == (Status.FAILED, status_reasons.NOT_STARTED)
    assert (over.attempts[0].exit_code, over.attempts[0].reason) == (127, "no such file")


def test_a_start_failure_without_a_reason_fails_the_job():
    assert after(tasked(app()), never_starts(APP, reason="")).status is Status.FAILED


def test_a_lost_essential_container_fails_the_job():
    over = after(tasked(app()), runs(APP), is_lost(APP))

    assert (over.status, over.status_reason) == (Status.FAILED, status_reasons.DISAPPEARED)
    assert (over.attempts[0].exit_code, over.attempts[0].reason) == (None, None)


def test_an_essential_container_out_of_memory_has_the_reason():
    over = after(tasked(app()), runs(APP), ends(APP, 137, out_of_memory=True))

    assert (over.attempts[0].exit_code, over.attempts[0].reason) == (137, status_reasons.OUT_OF_MEMORY)


def test_a_success_has_no_memory_reason():
    assert after(tasked(app()), runs(APP), ends(APP, 0, out_of_memory=True)).attempts[0].reason is None


def test_no_container_ends_before_its_start():
    over = after(tasked(app()), ends(APP, started_at=at(9), stopped_at=at(3)), now=at(20))

    assert (part(over, APP).started_at, part(over, APP).stopped_at, over.stopped_at) == (at(9), at(9), at(9))


def test_a_lost_container_does_not_end_before_its_start():
    over = after(after(tasked(app()), runs(APP, since=at(9)), now=at(9)), is_lost(APP), now=at(5))

    assert part(over, APP).stopped_at == at(9)


def test_ended_containers_are_kept_until_all_have_started():
    job = tasked(init(), app(after={"init": "SUCCESS"}))

    assert asks(job, runs(INIT), ends(INIT)) == ["start 0/app"]
    assert asks(job, runs(INIT), ends(INIT), runs(APP)) == ["clear 0/init"]
    assert asks(job, runs(INIT), ends(INIT), runs(APP), ends(APP)) == ["clear 0/app"]


def test_a_container_that_ended_before_its_start_was_answered_is_not_started_again():
    job = tasked(init(), app(after={"init": "SUCCESS"}))

    assert asks(job, ends(INIT)) == ["abandon 0/init", "start 0/app"]


def test_a_retry_starts_all_containers_again():
    job = after(tasked(app(), sidecar(), attempts=2), runs(APP), runs(SIDECAR), ends(APP, 1), ends(SIDECAR, 143))

    again, effects = lived(job, placed())

    assert job.status is Status.RUNNABLE
    assert [str(it.tag) for it in effects] == [f"{job.id}/2/0/app", f"{job.id}/2/0/sidecar"]
    assert states(again) == {APP: "STARTING", SIDECAR: "STARTING"}
    assert again.attempts == job.attempts


def container(name, *, essential=True, **changes):
    return TaskContainer(name=name, spec=builders.container(**changes), essential=essential)


TASK = Task(
    containers=(
        container("side", essential=False, command=("Ref::what",), millicpus=250, memory_mib=32),
        container("work", command=("run", "Ref::what"), millicpus=1000, memory_mib=64, gpus=1),
    )
)


SMALL = Task(containers=(container("default", millicpus=1000, memory_mib=16),))


GANG = Nodes(count=4, main=0, ranges=(NodeRange(first=0, last=3, task=SMALL), NodeRange(first=2, last=3, task=TASK)))


def test_a_task_reserves_what_its_containers_do():
    assert TASK.resources == Resources(millicpus=1250, memory_mib=96, gpus=1)


def test_a_multi_node_job_reserves_the_sum_of_its_nodes():
    assert GANG.resources == Resources(millicpus=2 * 1000 + 2 * 1250, memory_mib=2 * 16 + 2 * 96, gpus=2)


def test_the_first_essential_container_represents_the_task():
    assert TASK.leading.name == "work"
    assert GANG.leading.name == "default"


def test_each_container_has_its_own_overrides_and_all_have_the_parameters():
    over = {"work": Overrides(environment=(("A", "1"),), memory_mib=128)}

    made = effective_task(TASK, over, (("what", "it"),))

    assert [it.spec.command for it in made.containers] == [("it",), ("run", "it")]
    assert [it.spec.environment for it in made.containers] == [(), (("A", "1"),)]
    assert [it.spec.resources.memory_mib for it in made.containers] == [32, 128]


def test_overrides_of_a_range_apply_to_it_only():
    made = effective_nodes(GANG, {(2, 3): {"side": Overrides(command=("x",))}}, ())

    assert made.task(2).container("side").spec.command == ("x",)
    assert made.task(0) == GANG.task(0)


def test_the_length_of_all_overrides_of_a_task_counts():
    one = Overrides(command=("a", "b"), environment=(("A", "1"),))
    two = Overrides(command=("c",), environment=(("A", "2"),))

    assert together([one, Overrides(), two]) == Overrides(command=("a", "b", "c"), environment=(("A", "1"), ("A", "2")))
