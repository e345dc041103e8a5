"""Tasks: containers that wait for each other, end each other, and decide their job. aws-batch.md 5.4, 11.3."""

import pytest

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.container import Overrides, Resources
from batchq.domain.enums import Status
from batchq.domain.task import (
    DefinitionForm,
    NodeRange,
    Nodes,
    Task,
    TaskContainer,
    effective_nodes,
    one_task,
    together,
)
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


def container(name, *, essential=True, **changes):
    return TaskContainer(name=name, spec=builders.container(**changes), essential=essential)


TASK = Task(
    containers=(
        container("side", essential=False, command=("Ref::what",), millicpus=250, memory_mib=32),
        container("work", command=("run", "Ref::what"), millicpus=1000, memory_mib=64, gpus=1),
    )
)
SMALL = Task(containers=(container("default", millicpus=1000, memory_mib=16),))
GANG = Nodes(
    count=4,
    ranges=(NodeRange(first=0, last=3, task=SMALL), NodeRange(first=2, last=3, task=TASK)),
    form=DefinitionForm.NODES,
)


def test_a_task_reserves_what_its_containers_do():
    assert TASK.resources == Resources(millicpus=1250, memory_mib=96, gpus=1)


def test_a_multi_node_job_reserves_the_sum_of_its_nodes():
    assert GANG.resources == Resources(millicpus=2 * 1000 + 2 * 1250, memory_mib=2 * 16 + 2 * 96, gpus=2)


def test_the_first_essential_container_represents_the_task():
    assert TASK.leading.name == "work"
    assert GANG.leading.name == "default"


def test_each_container_has_its_own_overrides_and_all_have_the_parameters():
    over = {"work": Overrides(environment=(("A", "1"),), memory_mib=128)}

    (made,) = effective_nodes(one_task(TASK), {(0, 0): over}, (("what", "it"),)).tasks

    assert [other_container.spec.command for other_container in made.containers] == [("it",), ("run", "it")]
    assert [other_container.spec.environment for other_container in made.containers] == [(), (("A", "1"),)]
    assert [other_container.spec.resources.memory_mib for other_container in made.containers] == [32, 128]


def test_overrides_of_a_range_apply_to_it_only():
    made = effective_nodes(GANG, {(2, 3): {"side": Overrides(command=("x",))}}, ())

    assert made.task(2).container("side").spec.command == ("x",)
    assert made.task(0) == GANG.task(0)


def test_the_length_of_all_overrides_of_a_task_counts():
    one = Overrides(command=("a", "b"), environment=(("A", "1"),))
    two = Overrides(command=("c",), environment=(("A", "2"),))

    assert together([one, Overrides(), two]) == Overrides(command=("a", "b", "c"), environment=(("A", "1"), ("A", "2")))


@pytest.mark.parametrize(("work", "key"), [({}, ""), ({"task": builders.task(app())}, APP)], ids=["container", "task"])
def test_the_loss_of_a_container_that_never_ran_is_the_status_reason_of_the_attempt(work, key):
    over = after(
        starting(**work), on.ContainerLost(attempt=1, container_key=key, reason=status_reasons.HOST_TERMINATED)
    )

    assert (over.attempts[0].status_reason, over.attempts[0].reason) == (status_reasons.HOST_TERMINATED, None)
