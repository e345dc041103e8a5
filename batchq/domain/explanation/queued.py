"""Why a job has not been placed: the explanations of SUBMITTED, PENDING and RUNNABLE jobs. Pure."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.domain import status_reasons, wording
from batchq.domain.access.accounts import AccountName
from batchq.domain.budgets import BudgetScope, ExhaustedBudget
from batchq.domain.catalog import JobQueue
from batchq.domain.enums import ACTIVE, Status
from batchq.domain.explanation import capacity
from batchq.domain.explanation.ended import order_figures, outcome_words
from batchq.domain.explanation.explanation import Explanation, Fact, Figure, Figures
from batchq.domain.explanation.facts import Reader, RelatedJobs, SchedulerState
from batchq.domain.explanation.queued_reasons import (
    BudgetExhaustedReason,
    ChildrenReason,
    ChildrenStoppingReason,
    DependenciesReason,
    GroupLimitReason,
    HeldReason,
    InLineReason,
    NextReason,
    NoEnvironmentReason,
    NotCreatedReason,
    PausedReason,
    QueueDrainedReason,
    RetryReason,
    ShareTurnReason,
    StopPendingReason,
    StoreUnavailableReason,
    SubmittedReason,
)
from batchq.domain.groups import is_gated
from batchq.domain.ids import JobId, QueueName
from batchq.domain.job import Job
from batchq.domain.lifecycle import arrays
from batchq.domain.scheduling.dependencies import standing
from batchq.domain.scheduling.resources import vcpus_of


def explain_held(job: Job, state: SchedulerState) -> Explanation:
    """The explanation of a queued job that a user holds or has paused."""
    hold = job.hold
    assert hold is not None, f"{job.id} is not held"
    figures = {
        "by": Figure(words=f" by {hold.user}" if hold.user else ""),
        "user": Figure(hold.user or None),
        "age": Figure(words=wording.duration_words(state.now - hold.held_at)),
        "heldAt": Figure(hold.held_at),
        "reason": Figure(hold.reason, wording.quoted(hold.reason)),
    }
    if not hold.paused:
        return HeldReason(since=hold.held_at, figures=figures)
    return PausedReason(since=hold.held_at, figures=figures | _last_attempt(job))


def explain_pending(job: Job, neighbours: RelatedJobs, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of a SUBMITTED or PENDING job."""
    if job.array_state is not None:
        return _children(job, state.now)
    if state.obstacle is not None and state.obstacle.reason is StoreUnavailableReason:
        return explain_obstructed(state, reader)
    dependencies = standing(job, neighbours.jobs)
    waiting, total = [job_id for job_id, status in dependencies if status is not Status.SUCCEEDED], len(dependencies)
    if not waiting and job.status is Status.PENDING and is_gated(job):
        return _group_limit(job)
    if not waiting:
        age = Figure(words=wording.duration_words(state.now - job.created_at))
        return SubmittedReason(since=job.created_at, figures={"age": age})
    named = wording.list_words([_dependency(job_id, neighbours, state, reader) for job_id in waiting])
    figures = {
        "pending": Figure(len(waiting), f"{len(waiting)} of {wording.counted(total, 'dependency', 'dependencies')}"),
        "total": Figure(total),
        "dependencies": Figure(tuple(_dependency_facts(job_id, neighbours, reader) for job_id in waiting), named),
    }
    return DependenciesReason(since=job.created_at, figures=figures)


def _group_limit(job: Job) -> Explanation:
    terms = job.spec.group
    assert terms is not None, f"{job.id} is in no group"
    assert terms.max_running is not None, f"group {terms.id} has no limit"
    figures = {
        "groupId": Figure(terms.id),
        "groupName": Figure(terms.name),
        "group": Figure(words=terms.name),
        "maxRunning": Figure.count(terms.max_running, "job"),
    }
    return GroupLimitReason(since=job.created_at, figures=figures)


def explain_not_created(child: Job, array: Job, why: Explanation) -> Explanation:
    """The explanation of a child that its array has not spawned yet. `why`: the explanation of the array."""
    assert child.child is not None, f"{child.id} is not the child of an array"
    index = child.child.index
    figures = {
        "index": Figure(index),
        "size": Figure.count(arrays.size(array), "child", "children"),
        "ahead": Figure.count(index - (0 if array.array_state is None else array.array_state.spawned), "other"),
        "array": Figure({"jobId": array.id, "code": why.code, "facts": why.facts}, why.sentence),
    }
    return NotCreatedReason(since=array.created_at, figures=figures)


