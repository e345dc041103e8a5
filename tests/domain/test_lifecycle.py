"""Both tables of transitions, for a job with one container. Times and reasons of single cells are in test_attempts."""

from itertools import product
from typing import get_args

import pytest

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.enums import ACTIVE, FINISHED, AttemptContainerState, Status
from batchq.domain.lifecycle.containers import TRANSITIONS as CONTAINERS
from batchq.domain.lifecycle.status import EDGES
from batchq.domain.lifecycle.transitions import TRANSITIONS, step
from batchq.errors import IllegalTransition, Invalid
from tests.domain.lives import (
    after,
    cancel,
    checkpoint_requested,
    checkpoint_seen,
    container_created,
    container_lost,
    exited,
    failed,
    force,
    force_fail,
    grace_expired,
    pending,
    placed,
    runnable,
    running,
    signal_delivered,
    start_failed,
    started,
    starting,
    submitted,
    succeeded,
    terminate,
    timed_out,
)
from tests.support.builders import NOON, job_id

LIVES = {
    Status.SUBMITTED: submitted,
    Status.PENDING: pending,
    Status.RUNNABLE: runnable,
    Status.STARTING: starting,
    Status.RUNNING: running,
    Status.SUCCEEDED: succeeded,
    Status.FAILED: failed,
}
EVENTS = {
    on.DependenciesPending: on.DependenciesPending(),
    on.DependenciesMet: on.DependenciesMet(),
    on.DependencyFailed: on.DependencyFailed(job_id=job_id(7)),
    on.FoundInvalid: on.FoundInvalid(reason="invalid"),
    on.FoundUnschedulable: on.FoundUnschedulable(reason="too large"),
    on.FoundSchedulable: on.FoundSchedulable(),
    on.FoundBlocked: on.FoundBlocked(reason="no room"),
    on.BlockedTooLong: on.BlockedTooLong(reason="no room"),
    on.Placed: placed(),
    on.ContainerCreated: container_created(),
    on.ContainerDiscarded: on.ContainerDiscarded(attempt=1),
    on.ContainerStarted: started(),
    on.StartFailed: start_failed(),
    on.StartAbandoned: on.StartAbandoned(attempt=1),
    on.ContainerExited: exited(0),
    on.ContainerLost: container_lost(),
    on.CheckpointRequested: checkpoint_requested(),
    on.StopSignalDelivered: signal_delivered(),
    on.CheckpointSeen: checkpoint_seen(),
    on.TimedOut: timed_out(),
    on.AttemptSuperseded: on.AttemptSuperseded(attempt=1),
    on.GraceExpired: grace_expired(),
    on.StartTimedOut: on.StartTimedOut(attempt=1),
    on.CancelRequested: cancel(),
    on.TerminateRequested: terminate(),
    on.StopForced: force(),
    on.HoldRequested: on.HoldRequested(reason="not yet"),
    on.ReleaseRequested: on.ReleaseRequested(),
    on.PauseRequested: on.PauseRequested(reason="not now"),
    on.ResumeRequested: on.ResumeRequested(),
    on.ForceFailed: force_fail(),
}
ATTEMPT_EVENTS = {*on.ContainerEvent.__subclasses__(), *on.AttemptEvent.__subclasses__()} - {on.ContainerEvent}

QUEUED = [Status.SUBMITTED, Status.PENDING, Status.RUNNABLE]
HOLDS = [on.HoldRequested, on.ReleaseRequested, on.PauseRequested, on.ResumeRequested]
ENDS = [on.CancelRequested, on.TerminateRequested, on.StopForced]

