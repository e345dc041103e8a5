"""What must hold whatever happens (faults.md 5), asked at each commit, at each call and start, and at the end.

Servers remember; the engine knows. Each promise compares what was committed with what containers really did, and none
asks the server how it thinks it fares. `kin` and `ledger` have the promises about more than one job.
"""

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.domain.ids import JobId, Tag, node_of, parent_of
from batchq.domain.job import FINISHED, Job, Status, StopCause
from batchq.domain.lifecycle.status import EDGES
from batchq.ports.jobs import Changes
from tests.simulation.clocks import StoredTimes
from tests.simulation.kin import Kin, is_over
from tests.simulation.ledger import Ledger
from tests.simulation.parts import Company, has, is_kept, is_to_stop, may_start, outcomes, was_forced
from tests.simulation.story import Story
from tests.simulation.sweeper import Sweepers
from tests.simulation.truth import Truth

BUSY = 15  # equal calls in a second
PULLS = 200  # the same, of an image that all containers of a large array wait for


class Witness:
    """`jobs` are as last committed. `closed`: after an acknowledged request, the last attempt that may ever begin.

    `strays` are containers of no job, each with the number of the server that had surveyed the engine before it came.
    `stopped` are those whose terminate was acknowledged before they were over; `forgotten` those no more stored.
    """

    def __init__(self, *, now: Callable[[], datetime], story: Story) -> None:
        self.truth = Truth(now)
        self.jobs: dict[JobId, Job] = {}
        self.kin = Kin(jobs=self.jobs, story=story)
        self.ledger = Ledger(jobs=self.jobs, now=now, story=story)
        self.sweepers = Sweepers(jobs=self.jobs, story=story)
        self._company = Company(truth=self.truth, now=now, story=story)
        self.times = StoredTimes(jobs=self.jobs, truth=self.truth, now=now, story=story)
        self.closed: dict[JobId, int] = {}
        self.stopped: set[JobId] = set()
        self.strays: dict[Tag, int | None] = {}
        self.forgets, self.forgotten = False, set[JobId]()
        self.acknowledged: dict[JobId, str] = {}
        self.limits: dict[str, timedelta] = {}
        self._now = now
        self._story = story
        self._told_off: dict[JobId, tuple[datetime, Job]] = {}
        self._asked: dict[tuple[str, Tag | None], deque[datetime]] = {}

    # ------------------------------------------------------------------------------------------------ at each commit

    def committed(self, changes: Changes) -> None:
        before = {job.id: self.jobs.get(job.id) for job in changes.updated}
        for job in changes.inserted:
            self._once(job)
            self.jobs[job.id] = job
            self._story.tell(f"{self._name(job)} {job.status}")
        for job in changes.updated:
            self._change(before[job.id], job)
        for job in changes.inserted:
            self.kin.born(job)
        for job in (*changes.inserted, *changes.updated):
            if job.status in FINISHED and (before.get(job.id) is None or before[job.id].status not in FINISHED):
                self.times.ended(job)
        begun = [job for job in (*changes.inserted, *changes.updated) if _begins(before.get(job.id), job)]
        for job in begun:
            self.times.placed(job)
            self._begins_as_it_may(job)
        for job in (*changes.inserted, *changes.updated):
            if job.array_state is not None and (before.get(job.id) is None or before[job.id].array_state is None):
                self._array_begins_as_it_may(job)
        self.kin.follows(changes)
        self.ledger.written(changes, begun)
        for sweep, selection in changes.sweeps:
            self.sweepers.begun(sweep.order, selection)

    def shifted(self, skew: timedelta, stored: Mapping[JobId, Job]) -> None:
        """The stored times are of another clock from here on, and nothing else has changed."""
        for job_id, job in self.jobs.items():
            after = stored.get(job_id)
            if (after is None and not self.forgets) or (after is not None and _fixed(job) != _fixed(after)):
                self._story.breaks("I1 only times change with the clock", f"{self._name(job)} {job} {after}")
        self.times.skew = skew
        self.jobs.update(stored)

    def _change(self, before: Job | None, after: Job) -> None:
        if before is None or before.version != after.version:
            self._story.breaks("I22 one writer", f"{self._name(after)} was changed from version {after.version}")
            return
        self.times.kills_in_time(after)
        for holds in (self._finished_stay, self._walks_edges, self._attempts_grow, self._room_is_kept, self._ends_true):
            holds(before, after)
        self._promises_hold(before, after)
        self._timeouts_are_not_early(before, after)
        self._limits_are_not_early(before, after)
        self.jobs[after.id] = _saved(after)
        self._told_off[after.id] = self._now(), before
        if after.status is not before.status or after.stop != before.stop:
            stop = f" stop {after.stop.reason!r}" if after.stop is not None else ""
            self._story.tell(f"{self._name(after)} {before.status} > {after.status} ({after.status_reason}){stop}")

    def _once(self, job: Job) -> None:
        """I1: each submission has a name of its own here, and becomes one job however often it is sent."""
        if job.child is not None:
            self._story.name(job.id, f"{job.spec.name}:{job.child.index}")
            known = job.id in self.jobs
        else:
            self._story.name(job.id, job.spec.name)
            known = job.spec.name in {it.spec.name for it in self.jobs.values()}
        if known:
            self._story.breaks("I1 a submission is one job", self._name(job))

    def _finished_stay(self, before: Job, after: Job) -> None:
        if before.status in FINISHED and _life(before) != _life(after):
            self._story.breaks("I3 finished jobs never change", f"{self._name(after)}: {before} {after}")

    def _promises_hold(self, before: Job, after: Job) -> None:
        """While a job is the head of its queue its promised start comes nearer, across restarts too."""
        if before.promised_start is None or after.blocked_at != before.blocked_at or after.unschedulable:
            return
        if after.promised_start is None or after.promised_start > before.promised_start:
            how = f"{self._name(after)}: {before.promised_start} > {after.promised_start}"
            self._story.breaks("a head's promise is not put off", how)

    def _walks_edges(self, before: Job, after: Job) -> None:
        """Two steps of a unit of work may be one change here; the history is walked at the end."""
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
        """I10: what containers may still use is not given away."""
        if before.attempt is None or was_forced(after) or (after.attempt is not None and after.tag == before.tag):
            return
        for seen in self.truth.live(after.id):
            if replace(seen.tag, part="") == before.tag:
                self._story.breaks("I10 room is kept while a container runs", self._story.called(seen.tag))

    def _ends_true(self, before: Job, after: Job) -> None:
        """I6, I14: an end is what an inspection would say, and SUCCEEDED is an exit 0 that nobody had ordered."""
        for ended in after.attempts[len(before.attempts) :]:
            for tag, told in outcomes(after, ended):
                true = {
                    (self.times.shown(it.it.started_at), self.times.shown(it.end.at), it.end.exit_code)
                    for it in self.truth.of(tag)
                    if it.ran and it.end is not None and it.ended(self._now())
                }
                # The two times that the engine reports may be of two clocks.
                exact = not self.times.spans_setting(after.id, ended.number)
                if told not in true if exact else told[2] not in {it[2] for it in true}:
                    self._story.breaks("I14 an attempt ends as its container did", f"{self._story.called(tag)} {ended}")
            self._company.over(after, ended)
        if after.status is Status.SUCCEEDED and before.status is not Status.SUCCEEDED:
            self._succeeds_truly(before, after)

    def _succeeds_truly(self, before: Job, after: Job) -> None:
        last = after.attempts[-1] if after.attempts else None
        if after.array_state is None and (last is None or last.exit_code != 0 or last.started_at is None or after.stop):
            self._story.breaks("I6 SUCCEEDED is an exit 0", f"{self._name(after)} {after}")
        if after.id in self.stopped or (before.stop is not None and before.stop.cause is StopCause.TERMINATED):
            self._story.breaks("I7 what was terminated never succeeds", f"{self._name(after)} {after}")

    def _timeouts_are_not_early(self, before: Job, after: Job) -> None:
        if before.stop is None and after.stop is not None and after.stop.cause is StopCause.TIMED_OUT:
            ran = [it for it in self.truth.of_job(after.id) if it.ran and it.tag.attempt == before.attempt.number]
            started = self.times.earliest_start(before, min(it.it.started_at for it in ran))
            if self.times.true(after.stop.ordered_at) - started < after.spec.timeout:
                self._story.breaks("I16 a timeout counts from the start", self._name(after))

    def _limits_are_not_early(self, before: Job, after: Job) -> None:
        """jobStateTimeLimitActions: who is given up was blocked that long, and said so."""
        text = after.status_reason or ""
        if after.status is before.status or not text.startswith("Canceled by JobStateTimeLimit"):
            return
        most = self.limits[after.spec.queue]
        since = before.blocked_at
        if before.status is not Status.RUNNABLE or since is None or self._now() - self.times.true(since) < most:
            self._story.breaks("I16 a time limit counts from when it was blocked", f"{self._name(after)} {before}")

    def _begins_as_it_may(self, job: Job) -> None:
        number = job.attempt.number
        if number > self._last_allowed(job):
            self._story.breaks("I7, I8 no attempt after a request was granted", self._story.called(job.tag))
        self.kin.begins(job)
        self.ledger.begun(job)
        self._company.begun(job)

    def _array_begins_as_it_may(self, job: Job) -> None:
        if job.id in self.closed:
            self._story.breaks("I7, I8 no array begins after a request was granted", self._name(job))
        self.kin.begins(job)

    def _last_allowed(self, job: Job) -> int:
        """A child that came after the request to its array has none."""
        of_array = job.child is not None and job.child.parent in self.closed
        asked = self.closed.get(job.id, 0 if of_array else job.spec.retry.attempts)
        return min(asked, self.sweepers.last_allowed(job))

    # --------------------------------------------------------------------------------- at each call, at each start

    def asks(self, call: str, tag: Tag | None) -> None:
        """Write, then act: nothing is asked of the engine that the store does not know to be wanted."""
        self._not_too_often(call, tag)
        if call == "remove" and tag is not None:
            self.truth.removal_asked(tag)
        stops = call in {"signal_stop", "kill", "remove"}
        if stops and tag in self.strays and self.strays[tag] == self._story.counts["boots"]:
            self._story.breaks("I22 what another server made is left alone", f"{call} {self._story.called(tag)}")
        job = None if tag is None else self.jobs.get(tag.job_id)
        if job is None:
            return
        under_way = job.attempt is not None and job.attempt.number == tag.attempt
        part = next((it for it in job.attempt.parts if it.key == tag.part), None) if under_way else None
        if call == "start" and not (under_way and may_start(job, part)) and not self._a_moment_ago(tag):
            self._story.breaks("I5 only what is STARTING is started", f"{self._story.called(tag)}: {job}")
        if call in {"signal_stop", "kill"} and under_way and not is_to_stop(job, part):
            self._story.breaks("I15 nothing runs is stopped unordered", f"{call} {self._story.called(tag)}")
        if call == "remove" and under_way and is_kept(job, part):
            self._story.breaks("I15 nothing under way is removed", self._story.called(tag))

    def _a_moment_ago(self, tag: Tag) -> bool:
        """A start that goes out in the very moment in which its end is saved has not heard of that yet."""
        at, job = self._told_off.get(tag.job_id, (None, None))
        if job is None or at != self._now() or job.attempt is None or job.attempt.number != tag.attempt:
            return False
        return may_start(job, next((it for it in job.attempt.parts if it.key == tag.part), None))

    def _not_too_often(self, call: str, tag: Tag | None) -> None:
        """I12: an engine that does not answer is left some time to come back."""
        asked = self._asked.setdefault((call, tag), deque(maxlen=PULLS if call == "pull" else BUSY))
        asked.append(self._now())
        if len(asked) == asked.maxlen and asked[-1] - asked[0] < timedelta(seconds=1):
            self._story.breaks("I12 no busy loop", f"{call} {self._story.called(tag or '')}")

    def made(self, tag: Tag) -> None:
        job = self.jobs.get(tag.job_id)
        if job is None or was_forced(job) or self.truth.late["create", tag]:
            return
        if job.attempt is None or job.attempt.number != tag.attempt or not has(job, tag):
            self._story.breaks("I8 nothing is made but for an attempt under way", self._story.called(tag))

    def started(self, tag: Tag) -> None:
        self._story.counts["containers started"] += 1
        self._story.tell(f"container {self._story.called(tag)} starts")
        ran = [it for it in self.truth.of(tag) if it.ran]
        if len(ran) > 1:
            self._story.breaks("I5 an attempt starts once", self._story.called(tag))
        job = self.jobs.get(tag.job_id)
        live = [it.tag for it in self.truth.live(tag.job_id) if not self._came_too_late(job, it.tag)]
        if len(live) > len(set(live)) or len({it.attempt for it in live}) > 1:
            self._story.breaks("I4 one live container a job, or a part", self._story.called(tag))
        everyone = {it.tag.attempt for it in self.truth.of_job(tag.job_id) if it.ran}
        if job is not None and len(everyone) > job.spec.retry.attempts:
            self._story.breaks("I5 no more starts than attempts", self._story.called(tag))
        if job is not None and tag.part and not was_forced(job):
            self._company.started(job, tag)

    def interrupted(self, tag: Tag) -> None:
        """Its program has run, and the engine does not know."""
        self._story.counts["starts interrupted"] += 1
        self._story.tell(f"container {self._story.called(tag)} runs, and the engine ends before it has saved that")

    def ran_twice(self, tag: Tag) -> None:
        self._story.breaks("I5 an attempt starts once", f"{self._story.called(tag)} ran before its engine ended")

    def _came_too_late(self, job: Job | None, tag: Tag) -> bool:
        """A start that was given up, and carried out when another attempt had begun: a survey sees to it."""
        under_way = job is not None and job.attempt is not None and job.attempt.number == tag.attempt
        return self.truth.late["start", tag] > 0 and not under_way

    # ------------------------------------------------------------------------------------------- at each answer

    def submitted(self, name: str, job_id: JobId) -> None:
        if self.acknowledged.setdefault(job_id, name) != name or job_id not in self.jobs:
            self._story.breaks("I1 acknowledged is durable", name)

    def terminated(self, job_id: JobId) -> None:
        """Of a node that is not the main one it may be that node's alone: then the job goes on."""
        whole, node = node_of(job_id)
        job = self.jobs.get(whole)
        if node is not None and job is not None and job.stop is None:
            return
        if job is not None and not is_over(job):
            if job.stop is None:
                self._story.breaks("I7 an acknowledged terminate is durable", self._name(job))
            self.stopped.add(job.id)
        self._close(job, whole)

    def cancelled(self, job_id: JobId) -> None:
        whole, node = node_of(job_id)
        job = self.jobs.get(whole)
        if node is not None and (job is None or job.spec.nodes is None):
            return
        if job is not None and job.status not in FINISHED and job.cancelled is None and job.stop is None:
            self._story.breaks("I8 an acknowledged cancel is durable", self._name(job))
        self._close(job, whole)

    def _close(self, job: Job | None, job_id: JobId) -> None:
        if job is None:
            self._is_nobody(job_id)
            return
        for it in (job, *self.kin.children(job.id)):
            self.closed.setdefault(it.id, len(it.attempts) + (it.attempt is not None))

    def _is_nobody(self, job_id: JobId) -> None:
        """A request about a child that is about to come is answered when it has."""
        parent = parent_of(job_id)
        array = None if parent is None else self.jobs.get(parent[0])
        if array is not None and array.array_state is not None and parent[1] < array.spec.array_size:
            self._story.breaks("I7, I8 a request about a child to come is not lost", job_id)

    def _name(self, job: Job) -> str:
        return self._story.called(job.id)


def _begins(before: Job | None, after: Job) -> bool:
    if after.attempt is None:
        return False
    return before is None or before.attempt is None or before.attempt.number != after.attempt.number


def _life(job: Job) -> tuple[object, ...]:
    """All but what a user may still say of it."""
    return job.status, job.status_reason, job.attempts, job.started_at, job.stopped_at, job.stop, job.cancelled


def _fixed(job: Job) -> tuple[object, ...]:
    """What does not change when the clock is set."""
    under_way = None if job.attempt is None else job.tag
    return job.status, job.status_reason, job.attempts, job.version, job.cancelled, under_way, job.stop is None


def _saved(job: Job) -> Job:
    return replace(job, version=job.version + 1)