def explain_obstructed(state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of all jobs that cannot start because of a condition of the server."""
    obstacle = state.obstacle
    assert obstacle is not None, "nothing keeps jobs from starting"
    figures: Figures = {}
    if obstacle.since is not None:
        figures["length"] = Figure(words=wording.duration_words(state.now - obstacle.since))
    if obstacle.detail is not None and reader.caller.reaches_all:
        figures["detail"] = Figure(obstacle.detail, wording.short(obstacle.detail))
    return obstacle.reason(since=obstacle.since, figures=figures)


def explain_runnable(job: Job, neighbours: RelatedJobs, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of a RUNNABLE job. One that can never start is not helped by the end of an obstacle."""
    queue = state.queues.get(job.spec.queue)
    never = capacity.never(job, queue, state, reader)
    if never is not None:
        return never
    if state.obstacle is not None:
        return explain_obstructed(state, reader)
    if any(job.sequence in intervals for intervals in state.stop_pending):
        return StopPendingReason()
    for budget in state.exhausted:
        if budget.covers(job.spec.owner.account, job.spec.queue):
            return _budget_exhausted(budget, reader)
    if queue is not None and queue.drained:
        return QueueDrainedReason(
            since=job.runnable_at, figures={"jobQueue": Figure.text(queue.name)} | _last_attempt(job)
        )
    blocked = None
    if queue is not None and state.cluster is not None:
        feasible = state.cluster.feasible(queue.environments, job.spec.engines)
        if not feasible:
            return _no_environment(job, queue)
        blocked = capacity.blocked(job, replace(queue, environments=tuple(feasible)), neighbours, state, reader)
    if blocked is not None:
        place = _last_attempt(job) | _place(job, neighbours, within_share=False)
        return blocked.reason(since=job.blocked_at or job.runnable_at, figures=blocked.figures | place)
    return _in_line(job, neighbours, state)


def _budget_exhausted(exhausted: ExhaustedBudget, reader: Reader) -> Explanation:
    key = exhausted.key
    if key.scope is BudgetScope.QUEUE:
        figures = {"jobQueue": Figure(key.name), "budget": Figure(words=reader.queue(QueueName(key.name)))}
    else:
        account = AccountName(key.name)
        shown = account if reader.sees_account(account) else None
        figures = {"account": Figure(shown), "budget": Figure(words=reader.account(account))}
    if exhausted.until is not None:
        figures["until"] = Figure(exhausted.until, f"{exhausted.until:%Y-%m-%d}")
    return BudgetExhaustedReason(since=exhausted.since, figures=figures)


def _in_line(job: Job, neighbours: RelatedJobs, state: SchedulerState) -> Explanation:
    """The explanation of a job that waits behind others, or that the scheduler has not tried yet."""
    share, queue = job.spec.share_identifier, QueueName(job.spec.queue)
    figures = _place(job, neighbours, within_share=share is not None)
    head = state.heads.get(queue)
    is_behind = head is not None and head.job_id != job.id
    if job.attempts:
        following = {"next": Figure(words=str(job.attempts[-1].number + 1))}
        return RetryReason(since=job.runnable_at, figures=figures | _last_attempt(job) | following)
    if not is_behind and (neighbours.place is None or neighbours.place.ahead == 0):
        return NextReason(since=job.runnable_at, figures=figures)
    if share is not None:
        figures["shareIdentifier"] = Figure.text(share)
        figures["shareVcpus"] = Figure.vcpus(state.share_millicpus.get((queue, share), 0))
        return ShareTurnReason(since=job.runnable_at, figures=figures)
    lacking = None if head is None else _lacking(head.reason)
    started = state.recent_starts.get(queue, 0)
    figures |= {
        "lacking": Figure(lacking, lacking),
        "startedRecently": Figure.count(started, "job of the queue has", "jobs of the queue have"),
        "recentSeconds": Figure(state.start_period / timedelta(seconds=1), wording.duration_words(state.start_period)),
    }
    return InLineReason(since=job.runnable_at, figures=figures)


def _lacking(reason: str) -> str | None:
    """The resources that a status reason names as lacking, as `memory`, except vCPUs of accounts; None without one."""
    beginning, _, end = status_reasons.no_room("|").partition("|")
    if not reason.startswith(beginning):
        return None
    named = reason.removeprefix(beginning).removesuffix(end).split(", ")
    return wording.joined([text for text in named if not text.startswith(vcpus_of(AccountName("")))]) or None


def _children(job: Job, now: datetime) -> Explanation:
    array = job.array_state
    assert array is not None, f"{job.id} has no children"
    counts, size = dict(array.counts), arrays.size(job)
    succeeded, failed = counts.get(Status.SUCCEEDED, 0), counts.get(Status.FAILED, 0)
    active = sum(counts.get(status, 0) for status in ACTIVE)
    unspawned = size - array.spawned
    are = f"{wording.number(unspawned)} {'is' if unspawned == 1 else 'are'}"
    figures = {
        "size": Figure.count(size, "child", "children"),
        "succeeded": Figure.count(succeeded),
        "failed": Figure.count(failed),
        "active": Figure.count(active),
        "queued": Figure.count(max(0, array.spawned - succeeded - failed - active)),
        "unspawned": Figure(unspawned, are if unspawned else None),
        "ended": Figure.count(succeeded + failed),
        "left": Figure.count(size - succeeded - failed),
    }
    order = job.stop or job.cancel
    if order is None:
        return ChildrenReason(since=array.counted_at, figures=figures)
    return ChildrenStoppingReason(since=array.ordered_at, figures=figures | order_figures(job, order, now))


def _dependency(job_id: JobId, neighbours: RelatedJobs, state: SchedulerState, reader: Reader) -> str:
    found = neighbours.jobs.get(job_id)
    if found is None:
        return f"{job_id} (not created yet)"
    if not reader.sees(found):
        return reader.job(found)
    since = {Status.RUNNING: found.started_at, Status.RUNNABLE: found.runnable_at}.get(found.status)
    length = "" if since is None else f" for {wording.duration_words(state.now - since)}"
    return f"{reader.job(found)} ({found.status}{length})"


def _dependency_facts(job_id: JobId, neighbours: RelatedJobs, reader: Reader) -> dict[str, Fact]:
    """The id, name and status of a dependency; of one that the reader may not see nothing."""
    found = neighbours.jobs.get(job_id)
    if found is None:
        return {"jobId": job_id}
    return {"jobId": job_id, "jobName": found.spec.name, "status": found.status.value} if reader.sees(found) else {}


def _no_environment(job: Job, queue: JobQueue) -> Explanation:
    environments = tuple(str(name) for name in queue.environments)
    figures = {
        "jobQueue": Figure.text(queue.name),
        "environments": Figure(environments, wording.list_words(environments)),
    }
    return NoEnvironmentReason(since=job.blocked_at or job.runnable_at, figures=figures)


def _last_attempt(job: Job) -> Figures:
    """The last attempt of a job that is retried; empty before the first attempt."""
    if not job.attempts:
        return {}
    last, most = job.attempts[-1], job.max_attempts
    return {
        "attempt": Figure(last.number, str(last.number)),
        "attempts": Figure(most, str(most)),
        "outcome": Figure.text(outcome_words(last)),
    }


def _place(job: Job, neighbours: RelatedJobs, *, within_share: bool) -> Figures:
    """The place in the queue. `within_share`: sentences do not mention the jobs before it."""
    place = neighbours.place
    figures = {"jobQueue": Figure.text(job.spec.queue)}
    if place is None:
        return figures
    mentioned = place.ahead > 0 and not within_share
    ahead, millicpus = wording.counted(place.ahead, "job"), wording.vcpus_words(place.millicpus)
    figures |= {
        "ahead": Figure(place.ahead, ahead if mentioned else None),
        "aheadVcpus": Figure(place.millicpus / 1000, millicpus if mentioned else None),
    }
    if place.is_exact:
        figures["place"] = Figure(place.ahead + 1, wording.ordinal(place.ahead + 1))
    else:
        figures["place"] = Figure(words=f"beyond place {wording.number(place.ahead)}")
        figures["placeIsAtLeast"] = Figure(place.ahead + 1)
    return figures
