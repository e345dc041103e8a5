"""Translates the inspection of a container into events of its attempt. Pure."""

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import Tag
from batchq.domain.job import Job, Status
from batchq.ports.runtime import ContainerState, Inspection

NEVER_RAN = "Container state lost"


def events_of_inspection(tag: Tag, found: Inspection | None) -> tuple[on.AttemptEvent, ...]:
    """The events of an attempt that should be running. For an ended container, its start comes before its exit."""
    number, key = tag.attempt, tag.container_key
    if found is None:
        return (on.ContainerLost(attempt=number, container_key=key),)
    match found.state:
        case ContainerState.GOING:
            return ()
        case ContainerState.CREATED:
            reason = status_reasons.HOST_TERMINATED if found.host_lost else NEVER_RAN
            return (on.ContainerLost(attempt=number, container_key=key, reason=reason),)
        case ContainerState.RUNNING:
            assert found.started_at is not None, f"{found} runs and never started"
            return (
                on.ContainerStarted(
                    attempt=number, container_key=key, started_at=found.started_at, address=found.address
                ),
            )
        case ContainerState.EXITED:
            return exit_events(tag, found)


def is_known_to_run(tag: Tag, job: Job | None) -> bool:
    """Whether the single container of the job is saved as RUNNING; then only its end is a new event.

    False for a container of a multi-container job.
    """
    if job is None or job.attempt is None or tag.container_key:
        return False
    return job.status is Status.RUNNING and job.attempt.number == tag.attempt


def is_urgent(event: on.AttemptEvent, job: Job | None) -> bool:
    """Whether the event must be handled without delay.

    Only the start of a single container without a pending stop can wait: its timeout counts from `started_at`, whenever
    the event is handled.
    """
    return (
        not isinstance(event, on.ContainerStarted) or bool(event.container_key) or job is None or job.stop is not None
    )


def exit_events(tag: Tag, found: Inspection) -> tuple[on.AttemptEvent, ...]:
    """The events that report when an ended container started, and how and when it exited."""
    number, key = tag.attempt, tag.container_key
    assert found.started_at is not None, f"{found} is over and never started"
    assert found.stopped_at is not None, f"{found} is over and has no end"
    assert found.exit_code is not None, f"{found} is over and has no exit code"
    return (
        on.ContainerStarted(attempt=number, container_key=key, started_at=found.started_at),
        on.ContainerExited(
            attempt=number,
            container_key=key,
            exit_code=found.exit_code,
            started_at=found.started_at,
            stopped_at=found.stopped_at,
            out_of_memory=found.out_of_memory,
            host_lost=found.host_lost,
        ),
    )
