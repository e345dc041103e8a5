"""The nodes of a multi-node job, shown as jobs."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.job import AttemptContainer
from batchq.domain.lifecycle import views
from batchq.domain.task import DefinitionForm, NodeRange, Nodes, Task, TaskContainer
from tests.support import builders
from tests.support.builders import NOON

LATER = NOON + timedelta(seconds=90)
ONE = Task(containers=(TaskContainer(name="default", spec=builders.container(command=("one",))),))
TWO = Task(
    containers=(
        TaskContainer(name="side", spec=builders.container(), essential=False),
        TaskContainer(name="work", spec=builders.container(command=("two",))),
        TaskContainer(name="more", spec=builders.container()),
    )
)
GANG = Nodes(
    count=3,
    main=1,
    ranges=(NodeRange(first=0, last=2, task=ONE), NodeRange(first=2, last=2, task=TWO)),
    form=DefinitionForm.NODES,
)


def part(key, state=AttemptContainerState.RUNNING, **changes):
    started = None if state in {AttemptContainerState.WAITING, AttemptContainerState.STARTING} else NOON
    return AttemptContainer(**{"key": key, "state": state, "started_at": started} | changes)


def over(key, exit_code=0, **changes):
    return part(key, AttemptContainerState.ENDED, **{"exit_code": exit_code, "stopped_at": LATER} | changes)


def running(*parts, **changes):
    attempt = builders.attempt(containers=parts, started_at=NOON)
    return builders.job(nodes=GANG, status=Status.RUNNING, started_at=NOON, attempt=attempt, **changes)


def ended(*parts, status=Status.SUCCEEDED, **changes):
    last = builders.attempt(
        containers=parts, started_at=NOON, stopped_at=LATER, status_reason=status_reasons.EXITED, exit_code=0
    )
    return builders.job(nodes=GANG, status=status, attempts=(last,), started_at=NOON, stopped_at=LATER, **changes)


@pytest.mark.parametrize("status", [Status.SUBMITTED, Status.PENDING, Status.RUNNABLE])
def test_a_node_has_the_queued_status_of_its_job(status):
    job = builders.job(nodes=GANG, status=status)

    assert [(view.status, view.id) for view in views.node_views(job)] == [
        (status, f"{job.id}#{node}") for node in range(3)
    ]


def test_a_node_has_its_own_containers_only():
    job = running(part("1/default"), part("0/default"), part("2/side"), part("2/work"))

    seen = views.node_view(job, 2)

    assert [container.key for container in seen.attempt.containers] == ["2/side", "2/work"]
    assert (views.shown_task(seen), views.leading_key(seen)) == (TWO, "2/work")


def test_the_main_node_has_the_status_of_the_job():
    job = ended(over("1/default", 3), over("0/default"), status=Status.FAILED, status_reason="why")
    attempts = (replace(job.attempts[0], exit_code=3, decided_by="1/default"),)

    main = views.node_view(replace(job, attempts=attempts), 1)

    assert (main.status, main.status_reason, main.attempts[0].exit_code) == (Status.FAILED, "why", 3)
    assert [container.key for container in main.attempts[0].containers] == ["1/default"]


STATES = [
    ((), Status.STARTING),
    ((part("0/default", AttemptContainerState.WAITING),), Status.STARTING),
    ((part("0/default", AttemptContainerState.STARTING),), Status.STARTING),
    ((part("0/default"),), Status.RUNNING),
    ((over("0/default"),), Status.SUCCEEDED),
    ((over("0/default", 1),), Status.FAILED),
    ((over("0/default", None),), Status.FAILED),
]


@pytest.mark.parametrize(("parts", "status"), STATES)
def test_another_node_has_a_status_of_its_own_and_keeps_it_after_the_job(parts, status):
    assert views.node_view(running(part("1/default"), *parts), 0).status is status
    if status not in {Status.STARTING, Status.RUNNING}:
        assert views.node_view(ended(over("1/default"), *parts), 0).status is status


MAIN, MAIN_ENDED = part("1/default"), over("1/default", 143)
NEVER_STARTED = part("0/default", AttemptContainerState.ENDED, started_at=None, reason="CannotPullContainerError: no")
NEVER_NEEDED = part("0/default", AttemptContainerState.ENDED, started_at=None, stopped_at=LATER)
LOST = part("0/default", AttemptContainerState.ENDED, reason=status_reasons.DISAPPEARED, stopped_at=LATER)
ORDER, LATE_ORDER = builders.stop(reason="enough"), builders.stop(ordered_at=LATER + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("job", "status", "reason", "is_terminated"),
    [
        (running(MAIN, over("0/default", 7)), Status.FAILED, status_reasons.EXITED, False),
        (running(MAIN, NEVER_STARTED), Status.FAILED, status_reasons.NOT_STARTED, False),
        (running(MAIN, LOST), Status.FAILED, status_reasons.DISAPPEARED, False),
        (ended(over("1/default"), NEVER_NEEDED), Status.FAILED, status_reasons.EXITED, False),
        (
            ended(MAIN_ENDED, over("0/default", 143, stop_ordered=True), stop_orders=(ORDER,)),
            Status.FAILED,
            "enough",
            True,
        ),
        (ended(MAIN_ENDED, over("0/default"), stop_orders=(ORDER,)), Status.SUCCEEDED, status_reasons.EXITED, False),
        (
            ended(MAIN_ENDED, over("0/default", 7, stop_ordered=True), stop_orders=(LATE_ORDER,)),
            Status.FAILED,
            status_reasons.EXITED,
            False,
        ),
    ],
    ids=[
        "ended before the job",
        "did not start",
        "was lost",
        "waited until the end",
        "was stopped with its job",
        "succeeded before the terminate",
        "was stopped before the terminate",
    ],
)
def test_another_node_ends_with_a_reason_of_its_own(job, status, reason, is_terminated):
    seen = views.node_view(job, 0)

    assert (seen.status, seen.status_reason, seen.is_terminated) == (status, reason, is_terminated)
    assert seen.attempt is None
    last, (container,) = seen.attempts[-1], seen.attempts[-1].containers
    assert (last.exit_code, last.reason, last.started_at) == (
        container.exit_code,
        container.reason,
        container.started_at,
    )
    assert (seen.started_at, seen.stopped_at) == (container.started_at, container.stopped_at or job.stopped_at)


def test_a_node_ends_when_its_last_container_does():
    job = running(MAIN, over("2/side"), over("2/work"), part("2/more", stop_ordered=True))

    assert views.node_view(job, 2).status is Status.RUNNING


def test_the_first_ended_essential_container_decides_a_node():
    sooner = LATER - timedelta(seconds=1)
    parts = (over("2/side", 9, stopped_at=NOON), over("2/work", 143), over("2/more", 0, stopped_at=sooner))

    seen = views.node_view(running(MAIN, *parts), 2)

    assert (seen.status, seen.attempts[0].decided_by) == (Status.SUCCEEDED, "2/more")


ALONE = {"stop_ordered": True, "terminated_by": builders.stop(reason="not you")}


@pytest.mark.parametrize(
    ("container", "status"),
    [
        (part("0/default", **ALONE), Status.RUNNING),
        (over("0/default", 0, **ALONE), Status.FAILED),
        (over("0/default", 143, **ALONE), Status.FAILED),
    ],
)
def test_a_node_terminated_alone_has_the_callers_reason(container, status):
    job = running(MAIN, container)

    seen = views.node_view(job, 0)

    assert (seen.status, seen.status_reason, seen.is_terminated) == (status, "not you", True)
    last = seen.attempt or seen.attempts[0]
    assert (last.exit_code, last.status_reason) == (container.exit_code, "not you")
    assert not views.node_view(job, 1).is_terminated


def test_a_job_cancelled_before_it_ran_has_nodes_that_never_ran():
    job = builders.job(
        nodes=GANG, status=Status.FAILED, stop_orders=(builders.cancel("no"),), status_reason="no", stopped_at=NOON
    )

    assert [(view.status, view.is_cancelled, view.attempts) for view in views.node_views(job)] == [
        (Status.FAILED, True, ())
    ] * 3


def test_between_two_attempts_a_node_waits_and_shows_the_first():
    job = replace(ended(over("1/default", 1), over("0/default", 143)), status=Status.RUNNABLE)

    seen = views.node_view(job, 0)

    assert (seen.status, len(seen.attempts), seen.attempts[0].exit_code) == (Status.RUNNABLE, 1, 143)


def test_other_jobs_have_no_nodes():
    assert views.node_views(builders.job()) == ()
    assert not views.node_exists(builders.job(), 0)


@pytest.mark.parametrize(("node", "there"), [(-1, False), (0, True), (2, True), (3, False)])
def test_a_multi_node_job_has_all_its_nodes(node, there):
    assert views.node_exists(builders.job(nodes=GANG), node) is there
