"""What must hold whatever happens (faults.md 5), asked at each commit, at each call and start, and at the end.

Servers remember; the engine knows. Each promise compares what was committed with what containers really did, and none
asks the server how it thinks it fares.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from batchq.domain.catalog import ComputeEnvironment
from batchq.domain.consequences import part_of
from batchq.domain.gates import main_node, task_of
from batchq.domain.job import ACTIVE, FINISHED, Attempt, Job, Part, PartState, Status, StopCause
from batchq.domain.moves import EDGES
from batchq.domain.names import JobId, Tag
from batchq.domain.parts import tags_kept, tags_under_way
from batchq.values import Changes
from tests.simulation.story import Story
from tests.simulation.truth import Truth

BUSY = 15  # equal calls in a second
JUST_NOW = timedelta(seconds=1)  # a server hears of a resized environment a moment after the store has it


class Witness:
    """`jobs` are as last committed. `closed`: after an acknowledged request, the last attempt that may ever begin.

    `stopped` are those whose terminate was acknowledged before they were over.
    """

    def __init__(self, *, now: Callable[[], datetime], story: Story) -> None:
        self.truth = Truth(now)
        self.jobs: dict[JobId, Job] = {}
        self.closed: dict[JobId, int] = {}
        self.stopped: set[JobId] = set()
        self.acknowledged: dict[JobId, str] = {}
        self._now = now
        self._story = story
        self._asked: dict[tuple[str, Tag | None], deque[datetime]] = defaultdict(lambda: deque(maxlen=BUSY))
        self._sizes: dict[str, list[tuple[datetime, int]]] = defaultdict(list)

    def resized(self, environment: ComputeEnvironment) -> None:
        self._sizes[environment.name].append((self._now(), environment.max_millicpus))

    # ------------------------------------------------------------------------------------------------ at each commit

    def committed(self, changes: Changes) -> None:
        before = {job.id: self.jobs.get(job.id) for job in changes.updated}
        for job in changes.inserted:
            self._story.name(job.id, job.spec.name)
            self._once(job)
            self.jobs[job.id] = job
            self._story.tell(f"{job.spec.name} {job.status}")
        for job in changes.updated:
            self._change(before[job.id], job)
        for job in changes.updated:
            self._begins_as_it_may(before[job.id], job)
        for job in (*changes.inserted, *changes.updated):
            self._dependents_follow(job)

    def _change(self, before: Job | None, after: Job) -> None:
        if before is None or before.version != after.version:
            self._story.breaks("I22 one writer", f"{self._name(after)} was changed from version {after.version}")
            return
        for holds in (self._finished_stay, self._walks_edges, self._attempts_grow, self._room_is_kept, self._ends_true):
            holds(before, after)
        self._timeouts_are_not_early(before, after)
        self.jobs[after.id] = _saved(after)
        if after.status is not before.status or after.stop != before.stop:
            stop = f" stop {after.stop.reason!r}" if after.stop is not None else ""
            self._story.tell(f"{self._name(after)} {before.status} > {after.status} ({after.status_reason}){stop}")

    def _once(self, job: Job) -> None:
        """I1: each submission has a name of its own here, and becomes one job however often it is sent."""
        if job.spec.name in {it.spec.name for it in self.jobs.values()}:
            self._story.breaks("I1 a submission is one job", job.spec.name)

    def _finished_stay(self, before: Job, after: Job) -> None:
        if before.status in FINISHED and _life(before) != _life(after):
            self._story.breaks("I3 finished jobs never change", f"{self._name(after)}: {before} {after}")

    def _walks_edges(self, before: Job, after: Job) -> None:
        """Two steps of a turn may be one change here; the history is walked at the end."""
        reachable, todo = {before.status}, [before.status]
        while todo:
            fresh = EDGES[todo.pop()] - reachable
            reachable |= fresh
            todo += fresh
        if after.status not in reachable:
            self._story.breaks("I3 only legal edges", f"{self._name(after)}: {before.status} > {after.status}")

    def _attempts_grow(self, before: Job, after: Job) -> None:
        known = len(before.attempts)
        if after.attempts[:known] != before.attempts or len(after.attempts) > after.spec.retry.attempts:
            self._story.breaks("I3 attempts only grow", f"{self._name(after)}: {before.attempts} {after.attempts}")

    def _room_is_kept(self, before: Job, after: Job) -> None:
        """I10: what a container may still use is not given away. Only what a lost start will start is not known yet."""
        over = before.attempt is not None and (after.attempt is None or after.tag != before.tag)
        for tag in self.truth.attempt_lives(before.tag) if over else ():
            if not self.truth.late["start", tag]:
                self._story.breaks("I10 room is kept while a container runs", self._story.called(tag))

    def _ends_true(self, before: Job, after: Job) -> None:
        """I6, I14: an end is what an inspection would say, and SUCCEEDED is an exit 0 that nobody had ordered."""
        for ended in after.attempts[len(before.attempts) :]:
            tag = Tag(job_id=after.id, attempt=ended.number)
            for it in ended.parts:
                self._ended_true(replace(tag, part=it.key), it)
            if not ended.parts:
                self._ended_true(tag, ended)
        if after.status is Status.SUCCEEDED and before.status is not Status.SUCCEEDED:
            last = after.attempts[-1]
            if last.exit_code != 0 or last.started_at is None or after.stop is not None:
                self._story.breaks("I6 SUCCEEDED is an exit 0", f"{self._name(after)} {after}")
            if after.id in self.stopped or (before.stop is not None and before.stop.cause is StopCause.TERMINATED):
                self._story.breaks("I7 what was terminated never succeeds", f"{self._name(after)} {after}")

    def _ended_true(self, tag: Tag, ended: Attempt | Part) -> None:
        ends = [it for it in self.truth.of(tag) if it.ran and it.end is not None and it.ended(self._now())]
        told = (ended.started_at, ended.stopped_at, ended.exit_code)
        true = {(it.it.started_at, it.end.at, it.end.exit_code) for it in ends}
        if ended.started_at is not None and ended.exit_code is not None and told not in true:
            self._story.breaks("I14 an attempt ends as its container did", f"{self._story.called(tag)} {ended}")

    def _timeouts_are_not_early(self, before: Job, after: Job) -> None:
        if before.stop is None and after.stop is not None and after.stop.cause is StopCause.TIMED_OUT:
            began = min(it.it.started_at for it in self.truth.of_attempt(after.tag) if it.ran)
            if after.stop.ordered_at - began < after.spec.timeout:
                self._story.breaks("I16 a timeout counts from the start", self._name(after))

    def _begins_as_it_may(self, before: Job | None, after: Job) -> None:
        if after.attempt is None or (before is not None and before.attempt is not None):
            return
        number = after.attempt.number
        if number > self.closed.get(after.id, number):
            self._story.breaks("I7, I8 no attempt after a request was granted", self._story.called(after.tag))
        if any(self.jobs[it.job_id].status is not Status.SUCCEEDED for it in after.spec.depends_on):
            self._story.breaks("I11 dependents start after all have SUCCEEDED", self._name(after))
        self._room_is_not_given_twice(after.attempt.environment)

    def _room_is_not_given_twice(self, environment: str) -> None:
        active = [it for it in self.jobs.values() if it.attempt is not None and it.attempt.environment == environment]
        used = sum(it.spec.resources.millicpus for it in active)
        if used > self._largest(environment):
            self._story.breaks("I10 no more than there is", f"{environment}: {used} of {self._largest(environment)}")

    def _largest(self, environment: str) -> int:
        """What it has, or had a moment ago."""
        sizes, now = self._sizes[environment], self._now()
        until = [at for at, _ in sizes[1:]] + [now]
        return max(size for (_, size), ends in zip(sizes, until, strict=True) if now - ends <= JUST_NOW)

    def _dependents_follow(self, job: Job) -> None:
        """I11: in the commit that ends a job its dependents are decided; and none is left unjudged."""
        if job.status is Status.SUBMITTED:
            self._story.breaks("I11 new jobs are judged at once", self._name(job))
        if job.status not in FINISHED:
            return
        for it in self.jobs.values():
            if it.status is Status.PENDING and any(on.job_id == job.id for on in it.spec.depends_on):
                statuses = {self.jobs[on.job_id].status for on in it.spec.depends_on}
                if Status.FAILED in statuses or statuses == {Status.SUCCEEDED}:
                    self._story.breaks("I11 dependents are decided at once", self._name(it))

    # --------------------------------------------------------------------------------- at each call, at each start

    def asks(self, call: str, tag: Tag | None) -> None:
        """Write, then act: nothing is asked of the engine that the store does not know to be wanted."""
        self._not_too_often(call, tag)
        job = None if tag is None else self.jobs.get(tag.job_id)
        if job is None:
            return
        under_way = job.attempt is not None and tag in (*tags_under_way(job), *tags_kept(job))
        part = part_of(job, tag.part) if under_way and tag.part else None
        starts = under_way and (job.status is Status.STARTING if part is None else part.state is PartState.STARTING)
        stops = job.stop is not None if part is None else part.stopping
        if call == "start" and (not starts or stops):
            self._story.breaks("I5 only what is STARTING is started", f"{self._story.called(tag)}: {job}")
        if call in {"signal_stop", "kill"} and under_way and not stops:
            self._story.breaks("I15 nothing runs is stopped unordered", f"{call} {self._story.called(tag)}")
        if call == "remove" and under_way and job.status in ACTIVE:
            self._story.breaks("I15 nothing under way is removed", self._story.called(tag))

    def _not_too_often(self, call: str, tag: Tag | None) -> None:
        """I12: an engine that does not answer is left some time to come back."""
        asked = self._asked[call, tag]
        asked.append(self._now())
        if len(asked) == asked.maxlen and asked[-1] - asked[0] < timedelta(seconds=1):
            self._story.breaks("I12 no busy loop", f"{call} {self._story.called(tag or '')}")

    def made(self, tag: Tag) -> None:
        job = self.jobs.get(tag.job_id)
        known = job is not None and job.attempt is not None and tag in tags_under_way(job)
        if job is not None and not known and not self.truth.late["create", tag]:
            self._story.breaks("I8 nothing is made but for an attempt under way", self._story.called(tag))

    def started(self, tag: Tag) -> None:
        self._story.counts["containers started"] += 1
        self._story.tell(f"container {self._story.called(tag)} starts")
        ran = [it for it in self.truth.of(tag) if it.ran]
        if len(ran) > 1 and tag in self.truth.vanished:
            self._story.counts["attempts begun anew after a human removed their container"] += 1
        elif len(ran) > 1:
            self._story.breaks("I5 an attempt starts once", self._story.called(tag))
        live = [it.tag for it in self.truth.live(tag.job_id)]
        if len(set(live)) < len(live) or len({it.attempt for it in live}) > 1:
            self._story.breaks("I4 one live attempt a job", self._story.called(tag))
        job = self.jobs.get(tag.job_id)
        everyone = {it.tag.attempt for it in self.truth.of_job(tag.job_id) if it.ran}
        if job is not None and len(everyone) > job.spec.retry.attempts:
            self._story.breaks("I5 no more starts than attempts", self._story.called(tag))
        if job is not None and tag.part:
            self._waited(job, tag)

    def _waited(self, job: Job, tag: Tag) -> None:
        """What one of several waits for has come true, by what the containers did; and the main node came first."""
        main = main_node(job)
        ran = {it.tag.part: it for it in self.truth.of_attempt(tag) if it.ran}
        if int(tag.node) != main and not any(it.startswith(f"{main}/") for it in ran):
            self._story.breaks("the main node starts first", self._story.called(tag))
        for on in task_of(job, int(tag.node)).container(tag.container).depends_on:
            it = ran.get(f"{tag.node}/{on.container}")
            ended = it is not None and it.ended(self._now())
            well = ended and it.end is not None and it.end.exit_code == 0
            came_true = {"START": it is not None, "COMPLETE": it is None or ended, "SUCCESS": well}
            if not came_true[on.condition]:
                self._story.breaks("a container waits for what it depends on", f"{self._story.called(tag)} {on}")

    # ------------------------------------------------------------------------------------------- at each answer

    def submitted(self, name: str, job_id: JobId) -> None:
        if self.acknowledged.setdefault(job_id, name) != name or job_id not in self.jobs:
            self._story.breaks("I1 acknowledged is durable", name)

    def terminated(self, job_id: JobId) -> None:
        job = self.jobs.get(job_id)
        if job is not None and job.status not in FINISHED and job.stop is None:
            self._story.breaks("I7 an acknowledged terminate is durable", self._name(job))
        if job is not None and job.status not in FINISHED:
            self.stopped.add(job_id)
        self._close(job)

    def cancelled(self, job_id: JobId) -> None:
        job = self.jobs.get(job_id)
        if job is not None and job.status not in FINISHED and job.cancelled is None and job.stop is None:
            self._story.breaks("I8 an acknowledged cancel is durable", self._name(job))
        self._close(job)

    def _close(self, job: Job | None) -> None:
        if job is not None:
            self.closed.setdefault(job.id, len(job.attempts) + (job.attempt is not None))

    def _name(self, job: Job) -> str:
        return self._story.called(job.id)


def _life(job: Job) -> tuple[object, ...]:
    """All but what a user may still say of it."""
    return job.status, job.status_reason, job.attempts, job.started_at, job.stopped_at, job.stop, job.cancelled


def _saved(job: Job) -> Job:
    return replace(job, version=job.version + 1)
