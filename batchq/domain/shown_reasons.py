"""Reasons as clients see them: with the host paths that were created for mounts, because often they are typing errors.

Pure. The attempt stores the paths, and its reasons without them, so that the patterns of evaluateOnExit match the same
text with and without a created path.
"""

from collections.abc import Iterable

from batchq.domain.job import QUEUED, Attempt, AttemptContainer, Job

#: AWS: the limit of container.reason.
MAX_REASON_LENGTH = 1024


def merge_paths(known: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """All paths, in order, each once. A container that is created again keeps the paths that the first one created."""
    return tuple(dict.fromkeys((*known, *new)))


def shown_container_reason(run: Attempt | AttemptContainer) -> str | None:
    """The reason of an attempt or container, followed by its created paths; None if there is neither."""
    return _followed(run.reason, _paths(run))


def shown_status_reason(job: Job) -> str | None:
    """The status reason followed by the paths created for any attempt.

    Without the paths for a cancelled or terminated job, which shows the caller's reason, and for a queued job that
    shows why it waits.
    """
    attempts = job.all_attempts
    if not attempts or job.is_cancelled or job.is_terminated:
        return job.status_reason
    if job.status in QUEUED and job.status_reason != attempts[-1].status_reason:
        return job.status_reason
    return _followed(job.status_reason, merge_paths((), tuple(path for it in attempts for path in _paths(it))))


def _paths(run: Attempt | AttemptContainer) -> tuple[str, ...]:
    containers: Iterable[AttemptContainer] = () if isinstance(run, AttemptContainer) else run.containers
    return merge_paths(run.created_host_paths, tuple(path for it in containers for path in it.created_host_paths))


def _followed(reason: str | None, paths: tuple[str, ...]) -> str | None:
    if not paths:
        return reason
    note = _note(paths)
    return (note if reason is None else f"{reason.removesuffix('.')}. {note}")[:MAX_REASON_LENGTH]


def _note(paths: tuple[str, ...]) -> str:
    if len(paths) == 1:
        return f"Host path {paths[0]!r} did not exist and was created."
    return f"Host paths that did not exist were created: {', '.join(map(repr, paths))}."
