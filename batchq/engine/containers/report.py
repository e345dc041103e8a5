"""What an inspected container says of its attempt. Pure."""

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.ids import Tag
from batchq.domain.job import Job, Status
from batchq.ports.runtime import ContainerState, Inspection

NEVER_RAN = "Container state lost"


def report(tag: Tag, found: Inspection | None) -> tuple[on.News, ...]:
    """The news of an attempt that should be running. One that is over has run: both are told, in that order."""
    number, part = tag.attempt, tag.part
    if found is None:
        return (on.ContainerLost(attempt=number, part=part),)
    match found.state:
        case ContainerState.GOING:
            return ()
        case ContainerState.CREATED:
            reason = status_reasons.HOST_TERMINATED if found.host_lost else NEVER_RAN
            return (on.ContainerLost(attempt=number, part=part, reason=reason),)
        case ContainerState.RUNNING:
            assert found.started_at is not None, f"{found} runs and never started"
            return (on.ContainerStarted(attempt=number, part=part, started_at=found.started_at, address=found.address),)
        case ContainerState.EXITED:
            return exited(tag, found)


def is_known_to_run(tag: Tag, job: Job | None) -> bool:
    """Whether it is saved that it runs, as far as that can be told at a glance: then only its end is news."""
    if job is None or job.attempt is None or tag.part:
        return False
    return job.status is Status.RUNNING and job.attempt.number == tag.attempt


def is_waited_for(event: on.News, job: Job | None) -> bool:
    """Whether anything follows from it: nothing does where a job runs that is one container, and is not to stop.

    Its timeout is counted from when it began, whenever that is read.
    """
    return not isinstance(event, on.ContainerStarted) or bool(event.part) or job is None or job.stop is not None


def exited(tag: Tag, found: Inspection) -> tuple[on.News, ...]:
    number, part = tag.attempt, tag.part
    assert found.started_at is not None, f"{found} is over and never started"
    assert found.stopped_at is not None, f"{found} is over and has no end"
    assert found.exit_code is not None, f"{found} is over and has no exit code"
    return (
        on.ContainerStarted(attempt=number, part=part, started_at=found.started_at),
        on.ContainerExited(
            attempt=number,
            part=part,
            exit_code=found.exit_code,
            started_at=found.started_at,
            stopped_at=found.stopped_at,
            out_of_memory=found.out_of_memory,
            host_lost=found.host_lost,
        ),
    )
