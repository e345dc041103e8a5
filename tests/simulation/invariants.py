"""The invariants of every run (faults.md 5), checked at each commit, at each call of the engine, and at the end.

Each invariant compares commits with what the containers really did; none relies on the state of the server.
`dependency_checks` and `resource_checks` have the invariants about several jobs.
"""

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.enums import FINISHED, AttemptContainerState, Status, StopKind
from batchq.domain.ids import JobId, Tag, node_of, parent_of
from batchq.domain.job import AttemptContainer, Job
from batchq.domain.lifecycle.status import EDGES
from batchq.domain.task import DefinitionForm
from batchq.ports.catalog import CatalogResource
from batchq.ports.jobs import Changes
from tests.simulation.budgets import BudgetChecks
from tests.simulation.bulk_stops import BulkStopChecks
from tests.simulation.catalog_changes import CatalogChecks
from tests.simulation.checkpoints import CheckpointChecks
from tests.simulation.clocks import StoredTimes
from tests.simulation.container_checks import (
    ContainerChecks,
    has,
    may_start,
    must_be_kept,
    outcomes,
    was_forced,
)
from tests.simulation.container_records import ContainerRecords
from tests.simulation.dependency_checks import DependencyChecks, is_over
from tests.simulation.groups import GroupChecks
from tests.simulation.history_checks import HistoryChecks, OrderChecks
from tests.simulation.holds import HoldChecks
from tests.simulation.resource_checks import ResourceChecks
from tests.simulation.row_checks import RowChecks
from tests.simulation.run_log import Checks, RunLog
from tests.simulation.signal_checks import SignalChecks, without_checkpoint

MAX_EQUAL_CALLS = 15  # equal calls in a second
MAX_PULLS = 200  # the same, of an image that all containers of a large array wait for