# The new status of a job with one attempt, and the effects. Jobs have a stop order where noted.
CELLS = {
    **dict.fromkeys(product(QUEUED, ENDS), (Status.FAILED, [])),
    **{(status, event): (status, []) for status, event in product(QUEUED, HOLDS)},
    **{(status, event): (status, []) for status, event in product(ACTIVE, [on.ReleaseRequested, on.ResumeRequested])},
    (Status.SUBMITTED, on.DependenciesPending): (Status.PENDING, []),
    (Status.SUBMITTED, on.DependenciesMet): (Status.RUNNABLE, []),
    (Status.SUBMITTED, on.DependencyFailed): (Status.FAILED, []),
    (Status.SUBMITTED, on.FoundInvalid): (Status.FAILED, []),
    (Status.PENDING, on.DependenciesPending): (Status.PENDING, []),
    (Status.PENDING, on.DependenciesMet): (Status.RUNNABLE, []),
    (Status.PENDING, on.DependencyFailed): (Status.FAILED, []),
    (Status.PENDING, on.FoundInvalid): (Status.FAILED, []),
    (Status.RUNNABLE, on.FoundUnschedulable): (Status.RUNNABLE, []),
    (Status.RUNNABLE, on.FoundSchedulable): (Status.RUNNABLE, []),
    (Status.RUNNABLE, on.FoundBlocked): (Status.RUNNABLE, []),
    (Status.RUNNABLE, on.BlockedTooLong): (Status.FAILED, []),
    (Status.RUNNABLE, on.Placed): (Status.STARTING, [do.StartContainer]),
    (Status.STARTING, on.ContainerCreated): (Status.STARTING, []),
    (Status.STARTING, on.ContainerDiscarded): (Status.STARTING, []),
    (Status.STARTING, on.ContainerStarted): (Status.RUNNING, []),
    (Status.STARTING, on.StartFailed): (Status.FAILED, [do.CleanUpContainer]),
    (Status.STARTING, on.StartAbandoned): (Status.FAILED, [do.CleanUpContainer]),  # with a stop order
    (Status.STARTING, on.ContainerExited): (Status.SUCCEEDED, [do.AbandonStart, do.CleanUpContainer]),
    (Status.STARTING, on.ContainerLost): (Status.FAILED, [do.CleanUpContainer]),
    (Status.STARTING, on.StartTimedOut): (Status.STARTING, []),  # no container waits for this one
    (Status.STARTING, on.CheckpointSeen): (Status.STARTING, []),
    (Status.STARTING, on.AttemptSuperseded): (Status.RUNNABLE, [do.CleanUpContainer]),
    (Status.STARTING, on.CancelRequested): (Status.STARTING, []),
    (Status.STARTING, on.TerminateRequested): (Status.STARTING, [do.AbandonStart]),
    (Status.STARTING, on.StopForced): (Status.STARTING, [do.AbandonStart]),
    (Status.STARTING, on.PauseRequested): (Status.STARTING, [do.AbandonStart]),
    (Status.STARTING, on.ForceFailed): (Status.FAILED, [do.CleanUpContainer]),
    (Status.RUNNING, on.ContainerStarted): (Status.RUNNING, []),
    (Status.RUNNING, on.ContainerExited): (Status.SUCCEEDED, [do.CleanUpContainer]),
    (Status.RUNNING, on.ContainerLost): (Status.FAILED, [do.CleanUpContainer]),
    (Status.RUNNING, on.CheckpointRequested): (Status.RUNNING, []),
    (Status.RUNNING, on.StopSignalDelivered): (Status.RUNNING, []),  # with a stop order
    (Status.RUNNING, on.StartTimedOut): (Status.RUNNING, []),
    (Status.RUNNING, on.CheckpointSeen): (Status.RUNNING, []),
    (Status.RUNNING, on.TimedOut): (Status.RUNNING, [do.StopContainer]),
    (Status.RUNNING, on.AttemptSuperseded): (Status.RUNNABLE, [do.CleanUpContainer]),
    (Status.RUNNING, on.GraceExpired): (Status.RUNNING, [do.KillContainer]),  # with a stop order whose signal was sent
    (Status.RUNNING, on.CancelRequested): (Status.RUNNING, []),
    (Status.RUNNING, on.TerminateRequested): (Status.RUNNING, [do.StopContainer]),
    (Status.RUNNING, on.StopForced): (Status.RUNNING, [do.KillContainer]),
    (Status.RUNNING, on.PauseRequested): (Status.RUNNING, [do.StopContainer]),
    (Status.RUNNING, on.ForceFailed): (Status.FAILED, [do.CleanUpContainer]),
}
LATE = EVENTS.keys() - ATTEMPT_EVENTS - {on.Placed, *HOLDS}
# The requests that are refused in this status, with the reason and the advice.
REFUSED = {
    **dict.fromkeys(product(QUEUED, [on.ForceFailed]), "has no container to give up: terminate it"),
    **dict.fromkeys(product(ACTIVE, [on.HoldRequested]), "cannot be held: pause it"),
    **dict.fromkeys(product(FINISHED, HOLDS), "can no longer be held, released, paused or resumed"),
}
BEFORE = {
    on.StartAbandoned: (terminate(),),
    on.StopSignalDelivered: (terminate(),),
    on.GraceExpired: (terminate(), signal_delivered()),
}
LEGAL = set(CELLS) | set(product(FINISHED, LATE)) | set(REFUSED)
WITHOUT_ATTEMPT = set(product(set(LIVES) - {Status.STARTING, Status.RUNNING}, ATTEMPT_EVENTS))
ILLEGAL = set(product(LIVES, EVENTS)) - LEGAL - WITHOUT_ATTEMPT


