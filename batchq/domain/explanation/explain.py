"""`explain`: the explanation of any job for a reader, and those of STARTING and RUNNING jobs. Pure."""

from collections.abc import Sequence

from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.explanation import words
from batchq.domain.explanation.codes import Code, Explanation, Fact
from batchq.domain.explanation.ended import explain_ended, explain_stopping, order_facts, order_words
from batchq.domain.explanation.facts import Reader, RelatedJobs, SchedulerState, StartPhase, StartProgress
from batchq.domain.explanation.queued import explain_held, explain_obstructed, explain_pending, explain_runnable
from batchq.domain.explanation.words import explanation
from batchq.domain.job import Job
from batchq.domain.lifecycle.forced_failure import is_damaged
from batchq.domain.lifecycle.reconcile import tags_under_way
from batchq.domain.scheduling.backfill import latest_end


def explain(job: Job, neighbours: RelatedJobs, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of a job that the reader may see.

    Other jobs, queues and accounts that the reader may not see are not named.
    """
    if is_damaged(job):
        return explanation(Code.UNREADABLE, since=None, facts={}, words={})
    if job.held:
        return explain_held(job, state)
    match job.status:
        case Status.SUBMITTED | Status.PENDING:
            return explain_pending(job, neighbours, state, reader)
        case Status.RUNNABLE:
            return explain_runnable(job, neighbours, state, reader)
        case Status.STARTING:
            return explain_starting(job, state, reader)
        case Status.RUNNING:
            return explain_running(job, state)
        case Status.SUCCEEDED | Status.FAILED:
            return explain_ended(job, neighbours, reader, state.now)


def explain_running(job: Job, state: SchedulerState) -> Explanation:
    """The explanation of a RUNNING job."""
    stopped = explain_stopping(job, state.now)
    if stopped is not None:
        return stopped
    since = job.started_at
    facts, text = _placed(job)
    text["length"] = words.duration_words(state.now - since) if since is not None else "0 s"
    if since is not None:
        facts["startedAt"] = since
    end = None if job.attempt is None else latest_end(job, state.now)
    if end is not None and job.spec.timeout is not None and since is not None:
        facts["endsBy"] = end
        text["left"] = words.duration_words(since + job.spec.timeout - state.now)
    if state.obstacle is not None and state.obstacle.code is Code.ENGINE_UNAVAILABLE and state.obstacle.since:
        text["away"] = words.duration_words(state.now - state.obstacle.since)
    cancel = job.cancel
    if cancel is None:
        return explanation(Code.RUNNING, since=since, facts=facts, words=text)
    return explanation(
        Code.NO_RETRY,
        since=cancel.ordered_at,
        facts=facts | order_facts(cancel),
        words=order_words(cancel, state.now) | text,
    )


def explain_starting(job: Job, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of a STARTING job."""
    stopped = explain_stopping(job, state.now)
    if stopped is not None:
        return stopped
    if state.obstacle is not None:
        return explain_obstructed(state, reader)
    starts = [start for tag in tags_under_way(job) if (start := state.starts.get(tag)) is not None]
    blocked = _of_phases(job, starts, state, reader)
    if blocked is not None:
        return blocked
    placed_at = None if job.attempt is None else job.attempt.placed_at
    facts, text = _placed(job)
    text["length"] = words.duration_words(state.now - placed_at) if placed_at is not None else "0 s"
    if job.attempt is not None and len(job.attempt.containers) > 1:
        return _containers(job, facts, text)
    cancel = job.cancel
    order = {} if cancel is None else order_words(cancel, state.now)
    return explanation(Code.CREATING_CONTAINER, since=placed_at, facts=facts, words=order | text)


def _of_phases(job: Job, starts: Sequence[StartProgress], state: SchedulerState, reader: Reader) -> Explanation | None:
    """The explanation by what the starts of the containers do; None if they only create and start."""
    by_phase = {progress.phase: progress for progress in starts}
    if (start := by_phase.get(StartPhase.HOST_FAILED)) is not None:
        return _host_failed(job, start, state, reader)
    if (start := by_phase.get(StartPhase.REFUSED)) is not None:
        facts, text = _placed(job)
        refusals = words.counted(start.refusals + 1, "time")
        return explanation(
            Code.START_REFUSED,
            since=start.since,
            facts=facts | {"refusals": start.refusals + 1, "error": start.error},
            words=text | {"refusals": refusals, "error": words.short(start.error)},
        )
    if (start := by_phase.get(StartPhase.PULLING)) is not None:
        return _pulling(start, state)
    if (start := by_phase.get(StartPhase.CLEANING_UP)) is not None:
        return explanation(Code.CLEANING_UP, since=start.since, facts={}, words={})
    return None


def _host_failed(job: Job, start: StartProgress, state: SchedulerState, reader: Reader) -> Explanation:
    """The error may come from the start of another user's job, so only operators and admins read it."""
    failure = state.host_failure
    since = start.since if failure is None or failure.since is None else failure.since
    detail = start.error or (None if failure is None else failure.detail)
    facts, text = _placed(job)
    text["length"] = words.duration_words(state.now - since)
    if detail and reader.caller.reaches_all:
        facts["detail"] = detail
        text["detail"] = words.short(detail)
    return explanation(Code.HOST_FAILURE, since=since, facts=facts, words=text)


def _pulling(start: StartProgress, state: SchedulerState) -> Explanation:
    waiting = {
        tag.job_id
        for tag, progress in state.starts.items()
        if progress.phase is StartPhase.PULLING and progress.image == start.image
    }
    text = {"image": start.image, "length": words.duration_words(state.now - start.since)}
    if len(waiting) > 1:
        text["others"] = words.counted(len(waiting), "job waits", "jobs wait")
    facts: dict[str, Fact] = {"image": start.image, "jobsWaiting": len(waiting)}
    return explanation(Code.PULLING_IMAGE, since=start.since, facts=facts, words=text)


def _containers(job: Job, facts: dict[str, Fact], text: dict[str, str]) -> Explanation:
    assert job.attempt is not None, f"{job.id} is not active"
    containers = job.attempt.containers
    starting_now = sum(container.state is AttemptContainerState.STARTING for container in containers)
    waiting = sum(container.state is AttemptContainerState.WAITING for container in containers)
    facts |= {"containers": len(containers), "starting": starting_now, "waiting": waiting}
    text |= {
        "containers": words.counted(len(containers), "container"),
        "starting": words.number(starting_now),
        "waiting": words.counted(waiting, "waits", "wait"),
    }
    return explanation(Code.STARTING_CONTAINERS, since=job.attempt.placed_at, facts=facts, words=text)


def _placed(job: Job) -> tuple[dict[str, Fact], dict[str, str]]:
    """Where the attempt is placed, and which attempt it is."""
    if job.attempt is None:
        return {}, {"environment": "an unknown environment"}
    facts: dict[str, Fact] = {
        "computeEnvironment": job.attempt.environment,
        "attempt": job.attempt.number,
        "attempts": job.max_attempts,
    }
    return facts, {"environment": job.attempt.environment}
