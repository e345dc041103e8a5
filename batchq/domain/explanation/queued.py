"""Why a job has not been placed: the explanations of SUBMITTED, PENDING and RUNNABLE jobs. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from batchq.domain import status_reasons
from batchq.domain.access.accounts import AccountName
from batchq.domain.budgets import BudgetScope, ExhaustedBudget
from batchq.domain.catalog import JobQueue
from batchq.domain.enums import ACTIVE, Status
from batchq.domain.explanation import capacity, words
from batchq.domain.explanation.codes import Code, Explanation, Fact
from batchq.domain.explanation.ended import order_facts, order_words, outcome_words
from batchq.domain.explanation.facts import Reader, RelatedJobs, SchedulerState
from batchq.domain.explanation.words import explanation
from batchq.domain.ids import JobId, QueueName
from batchq.domain.job import Job
from batchq.domain.lifecycle import arrays
from batchq.domain.scheduling.dependencies import standing
from batchq.domain.scheduling.resources import vcpus_of


def explain_held(job: Job, state: SchedulerState) -> Explanation:
    """The explanation of a queued job that a user holds or has paused."""
    hold = job.hold
    assert hold is not None, f"{job.id} is not held"
    by = f" by {hold.user}" if hold.user else ""
    text = {"by": by, "age": words.duration_words(state.now - hold.held_at), "reason": words.quoted(hold.reason)}
    facts: dict[str, Fact] = {"reason": hold.reason, "heldAt": hold.held_at}
    if hold.user:
        facts["user"] = hold.user
    if not hold.paused:
        return explanation(Code.HELD, since=hold.held_at, facts=facts, words=text)
    retry_facts, retry_words = _retry(job)
    return explanation(Code.PAUSED, since=hold.held_at, facts=facts | retry_facts, words=text | retry_words)


def explain_pending(job: Job, neighbours: RelatedJobs, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of a SUBMITTED or PENDING job."""
    if job.array_state is not None:
        return _children(job, state.now)
    if state.obstacle is not None and state.obstacle.code is Code.STORE_UNAVAILABLE:
        return explain_obstructed(state, reader)
    dependencies = standing(job, neighbours.jobs)
    waiting, total = [job_id for job_id, status in dependencies if status is not Status.SUCCEEDED], len(dependencies)
    if not waiting:
        age = words.duration_words(state.now - job.created_at)
        return explanation(Code.SUBMITTED, since=job.created_at, facts={}, words={"age": age})
    return explanation(
        Code.DEPENDENCIES,
        since=job.created_at,
        facts={
            "pending": len(waiting),
            "total": total,
            "dependencies": tuple(_dependency_facts(job_id, neighbours, reader) for job_id in waiting),
        },
        words={
            "pending": f"{len(waiting)} of {words.counted(total, 'dependency', 'dependencies')}",
            "dependencies": words.list_words([_dependency(job_id, neighbours, state, reader) for job_id in waiting]),
        },
    )


def explain_not_created(child: Job, array: Job, why: Explanation) -> Explanation:
    """The explanation of a child that its array has not spawned yet. `why`: the explanation of the array."""
    assert child.child is not None, f"{child.id} is not the child of an array"
    index, size = child.child.index, arrays.size(array)
    ahead = index - (0 if array.array_state is None else array.array_state.spawned)
    return explanation(
        Code.NOT_CREATED,
        since=array.created_at,
        facts={
            "index": index,
            "size": size,
            "ahead": ahead,
            "array": {"jobId": array.id, "code": why.code.value, "facts": why.facts},
        },
        words={
            "children": words.counted(size, "child", "children"),
            "ahead": words.counted(ahead, "other"),
            "array": why.sentence,
        },
    )