def test_these_cells_are_legal_and_no_others():
    of_jobs = {(status, event) for status, row in TRANSITIONS.items() for event in row}
    of_containers = {(Status(state), event) for state in ACTIVE for event in CONTAINERS[AttemptContainerState(state)]}

    assert of_jobs | of_containers == LEGAL
    assert of_jobs.isdisjoint(of_containers)


def test_the_table_has_a_row_for_each_status_and_these_are_all_events():
    assert set(TRANSITIONS) == set(LIVES) == set(Status)
    assert set(EVENTS) == ATTEMPT_EVENTS | set(get_args(on.Event)) - {on.AttemptEvent}


def test_a_legal_event_leads_to_the_status_of_the_table():
    for (status, event), expected in CELLS.items():
        before = after(LIVES[status](), *BEFORE.get(event, ()))

        later, effects = step(before, EVENTS[event], NOON)

        assert (later.status, [type(effect) for effect in effects]) == expected, (status, event)
        assert [effect.tag.job_id for effect in effects] == [before.id for _ in effects]


def test_an_impossible_request_is_refused_with_advice():
    for (status, event), advice in REFUSED.items():
        job = LIVES[status]()

        with pytest.raises(Invalid, match=rf"^Job {job.id} is {status}.*{advice}\.$"):
            step(job, EVENTS[event], NOON)


def test_late_events_change_nothing():
    for status, event in {*product(FINISHED, LATE), *WITHOUT_ATTEMPT}:
        job = LIVES[status]()

        assert step(job, EVENTS[event], NOON) == (job, ()), event


def test_an_illegal_event_raises_with_the_recent_history():
    for status, event in ILLEGAL:
        job = LIVES[status]()

        with pytest.raises(IllegalTransition, match=rf"{event.__name__} cannot happen to (.* of )?{job.id}: {status}"):
            step(job, EVENTS[event], NOON)


def test_a_job_follows_only_these_edges():
    assert {status.value: {target.value for target in targets} for status, targets in EDGES.items()} == {
        "SUBMITTED": {"PENDING", "RUNNABLE", "FAILED"},
        "PENDING": {"RUNNABLE", "SUCCEEDED", "FAILED"},
        "RUNNABLE": {"STARTING", "FAILED"},
        "STARTING": {"RUNNING", "RUNNABLE", "FAILED"},
        "RUNNING": {"SUCCEEDED", "RUNNABLE", "FAILED"},
        "SUCCEEDED": set(),
        "FAILED": set(),
    }
