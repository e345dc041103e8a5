"""Every unfinished or failed job has an explanation at any time, which names nothing that its reader may not see."""

import re
from collections.abc import Mapping
from zlib import crc32

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.explanation.codes import Explanation
from batchq.domain.explanation.explain import explain
from batchq.domain.explanation.facts import Holders, Neighbours, Place, Reader, SchedulerState
from batchq.domain.explanation.queued import not_created
from batchq.domain.explanation.table import ROWS
from batchq.domain.ids import JobId, child_id
from batchq.domain.job import Job, Status
from batchq.domain.lifecycle.arrays import unspawned_child
from batchq.engine.engine import Engine
from tests.simulation.accounts import TEAM
from tests.simulation.run_log import RunLog

EVERY = 3  # commits
USERS = (UserName("ann"), UserName("bob"))
BUDGET_REASON = re.compile(f"the budget of account {TEAM}")  # the owner of the job belongs to the account
LAW = "each job has an explanation"


class ExplanationChecks:
    """`jobs` are as last committed. Half of the jobs count as the first user's, half as the second's."""

    def __init__(self, engine: Engine, *, jobs: Mapping[JobId, Job], run_log: RunLog) -> None:
        self._engine = engine
        self._jobs = jobs
        self._run_log = run_log
        self._commits = 0

    def check(self) -> None:
        self._commits += 1
        if self._commits % EVERY:
            return
        owned = {job_id: _owned(job) for job_id, job in self._jobs.items()}
        state = self._engine.scheduler_state()
        active = {it: owned.get(it, _owned(job)) for it, job in self._engine.loop.state.active.items()}
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
        neighbours = Neighbours(jobs=jobs, place=Place(ahead=1, millicpus=1000))
        why = explain(job, neighbours, state, reader)
        self._check(job, why, hidden)
        child = unspawned_child(job, child_id(job.id, (job.spec.array_size or 1) - 1))
        if child is not None and child.status is not Status.FAILED:
            self._check(child, not_created(child, job, why), hidden)

    def _check(self, job: Job, why: Explanation, hidden: re.Pattern[str]) -> None:
        self._run_log.counts[f"explained as {why.code}"] += 1
        row = ROWS[why.code]
        if job.status not in row.statuses or not why.sentence or not why.facts.keys() <= set(row.facts):
            self._run_log.fail(LAW, f"{self._run_log.name_of(job.id)} is {job.status}: {why}")
        text = BUDGET_REASON.sub("", f"{why.sentence} {why.facts}")
        if named := hidden.search(text):
            self._run_log.fail("an explanation names nothing that is hidden from its reader", f"{named[0]}: {why}")


def _hidden_names(jobs: Mapping[JobId, Job], reader: Reader) -> re.Pattern[str]:
    """The names of the jobs that the reader may not see, and of an account that neither user belongs to."""
    names = {job.spec.name for job in jobs.values() if not reader.sees(job)}
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, (TEAM, *sorted(names))))})\b")


def _owned(job: Job) -> Job:
    user = USERS[crc32(job.spec.name.encode()) % 2]
    return replace(job, spec=replace(job.spec, owner=replace(job.spec.owner, user=user)))
