"""The whole table of containers: every event in every state, of a container that is one of several.

`test_lifecycle` has the same of a job with one container.
"""

from datetime import timedelta
from itertools import product

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.enums import AttemptContainerState
from batchq.domain.lifecycle.containers import TRANSITIONS
from batchq.domain.lifecycle.transitions import step
from batchq.errors import IllegalTransition
from tests.domain.lives import after
from tests.domain.part_lives import (
    app,
    cannot_start,
    described,
    ends,
    grace_ended,
    is_abandoned,
    is_created,
    is_lost,
    is_signalled,
    runs,
    sidecar,
    starts_too_late,
    states,
    task_job,
)
from tests.support.builders import NOON, task_container

KEY = "0/it"


def life(*events, **changes):
    """A job with two others beside the container that it is about: one keeps the job alive, one waits for it."""
    container = task_container("it", essential=False, start_timeout=timedelta(minutes=1), **changes)
    waits = task_container("waits", essential=False, after={"it": "SUCCESS"})
    return after(task_job(container, app(), waits), *events)


# To begin with, `it` is STARTING; where it is to be WAITING it waits for the app.
LIVES = {
    AttemptContainerState.WAITING: lambda: life(after={"app": "START"}),
    AttemptContainerState.STARTING: life,
    AttemptContainerState.RUNNING: lambda: life(runs("0/app"), runs(KEY)),
    AttemptContainerState.ENDED: lambda: life(runs("0/app"), runs(KEY), ends(KEY, 1)),
}
EVENTS = {
    on.ContainerCreated: is_created(KEY),
    on.ContainerDiscarded: on.ContainerDiscarded(attempt=1, container_key=KEY),
    on.ContainerStarted: runs(KEY),
    on.StartFailed: cannot_start(KEY),
    on.StartAbandoned: is_abandoned(KEY),
    on.ContainerExited: ends(KEY),
    on.ContainerLost: is_lost(KEY),
    on.CheckpointRequested: on.CheckpointRequested(attempt=1, container_key=KEY),
    on.StopSignalDelivered: is_signalled(KEY),
    on.GraceExpired: grace_ended(KEY),
    on.StartTimedOut: starts_too_late(KEY),
}

# The new state of the container, and the effects on any container. Containers have a stop order where noted.
CELLS = {
    (AttemptContainerState.STARTING, on.ContainerCreated): ("STARTING", []),
    (AttemptContainerState.STARTING, on.ContainerDiscarded): ("STARTING", []),
    (AttemptContainerState.STARTING, on.ContainerStarted): ("RUNNING", []),
    (AttemptContainerState.STARTING, on.StartFailed): ("ENDED", []),
    (AttemptContainerState.STARTING, on.StartAbandoned): ("ENDED", []),  # ordered to stop
    (AttemptContainerState.STARTING, on.ContainerExited): ("ENDED", ["abandon 0/it", "start 0/waits"]),
    (AttemptContainerState.STARTING, on.ContainerLost): ("ENDED", []),
    (AttemptContainerState.STARTING, on.StartTimedOut): ("STARTING", ["abandon 0/it", "abandon 0/app"]),
    (AttemptContainerState.RUNNING, on.ContainerStarted): ("RUNNING", []),
    (AttemptContainerState.RUNNING, on.ContainerExited): ("ENDED", ["start 0/waits"]),
    (AttemptContainerState.RUNNING, on.ContainerLost): ("ENDED", ["clear 0/it"]),
    (AttemptContainerState.RUNNING, on.CheckpointRequested): ("RUNNING", []),
    (AttemptContainerState.RUNNING, on.StopSignalDelivered): ("RUNNING", []),  # ordered to stop
    (AttemptContainerState.RUNNING, on.GraceExpired): ("RUNNING", ["kill 0/it"]),  # ordered to stop, signal delivered
    (AttemptContainerState.RUNNING, on.StartTimedOut): ("RUNNING", ["stop 0/it", "stop 0/app"]),
}
BEFORE = {
    on.StartAbandoned: (on.TerminateRequested(reason="enough"),),
    on.StopSignalDelivered: (on.TerminateRequested(reason="enough"),),
    on.GraceExpired: (on.TerminateRequested(reason="enough"), is_signalled(KEY)),
}
LEGAL = set(CELLS) | set(product([AttemptContainerState.ENDED], EVENTS))
ILLEGAL = set(product(AttemptContainerState, EVENTS)) - LEGAL


def test_these_cells_are_legal_and_no_others():
    assert {(state, event) for state, row in TRANSITIONS.items() for event in row} == LEGAL


def test_the_table_has_a_row_for_each_state_and_these_are_all_events():
    assert set(TRANSITIONS) == set(AttemptContainerState)
    assert EVENTS.keys() == set(on.ContainerEvent.__subclasses__())


def test_a_legal_event_leads_to_the_status_of_the_table():
    for (state, event), expected in CELLS.items():
        before = after(LIVES[state](), *BEFORE.get(event, ()))

        later, effects = step(before, EVENTS[event], NOON)

        assert (states(later)[KEY], [described(effect) for effect in effects]) == expected, (state, event)
        assert {(effect.tag.job_id, effect.tag.attempt) for effect in effects} <= {(before.id, 1)}


def test_late_events_of_an_ended_container_are_dropped():
    job = LIVES[AttemptContainerState.ENDED]()

    assert [event for event in EVENTS if step(job, EVENTS[event], NOON) != (job, ())] == []


def test_events_of_another_attempt_are_dropped():
    for state, event in product(AttemptContainerState, EVENTS):
        job = LIVES[state]()

        assert step(job, replace(EVENTS[event], attempt=2), NOON) == (job, ()), (state, event)


def test_an_illegal_event_raises_with_the_recent_history():
    for state, event in ILLEGAL:
        job = LIVES[state]()
        message = rf"{event.__name__} cannot happen to .*0/it.*{state}.* of {job.id}"

        with pytest.raises(IllegalTransition, match=message):
            step(job, EVENTS[event], NOON)


@pytest.mark.parametrize("event", [runs("0/unknown"), runs("")])
def test_an_event_of_an_unknown_container_is_illegal(event):
    with pytest.raises(IllegalTransition, match="cannot happen to None"):
        step(task_job(app(), sidecar()), event, NOON)
