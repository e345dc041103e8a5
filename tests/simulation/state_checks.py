"""Checks that the state in a server's memory equals the commits, recounted, before each commit."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from zlib import crc32

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.enums import FINISHED, QUEUED, Status
from batchq.domain.explanation.explain import explain
from batchq.domain.explanation.explanation import Explanation
from batchq.domain.explanation.facts import Holders, QueuePosition, Reader, RelatedJobs, SchedulerState
from batchq.domain.explanation.queued import explain_not_created
from batchq.domain.ids import ConsumableName, JobId, child_id
from batchq.domain.job import Job
from batchq.domain.job_counts import group_of
from batchq.domain.lifecycle.arrays import unspawned_child
from batchq.domain.scheduling.capacity import candidate_of_job, is_queued_for_placement
from batchq.domain.scheduling.dependencies import waits, waits_for
from batchq.engine.engine import Engine
from batchq.engine.loop import EngineLoop
from batchq.engine.scheduling.queue_cache import QueueCache
from tests.simulation.run_log import Checks, RunLog
from tests.simulation.submissions import TEAM


class StateChecks(Checks):
    def __init__(self, loop: EngineLoop, *, jobs: Mapping[JobId, Job], run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._loop = loop

    def check(self) -> None:
        loop, scheduler = self._loop, self._loop.scheduler
        under_way = {job.id: job for job in self.jobs.values() if job.attempt is not None}
        held = scheduler._resource_usage.after(())
        self._check_equal("what is under way", loop.state.active, under_way)
        self._check_equal("what is held", Counter(held.sums), _held(under_way.values()))
        self._check_equal("what accounts hold", Counter(held.accounts), _held_by_accounts(under_way.values()))
        self._check_equal("whose end is known", {job.id for job in held.timed()}, _timed(under_way.values()))
        self._check_equal("what is needed", set(held.needed), _needed(under_way.values()))
        self._check_equal("how many wait", +scheduler.queued_jobs.queued, _waiting(self.jobs.values()))
        self._check_equal("the arrays at work", set(loop.arrays.unfinished), _at_work(self.jobs.values()))
        for_others = sum(len(waits_for(job)) for job in self.jobs.values() if waits(job))
        self._check_equal("how many wait for others", scheduler.queued_jobs.pending_dependencies, for_others)
        unfinished = Counter(group_of(job, job.status) for job in self.jobs.values() if job.status not in FINISHED)
        self._check_equal("the counts of unfinished jobs", loop.state.counts.read(), unfinished)
        standing = {job.spec.queue for job in self.jobs.values() if is_queued_for_placement(job)}
        self._check_equal("the queues without jobs", standing & scheduler._pass_memo.empty_queues, set())
        self._check_queue_cache(scheduler.queue_cache)
        for mark in scheduler._blocked_jobs.marks.values():
            job = self.jobs[mark.job_id]
            self._check_equal(
                "the first jobs of a queue", (mark.reason, mark.since), (job.status_reason, job.blocked_at)
            )
            self._check_equal("the first jobs of a queue", job.status, Status.RUNNABLE)

    def _check_queue_cache(self, ahead: QueueCache) -> None:
        for queue, front in ahead.fronts.items():
            line = [job for job in self.jobs.values() if job.spec.queue == queue and is_queued_for_placement(job)]
            ordered = sorted((job for job in line if job.sequence <= front.until), key=lambda job: job.sequence)
            self._check_equal(
                "the first jobs of a queue", list(front), [candidate_of_job(other_job) for other_job in ordered]
            )
        whole = {other_job: self.jobs[other_job] for other_job in ahead.cached_jobs}
        self._check_equal("the jobs of those in front", ahead.cached_jobs, whole)
        arrays = {other_job: self.jobs[other_job] for other_job in ahead.cached_arrays}
        self._check_equal("arrays under way", ahead.cached_arrays, arrays)

    def _check_equal(self, what: str, remembered: object, stored: object) -> None:
        if remembered != stored:
            self.run_log.fail("I1 memory is what is stored", f"{what}: {remembered}, and it is {stored}")


def _held(jobs: Iterable[Job]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for job in jobs:
        sums[f"vCPUs of compute environment {job.attempt.environment}"] += job.spec.resources.millicpus
        sums["memory"] += job.spec.resources.memory_mib
        sums["GPUs"] += job.spec.resources.gpus
        for need in job.spec.needs:
            sums[f"consumable resource {need.resource}"] += need.quantity
    return +sums


def _held_by_accounts(jobs: Iterable[Job]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for job in jobs:
        sums[job.spec.owner.account] += job.spec.resources.millicpus
    return +sums


def _timed(jobs: Iterable[Job]) -> set[JobId]:
    return {job.id for job in jobs if job.stop is not None or job.spec.timeout is not None}


def _needed(jobs: Iterable[Job]) -> set[ConsumableName]:
    return {need.resource for job in jobs for need in job.spec.needs}


def _waiting(jobs: Iterable[Job]) -> Counter[str]:
    """Queued jobs by account; an unfinished array counts the children that it has not created yet."""
    counts: Counter[str] = Counter()
    for job in jobs:
        if job.spec.array_size is None or job.child is not None:
            counts[job.spec.owner.account] += job.status in QUEUED
        elif job.status in QUEUED:
            counts[job.spec.owner.account] += job.spec.array_size - (job.array_state.spawned if job.array_state else 0)
    return +counts


def _at_work(jobs: Iterable[Job]) -> set[JobId]:
    """The arrays with children to create, to stop, to hold or to release."""
    return {job.id for job in jobs if job.array_state is not None and job.status is Status.PENDING and _has_work(job)}


def _has_work(job: Job) -> bool:
    state = job.array_state
    under_order = bool(job.stop_orders) or state.failed_index is not None or state.passes_hold
    return job.array_state.spawned < job.spec.array_size or (
        under_order and job.array_state.order_applied_to < job.spec.array_size
    )


EVERY = 3  # commits
USERS = (UserName("ann"), UserName("bob"))
BUDGET_REASON = re.compile(f"the budget of account {TEAM}")  # the owner of the job belongs to the account


class ExplanationChecks(Checks):
    """Half of the jobs count as the first user's, half as the second's."""

    def __init__(self, engine: Engine, *, jobs: Mapping[JobId, Job], run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._engine = engine
        self._commits = 0

    def check(self) -> None:
        self._commits += 1
        if self._commits % EVERY:
            return
        owned = {job_id: _owned(job) for job_id, job in self.jobs.items()}
        state = self._engine.scheduler_state()
        active = {key: owned.get(key, _owned(job)) for key, job in self._engine.loop.state.active.items()}
        state = replace(state, holders=Holders(active, state.now))
        readers = {user: Reader(caller=Caller(user=user)) for user in USERS}
        hidden = {user: _hidden_names(owned, reader) for user, reader in readers.items()}
        for job in owned.values():
            if job.status is not Status.SUCCEEDED:
                user = job.spec.owner.user
                self._check_job(job, owned, state, readers[user], hidden[user])

    def _check_job(
        self, job: Job, jobs: Mapping[JobId, Job], state: SchedulerState, reader: Reader, hidden: re.Pattern[str]
    ) -> None:
        neighbours = RelatedJobs(jobs=jobs, place=QueuePosition(ahead=1, millicpus=1000))
        why = explain(job, neighbours, state, reader)
        self._check(job, why, hidden)
        child = unspawned_child(job, child_id(job.id, (job.spec.array_size or 1) - 1))
        if child is not None and child.status is not Status.FAILED:
            self._check(child, explain_not_created(child, job, why), hidden)

    def _check(self, job: Job, why: Explanation, hidden: re.Pattern[str]) -> None:
        self.run_log.counts[f"explained as {why.code}"] += 1
        if job.status not in why.statuses or not why.sentence:
            self.fail("each job has an explanation", job, f"is {job.status}: {why}")
        text = BUDGET_REASON.sub("", f"{why.sentence} {why.facts}")
        if named := hidden.search(text):
            self.run_log.fail("an explanation names nothing that is hidden from its reader", f"{named[0]}: {why}")


def _hidden_names(jobs: Mapping[JobId, Job], reader: Reader) -> re.Pattern[str]:
    """The names of the jobs that the reader may not see, and of an account that neither user belongs to."""
    names = {job.spec.name for job in jobs.values() if not reader.sees(job)}
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, (TEAM, *sorted(names))))})\b")


def _owned(job: Job) -> Job:
    user = USERS[crc32(job.spec.name.encode()) % 2]
    return replace(job, spec=replace(job.spec, owner=replace(job.spec.owner, user=user)))