def explain_obstructed(state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of all jobs that cannot start because of a condition of the server."""
    obstacle = state.obstacle
    assert obstacle is not None, "nothing keeps jobs from starting"
    text: dict[str, str] = {}
    facts: dict[str, Fact] = {}
    if obstacle.since is not None:
        text["length"] = words.duration_words(state.now - obstacle.since)
    if obstacle.detail is not None and reader.caller.reaches_all:
        text["detail"] = words.short(obstacle.detail)
        facts["detail"] = obstacle.detail
    return explanation(obstacle.code, since=obstacle.since, facts=facts, words=text)


def explain_runnable(job: Job, neighbours: RelatedJobs, state: SchedulerState, reader: Reader) -> Explanation:
    """The explanation of a RUNNABLE job. One that can never start is not helped by the end of an obstacle."""
    queue = state.queues.get(job.spec.queue)
    if job.unschedulable:
        return capacity.never(job, queue, state, reader)
    if state.obstacle is not None:
        return explain_obstructed(state, reader)
    if any(job.order in intervals for intervals in state.stop_pending):
        return explanation(Code.STOP_PENDING, since=None, facts={}, words={})
    exhausted = next(
        (budget for budget in state.exhausted if budget.covers(job.spec.owner.account, job.spec.queue)), None
    )
    if exhausted is not None:
        return _budget_exhausted(exhausted, reader)
    retry_facts, retry_words = _retry(job)
    named: dict[str, Fact] = {"jobQueue": job.spec.queue}
    if queue is not None and queue.drained:
        text = {"queue": str(queue.name)} | retry_words
        return explanation(Code.QUEUE_DRAINED, since=job.runnable_at, facts=named | retry_facts, words=text)
    blocked = None
    if queue is not None and state.cluster is not None:
        if not state.cluster.enabled(queue.environments):
            return _no_environment(job, queue)
        blocked = capacity.blocked(job, queue, neighbours, state, reader)
    if blocked is not None:
        place_facts, place_words = _place(job, neighbours, within_share=False)
        return explanation(
            blocked.code,
            since=job.blocked_at or job.runnable_at,
            facts=blocked.facts | retry_facts | place_facts,
            words=blocked.words | retry_words | place_words,
        )
    return _in_line(job, neighbours, state, named)


def _budget_exhausted(exhausted: ExhaustedBudget, reader: Reader) -> Explanation:
    name, facts = exhausted.key.name, dict[str, Fact]()
    if exhausted.key.scope is BudgetScope.QUEUE:
        facts["jobQueue"] = name
        text = {"budget": reader.queue(QueueName(name))}
    else:
        if reader.sees_account(AccountName(name)):
            facts["account"] = name
        text = {"budget": reader.account(AccountName(name))}
    if exhausted.until is not None:
        facts["until"] = exhausted.until
        text["until"] = f"{exhausted.until:%Y-%m-%d}"
    return explanation(Code.BUDGET_EXHAUSTED, since=exhausted.since, facts=facts, words=text)


def _in_line(job: Job, neighbours: RelatedJobs, state: SchedulerState, named: Mapping[str, Fact]) -> Explanation:
    """The explanation of a job that waits behind others, or that the scheduler has not tried yet."""
    share = job.spec.share_identifier
    facts, text = _place(job, neighbours, within_share=share is not None)
    head = state.heads.get(job.spec.queue)
    is_behind = head is not None and head.job_id != job.id
    if job.attempts:
        retry_facts, retry_words = _retry(job)
        more = {"next": str(job.attempts[-1].number + 1)}
        return explanation(
            Code.RETRY, since=job.runnable_at, facts=facts | retry_facts, words=text | retry_words | more
        )
    if share is not None and (is_behind or _has_jobs_ahead(neighbours)):
        held = state.share_millicpus.get((QueueName(job.spec.queue), share), 0)
        return explanation(
            Code.SHARE_TURN,
            since=job.runnable_at,
            facts=facts | {"shareIdentifier": share, "shareVcpus": held / 1000},
            words=text | {"share": share, "used": words.vcpus_words(held)},
        )
    if is_behind or _has_jobs_ahead(neighbours):
        lacking = None if head is None else _lacking(head.reason)
        if lacking is not None:
            facts, text = facts | {"lacking": lacking}, text | {"lacking": lacking}
        started = state.recent_starts.get(QueueName(job.spec.queue), 0)
        facts |= {"startedRecently": started, "recentSeconds": state.start_period / timedelta(seconds=1)}
        text |= {
            "started": words.counted(started, "job of the queue has", "jobs of the queue have"),
            "period": words.duration_words(state.start_period),
        }
        return explanation(Code.IN_LINE, since=job.runnable_at, facts=facts, words=text)
    return explanation(Code.NEXT, since=job.runnable_at, facts=named, words=text)


def _has_jobs_ahead(neighbours: RelatedJobs) -> bool:
    return neighbours.place is not None and neighbours.place.ahead > 0


def _lacking(reason: str) -> str | None:
    """The resources that a status reason names as lacking, as `memory`, except vCPUs of accounts; None without one."""
    beginning, _, end = status_reasons.no_room("|").partition("|")
    if not reason.startswith(beginning):
        return None
    named = reason.removeprefix(beginning).removesuffix(end).split(", ")
    return words.joined([text for text in named if not text.startswith(vcpus_of(AccountName("")))]) or None


def _children(job: Job, now: datetime) -> Explanation:
    array = job.array_state
    assert array is not None, f"{job.id} has no children"
    counts, size = dict(array.counts), arrays.size(job)
    succeeded, failed = counts.get(Status.SUCCEEDED, 0), counts.get(Status.FAILED, 0)
    active = sum(counts.get(status, 0) for status in ACTIVE)
    unspawned = size - array.spawned
    queued = max(0, array.spawned - succeeded - failed - active)
    facts: dict[str, Fact] = {"size": size, "succeeded": succeeded, "failed": failed, "active": active}
    facts |= {"queued": queued, "unspawned": unspawned}
    text = {
        "ended": words.number(succeeded + failed),
        "children": words.counted(size, "child", "children"),
        "failed": words.number(failed),
        "active": words.number(active),
        "queued": words.number(queued),
        "left": words.number(size - succeeded - failed),
    }
    if unspawned:
        text["unspawned"] = f"{words.number(unspawned)} {'is' if unspawned == 1 else 'are'}"
    order = job.stop or job.cancel
    if order is None:
        return explanation(Code.CHILDREN, since=array.counted_at, facts=facts, words=text)
    return explanation(
        Code.CHILDREN_STOPPING,
        since=array.ordered_at,
        facts=facts | order_facts(order),
        words=order_words(order, now) | text,
    )


def _dependency(job_id: JobId, neighbours: RelatedJobs, state: SchedulerState, reader: Reader) -> str:
    found = neighbours.jobs.get(job_id)
    if found is None:
        return f"{job_id} (not created yet)"
    if not reader.sees(found):
        return reader.job(found)
    since = {Status.RUNNING: found.started_at, Status.RUNNABLE: found.runnable_at}.get(found.status)
    length = "" if since is None else f" for {words.duration_words(state.now - since)}"
    return f"{reader.job(found)} ({found.status}{length})"


def _dependency_facts(job_id: JobId, neighbours: RelatedJobs, reader: Reader) -> dict[str, Fact]:
    """The id, name and status of a dependency; of one that the reader may not see nothing."""
    found = neighbours.jobs.get(job_id)
    if found is None:
        return {"jobId": job_id}
    return {"jobId": job_id, "jobName": found.spec.name, "status": found.status.value} if reader.sees(found) else {}


def _no_environment(job: Job, queue: JobQueue) -> Explanation:
    names = tuple(str(name) for name in queue.environments)
    text = {"queue": str(queue.name), "environments": words.list_words(names)}
    facts: dict[str, Fact] = {"jobQueue": queue.name, "environments": names}
    return explanation(Code.NO_ENVIRONMENT, since=job.blocked_at or job.runnable_at, facts=facts, words=text)


def _retry(job: Job) -> tuple[dict[str, Fact], dict[str, str]]:
    """The facts and the words of the last attempt of a job that is retried; none before the first attempt."""
    if not job.attempts:
        return {}, {}
    last, most = job.attempts[-1], job.max_attempts
    text = {"attempt": str(last.number), "attempts": str(most), "outcome": outcome_words(last)}
    return {"attempt": last.number, "attempts": most, "outcome": text["outcome"]}, text


def _place(job: Job, neighbours: RelatedJobs, *, within_share: bool) -> tuple[dict[str, Fact], dict[str, str]]:
    """The place in the queue. If jobs are before it, with the words `count` and `vcpus`, unless `within_share`."""
    place = neighbours.place
    facts: dict[str, Fact] = {"jobQueue": job.spec.queue}
    text = {"queue": str(job.spec.queue)}
    if place is None:
        return facts, text
    facts |= {"ahead": place.ahead, "aheadVcpus": place.millicpus / 1000}
    facts["place" if place.is_exact else "placeIsAtLeast"] = place.ahead + 1
    text["place"] = words.ordinal(place.ahead + 1) if place.is_exact else f"beyond place {words.number(place.ahead)}"
    if place.ahead and not within_share:
        text["count"] = words.counted(place.ahead, "job") if place.is_exact else f"{words.number(place.ahead)} jobs"
        text["vcpus"] = words.vcpus_words(place.millicpus)
    return facts, text