class Invariants(Checks):
    def __init__(self, *, now: Callable[[], datetime], run_log: RunLog) -> None:
        self.jobs: dict[JobId, Job] = {}
        super().__init__(jobs=self.jobs, run_log=run_log)
        self.containers = ContainerRecords(now)
        self.dependencies = DependencyChecks(jobs=self.jobs, run_log=run_log)
        self.resources = ResourceChecks(jobs=self.jobs, now=now, run_log=run_log)
        self.bulk_stops = BulkStopChecks(jobs=self.jobs, run_log=run_log)
        self._orders = OrderChecks(jobs=self.jobs, run_log=run_log)
        self.catalog = CatalogChecks(jobs=self.jobs, now=now, run_log=run_log)
        self.holds = HoldChecks(jobs=self.jobs, now=now, run_log=run_log)
        self.groups = GroupChecks(jobs=self.jobs, run_log=run_log)
        self.rows = RowChecks(self, run_log=run_log)
        self.signals = SignalChecks(jobs=self.jobs, now=now, run_log=run_log)
        self.history = HistoryChecks(run_log)
        self._tasks = ContainerChecks(jobs=self.jobs, containers=self.containers, now=now, run_log=run_log)
        self.times = StoredTimes(jobs=self.jobs, containers=self.containers, now=now, run_log=run_log)
        self.budgets = BudgetChecks(jobs=self.jobs, containers=self.containers, times=self.times, run_log=run_log)
        self.checkpoints = CheckpointChecks(jobs=self.jobs, times=self.times, run_log=run_log)
        #: After an acknowledged stop: the last attempt that may ever begin.
        self.last_attempts: dict[JobId, int] = {}
        #: The jobs that were terminated before they had ended.
        self.terminated_jobs: set[JobId] = set()
        #: Containers of no job, with the number of the server that had surveyed the engine before, if any.
        self.orphans: dict[Tag, int | None] = {}
        self.deletes = False
        #: The jobs that are no longer stored.
        self.deleted: set[JobId] = set()
        self.acknowledged: dict[JobId, str] = {}
        self.limits: dict[str, timedelta] = {}
        self._now = now
        self._changed_at: dict[JobId, tuple[datetime, Job]] = {}
        self._call_times: dict[tuple[str, Tag | None], deque[datetime]] = {}

    # ------------------------------------------------------------------------------------------------ at each commit

    def committed(self, changes: Changes) -> None:
        self.history.record(changes)
        before = {job.id: self.jobs.get(job.id) for job in changes.updated}
        self._orders.written(changes)
        changed = (*changes.inserted, *changes.updated)
        begun = [job for job in changed if _begins(before.get(job.id), job)]
        self.holds.written(changes, begun)
        self.catalog.written(changes.inserted, begun)
        self.budgets.written(changes, begun)
        for job in changes.inserted:
            self._once(job)
            self.jobs[job.id] = job
            self.run_log.write(f"{self.run_log.name_of(job.id)} {job.status}")
        for job in changes.updated:
            self._change(before[job.id], job)
        for job in changes.inserted:
            self.dependencies.born(job)
        for job in (*changes.inserted, *changes.updated):
            if job.status in FINISHED and (before.get(job.id) is None or before[job.id].status not in FINISHED):
                self.times.ended(job)
        for job in begun:
            self.times.placed(job)
            self._attempt_begins(job)
        for job in (*changes.inserted, *changes.updated):
            if job.array_state is not None and (before.get(job.id) is None or before[job.id].array_state is None):
                self._array_begins(job)
        self.dependencies.follows(changes)
        self.groups.written(changes)
        self.resources.written(changes, begun)
        for sweep, selection in changes.bulk_stops:
            self.bulk_stops.begun(sweep.request, selection)

    def catalog_changed(self, name: str, resource: CatalogResource | None) -> None:
        """A resource was saved; None: it was deleted."""
        self.catalog.changed(name, resource)
        self.resources.changed(name, resource)
        self.holds.changed(name, resource)

    def shifted(self, skew: timedelta, stored: Mapping[JobId, Job]) -> None:
        """The stored times were shifted to another clock, and nothing else has changed."""
        for job_id, job in self.jobs.items():
            after = stored.get(job_id)
            if (after is None and not self.deletes) or (after is not None and _fixed(job) != _fixed(after)):
                self.fail("I1 only times change with the clock", job, f"{job} {after}")
        self.times.skew = skew
        self.jobs.update(stored)

    def _change(self, before: Job | None, after: Job) -> None:
        if before is None or before.version != after.version:
            self.fail("I22 one writer", after, f"was changed from version {after.version}")
            return
        self.times.check_kill_times(after)
        for holds in (
            self._check_finished,
            self._check_edges,
            self._check_attempts,
            self._check_room,
            self._check_ends,
        ):
            holds(before, after)
        self._check_promised_start(before, after)
        self._check_timeouts(before, after)
        self._check_time_limits(before, after)
        self.checkpoints.committed(before, after)
        self.budgets.ended(before, after)
        self.jobs[after.id] = _saved(after)
        self._changed_at[after.id] = self._now(), before
        if after.status is not before.status or after.stop != before.stop:
            stop = f" stop {after.stop.reason!r}" if after.stop is not None else ""
            self.run_log.write(
                f"{self.run_log.name_of(after.id)} {before.status} > {after.status} ({after.status_reason}){stop}"
            )

    def _once(self, job: Job) -> None:
        """I1: a submission becomes one job however often it is sent; each submission has its own name here."""
        if job.child is not None:
            self.run_log.set_name(job.id, f"{job.spec.name}:{job.child.index}")
            known = job.id in self.jobs
        else:
            self.run_log.set_name(job.id, job.spec.name)
            known = job.spec.name in {other_job.spec.name for other_job in self.jobs.values()}
        if known:
            self.fail("I1 a submission is one job", job)

    def _check_finished(self, before: Job, after: Job) -> None:
        if before.status in FINISHED and _fixed_when_finished(before) != _fixed_when_finished(after):
            self.fail("I3 finished jobs never change", after, f"{before} {after}")

    def _check_promised_start(self, before: Job, after: Job) -> None:
        """While a job is the head of its queue its promised start is never postponed, also not by a restart."""
        if before.promised_start is None or after.blocked_at != before.blocked_at or after.unschedulable:
            return
        if _is_passed_over(after):
            return
        if after.promised_start is None or after.promised_start > before.promised_start:
            how = f"{before.promised_start} > {after.promised_start}"
            self.fail("the promised start of a head is not postponed", after, how)

    def _check_edges(self, before: Job, after: Job) -> None:
        """A commit may contain several transitions; the history is checked at the end."""
        reachable, todo = {before.status}, [before.status]
        while todo:
            fresh = EDGES[todo.pop()] - reachable
            reachable |= fresh
            todo += fresh
        if after.status not in reachable:
            self.fail("I3 only legal edges", after, f"{before.status} > {after.status}")

    def _check_attempts(self, before: Job, after: Job) -> None:
        known = len(before.attempts)
        if after.attempts[:known] != before.attempts or len(after.attempts) > _most_attempts(after):
            self.fail("I3 attempts only grow", after, f"{before.attempts} {after.attempts}")

    def _check_room(self, before: Job, after: Job) -> None:
        """I10: resources of a running container are not given to another job."""
        if before.attempt is None or was_forced(after) or (after.attempt is not None and after.tag == before.tag):
            return
        for seen in self.containers.live(after.id):
            if replace(seen.tag, container_key="") == before.tag:
                self.fail("I10 room is kept while a container runs", seen.tag)

    def _check_ends(self, before: Job, after: Job) -> None:
        """I6, I14: an attempt ends as an inspection shows; SUCCEEDED is exit code 0 without a stop order."""
        for ended in after.attempts[len(before.attempts) :]:
            for tag, reported in outcomes(after, ended):
                true = {
                    (self.times.shown(run.container.started_at), self.times.shown(run.end.at), run.end.exit_code)
                    for run in self.containers.of(tag)
                    if run.ran and run.end is not None and run.ended(self._now())
                }
                # The two times that the engine reports may be of two clocks.
                exact = not self.times.spans_setting(after.id, ended.number)
                if reported not in true if exact else reported[2] not in {end[2] for end in true}:
                    self.fail("I14 an attempt ends as its container did", tag, ended)
            self._tasks.over(after, ended)
        if after.status is Status.SUCCEEDED and before.status is not Status.SUCCEEDED:
            self._check_success(before, after)

    def _check_success(self, before: Job, after: Job) -> None:
        last = after.attempts[-1] if after.attempts else None
        if after.array_state is None and (last is None or last.exit_code != 0 or last.started_at is None or after.stop):
            self.fail("I6 SUCCEEDED is an exit 0", after, after)
        if after.id in self.terminated_jobs or (before.stop is not None and before.stop.kind is StopKind.TERMINATE):
            self.fail("I7 what was terminated never succeeds", after, after)

    def _check_timeouts(self, before: Job, after: Job) -> None:
        if before.stop is None and after.stop is not None and after.stop.kind is StopKind.TIMEOUT:
            ran = [
                run for run in self.containers.of_job(after.id) if run.ran and run.tag.attempt == before.attempt.number
            ]
            started = self.times.earliest_start(before, min(run.container.started_at for run in ran))
            if self.times.true(after.stop.ordered_at) - started < after.spec.timeout:
                self.fail("I16 a timeout counts from the start", after)

    def _check_time_limits(self, before: Job, after: Job) -> None:
        """jobStateTimeLimitActions: a cancelled job was blocked for that long, and reported it."""
        text = after.status_reason or ""
        if after.status is before.status or not text.startswith("Canceled by JobStateTimeLimit"):
            return
        most = self.limits[after.spec.queue]
        since = before.blocked_at
        if before.status is not Status.RUNNABLE or since is None or self._now() - self.times.true(since) < most:
            self.fail("I16 a time limit counts from when it was blocked", after, before)

    def _attempt_begins(self, job: Job) -> None:
        number = job.attempt.number
        if number > self._last_allowed(job):
            self.fail("I7, I8 no attempt after a request was granted", job.tag)
        self.dependencies.begins(job)
        self.resources.begun(job)
        self._tasks.begun(job)

    def _array_begins(self, job: Job) -> None:
        if job.id in self.last_attempts:
            self.fail("I7, I8 no array begins after a request was granted", job)
        self.dependencies.begins(job)

    def _last_allowed(self, job: Job) -> int:
        """The last attempt that may begin; none for a child that was created after its array's order."""
        of_array = job.child is not None and job.child.parent in self.last_attempts
        attempts = self.last_attempts.get(job.id, 0 if of_array else _most_attempts(job))
        return min(attempts, self.bulk_stops.last_allowed(job))

    # --------------------------------------------------------------------------------- at each call, at each start

    def engine_called(self, call: str, tag: Tag | None) -> None:
        """Write, then act: every call is one that the stored state requires."""
        self._check_call_rate(call, tag)
        if call == "remove" and tag is not None:
            self.containers.removal_requested(tag)
        if call == "kill" and tag is not None:
            self.signals.killed(tag)
        stops = call in {"signal_stop", "kill", "remove"}
        if stops and tag in self.orphans and self.orphans[tag] == self.run_log.counts["boots"]:
            self.fail("I22 containers of another server are not changed", tag, call)
        job = None if tag is None else self.jobs.get(tag.job_id)
        if job is None:
            return
        under_way = job.attempt is not None and job.attempt.number == tag.attempt
        part = (
            next((container for container in job.attempt.containers if container.key == tag.container_key), None)
            if under_way
            else None
        )
        if call == "start" and not (under_way and may_start(part)) and not self._was_startable_at_this_instant(tag):
            self.fail("I5 only what is STARTING is started", tag, job)
        if call in {"signal_stop", "kill"} and under_way and not (part and part.stop_ordered):
            self.fail("I15 no container is stopped without an order", tag, call)
        if call == "remove" and under_way and must_be_kept(job, part) and not self._cannot_start(tag, job, part):
            self.fail("I15 nothing under way is removed", tag)

    def _cannot_start(self, tag: Tag, job: Job, part: AttemptContainer | None) -> bool:
        """Whether the start has failed or is lost: the container is removed before that is reported.

        It never ran, or does not exist any more.
        """
        state = job.status if part is None else part.state
        starting = state in {Status.STARTING, AttemptContainerState.STARTING}
        return starting and not any(run.ran and run.removed_at is None for run in self.containers.of(tag))

    def _was_startable_at_this_instant(self, tag: Tag) -> bool:
        """Whether the job could be started before the commit of this instant."""
        at, job = self._changed_at.get(tag.job_id, (None, None))
        if job is None or at != self._now() or job.attempt is None or job.attempt.number != tag.attempt:
            return False
        return may_start(
            next((container for container in job.attempt.containers if container.key == tag.container_key), None)
        )

    def _check_call_rate(self, call: str, tag: Tag | None) -> None:
        """I12: calls that fail are repeated after a pause."""
        times = self._call_times.setdefault((call, tag), deque(maxlen=MAX_PULLS if call == "pull" else MAX_EQUAL_CALLS))
        times.append(self._now())
        if len(times) == times.maxlen and times[-1] - times[0] < timedelta(seconds=1):
            self.fail("I12 no busy loop", tag, call)

    def made(self, tag: Tag) -> None:
        job = self.jobs.get(tag.job_id)
        if job is None or was_forced(job) or self.containers.late["create", tag]:
            return
        if job.attempt is None or job.attempt.number != tag.attempt or not has(job, tag):
            self.fail("I8 containers are created for active attempts only", tag)

    def started(self, tag: Tag) -> None:
        self.run_log.counts["containers started"] += 1
        self.run_log.write(f"container {self.run_log.name_of(tag)} starts")
        ran = [run for run in self.containers.of(tag) if run.ran]
        if len(ran) > 1:
            self.fail("I5 an attempt starts once", tag)
        job = self.jobs.get(tag.job_id)
        live = [run.tag for run in self.containers.live(tag.job_id) if not self._started_late(job, run.tag)]
        if len(live) > len(set(live)) or len({tag_of_run.attempt for tag_of_run in live}) > 1:
            self.fail("I4 one live container a job, or a part", tag)
        everyone = {run.tag.attempt for run in self.containers.of_job(tag.job_id) if run.ran}
        if job is not None and len(everyone) > _most_attempts(job):
            self.fail("I5 no more starts than attempts", tag)
        if job is not None and not was_forced(job):
            self._tasks.started(job, tag)

    def interrupted(self, tag: Tag) -> None:
        """The program has run, and the engine has not saved that."""
        self.run_log.counts["starts interrupted"] += 1
        self.run_log.write(f"container {self.run_log.name_of(tag)} runs, and the engine ends before it has saved that")

    def ran_twice(self, tag: Tag) -> None:
        self.fail("I5 an attempt starts once", tag, "ran before its engine ended")

    def _started_late(self, job: Job | None, tag: Tag) -> bool:
        """Whether an abandoned start was carried out during a later attempt; the next survey removes it."""
        under_way = job is not None and job.attempt is not None and job.attempt.number == tag.attempt
        return self.containers.late["start", tag] > 0 and not under_way

    # ------------------------------------------------------------------------------------------- at each answer

    def submitted(self, name: str, job_id: JobId) -> None:
        if self.acknowledged.setdefault(job_id, name) != name or job_id not in self.jobs:
            self.run_log.fail("I1 acknowledged is durable", name)

    def terminated(self, job_id: JobId) -> None:
        """A terminate of a node other than the main one stops that node alone, also while the job pauses."""
        whole, node = node_of(job_id)
        job = self.jobs.get(whole)
        if (
            node is not None
            and job is not None
            and (job.stop is None or (job.is_pausing and node != job.spec.nodes.main))
        ):
            containers = () if job.attempt is None or job.stop is None else job.attempt.containers
            alive = [
                container
                for container in containers
                if container.node == node and container.state is not AttemptContainerState.ENDED
            ]
            if any(run.terminated_by is None for run in alive):
                self.fail("I7 an acknowledged terminate of a node is durable", job)
            return
        if job is not None and not is_over(job):
            if job.stop is None or job.is_pausing:
                self.fail("I7 an acknowledged terminate is durable", job)
            self.terminated_jobs.add(job.id)
        self._forbid_further_attempts(job, whole)

    def cancelled(self, job_id: JobId) -> None:
        whole, node = node_of(job_id)
        job = self.jobs.get(whole)
        if node is not None and (job is None or job.spec.nodes.form is not DefinitionForm.NODES):
            return
        if job is not None and job.status not in FINISHED and not _is_ending(job):
            self.fail("I8 an acknowledged cancel is durable", job)
        self._forbid_further_attempts(job, whole)

    def _forbid_further_attempts(self, job: Job | None, job_id: JobId) -> None:
        if job is None:
            self._check_child_to_come(job_id)
            return
        for child in (job, *self.dependencies.children(job.id)):
            self.last_attempts.setdefault(child.id, len(child.attempts) + (child.attempt is not None))

    def _check_child_to_come(self, job_id: JobId) -> None:
        """A request for a child that is being created must be answered after that."""
        parent = parent_of(job_id)
        array = None if parent is None else self.jobs.get(parent[0])
        if array is not None and array.array_state is not None and parent[1] < array.spec.array_size:
            self.fail("I7, I8 a request about a later child is not lost", job_id)


def _most_attempts(job: Job) -> int:
    """The attempts that the job may have: a pause ends one that does not count."""
    return job.spec.retry.attempts + sum(attempt.paused for attempt in job.attempts)


def _is_ending(job: Job) -> bool:
    return any(order.kind is not StopKind.PAUSE for order in job.stop_orders)


def _is_passed_over(job: Job) -> bool:
    """Whether a limit of the job's account blocks the job. Then it is no head, and no start is promised.

    `blocked_at` does not show that if the job became blocked again at the same time.
    """
    return status_reasons.code(job.status_reason or "") == status_reasons.code(status_reasons.at_limit(""))


def _begins(before: Job | None, after: Job) -> bool:
    if after.attempt is None:
        return False
    return before is None or before.attempt is None or before.attempt.number != after.attempt.number


def _fixed_when_finished(job: Job) -> tuple[object, ...]:
    """The members that never change once a job is finished."""
    orders = without_checkpoint(job.stop_orders)
    return job.status, job.status_reason, job.attempts, job.started_at, job.stopped_at, orders


def _fixed(job: Job) -> tuple[object, ...]:
    """The members that do not change when the clock is set."""
    under_way = None if job.attempt is None else job.tag
    return (
        job.status,
        job.status_reason,
        job.attempts,
        job.version,
        job.cancel and job.cancel.reason,
        under_way,
        job.stop is None,
    )


def _saved(job: Job) -> Job:
    return replace(job, version=job.version + 1)
