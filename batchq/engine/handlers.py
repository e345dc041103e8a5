"""What each kind of letter does to a turn."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import assert_never

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.access.accounts import Caller
from batchq.domain.catalog import State
from batchq.domain.ids import JobId, QueueName, parent_of
from batchq.domain.job import Job, JobSpec
from batchq.domain.lifecycle import arrays
from batchq.domain.lifecycle.clock_shift import bounded
from batchq.domain.lifecycle.container_rules import part_of
from batchq.domain.lifecycle.containers import has_parts, tag_looked_at
from batchq.domain.lifecycle.reconcile import Reconciled, reconcile
from batchq.domain.lifecycle.transitions import due
from batchq.domain.scheduling.capacity import usable
from batchq.domain.scheduling.dependencies import named, refusal
from batchq.engine.messages import (
    Amend,
    Deliver,
    EngineLost,
    GroundChanged,
    Letter,
    MoreToDo,
    Resume,
    Ring,
    SearchQueues,
    Submit,
    Surveyed,
    SweepJobs,
)
from batchq.engine.scheduling.catalog_view import Ground
from batchq.engine.scheduling.queue_cache import Ahead
from batchq.engine.state import EngineState
from batchq.engine.unit_of_work import Turn, array_to_spawn, comes
from batchq.errors import Invalid
from batchq.ports.jobs import JobStore, SubmissionKey

log = logging.getLogger(__name__)


class Reader:
    """Handles messages: changes the turn, and the state that surveys and requests change.

    `admit` raises Invalid for a job that the scheduler must not take; `sweep` takes a bulk stop.
    """

    def __init__(
        self,
        state: EngineState,
        ground: Ground,
        *,
        admit: Callable[[Turn, JobSpec], None],
        sweep: Callable[[Turn, SweepJobs], None],
    ) -> None:
        self._state = state
        self._ground = ground
        self._admit = admit
        self._sweep = sweep
        self._engine_trouble: str | None = None
        self._earlier: Mapping[SubmissionKey, JobId] = {}

    async def prepare(self, turn: Turn, letters: Sequence[Letter], store: JobStore, ahead: Ahead) -> None:
        """Fetch, in one go each, the jobs and the earlier submissions that the letters speak of."""
        asked: set[JobId] = set()
        again = []
        for letter in letters:
            asked.update(_asked(letter))
            if (
                isinstance(letter, Submit)
                and letter.key is not None
                and self._state.repeats.may_be_one(letter.key, turn.now)
            ):
                again.append(letter.key)
            elif isinstance(letter, Ring):
                ahead.doubt(letter.job_id)
        self._earlier = await store.submissions(again) if again else {}
        asked.update(self._earlier.values())
        unknown = sorted(job_id for job_id in asked if not turn.knows(job_id)) if asked else ()
        if unknown:
            turn.learn((await ahead.jobs(unknown)).values())

    def read(self, turn: Turn, letter: Letter) -> None:
        match letter:
            case Submit():
                self._submit(turn, letter)
            case Deliver() | Amend() | Ring():
                self._tell(turn, letter)
            case Surveyed():
                self._reconcile(turn, letter)
            case Resume():
                self._resume(turn, letter)
                turn.note("data")
            case SweepJobs():
                self._sweep(turn, letter)
            case EngineLost():
                self._state.host = None
            case GroundChanged():
                self._state.ground_changed = True
            case MoreToDo():
                turn.place = True
            case SearchQueues():
                turn.search = True
            case _:
                assert_never(letter)

    def submitted_as(self, turn: Turn, letter: Submit) -> JobId:
        """The job that a submission made, now or the first time it came."""
        if letter.key is None:
            return letter.job_id
        return self._earlier.get(letter.key) or turn.submitted.get(letter.key, letter.job_id)

    def _submit(self, turn: Turn, letter: Submit) -> None:
        if turn.knows(self.submitted_as(turn, letter)):
            return
        self._check_queue(letter.spec.queue, letter.caller)
        if letter.spec.depends_on:
            _check_dependencies(turn, letter.spec, letter.caller)
        self._admit(turn, letter.spec)
        job = Job(
            id=letter.job_id, order=self._state.next_order, spec=letter.spec, created_at=turn.now, tags=letter.tags
        )
        self._state.next_order += 1 + (letter.spec.array_size or 0)
        turn.insert(job, letter.key)

    def _check_queue(self, name: QueueName, caller: Caller) -> None:
        """Again, for the request was checked before it lay here: a queue that is being deleted takes no jobs."""
        queue = self._ground.queues.get(name)
        if queue is None or not caller.sees_queue(name):
            raise Invalid(f"JobQueue {name} not found.")
        if queue.state is not State.ENABLED:
            raise Invalid(f"JobQueue {name} is disabled and takes no jobs.")

    def _reconcile(self, turn: Turn, letter: Surveyed) -> None:
        """A changed machine is changed ground."""
        tags = [it.tag for it in letter.seen]
        renewed = self._state.engine_check.inspect(letter.engine.id, seen=tags, active=turn.active().values())
        turn.engine_id = renewed or turn.engine_id  # that of a resume in this turn
        if not self._state.engine_check.accepted:
            self._refuse_engine()
            return
        for job in turn.active().values():
            turn.keep(job, bounded(job, turn.now))
        self._state.engine_ahead = None if letter.engine.time is None else letter.engine.time - turn.now
        host = usable(letter.capacity)
        self._state.ground_changed = self._state.ground_changed or self._state.host != host
        self._state.host = host
        self._state.seen = frozenset(job_id for it in letter.seen for job_id in _with_array(it.tag.job_id))
        self._state.strays.surveyed(tags)
        if self._state.safety.holds:
            self._state.safety.take_up(turn, letter.seen)
            return
        found = _reconciled(turn, letter)
        for job_id, lost in found.news:
            turn.step(job_id, lost)
        if found.news:  # the loss of one container may change what is wanted of others
            found = _reconciled(turn, letter)
        spared = self._state.safety.spared(turn, tags)
        for effect in found.effects:
            if not isinstance(effect, do.ClearAway) or effect.tag not in spared:
                turn.effects.append((effect, turn.get(effect.tag.job_id)))
        for job in turn.active().values():  # a look after a timeout may have had no answer
            looks = (tag_looked_at(job, alarm) for alarm in due(job, turn.now))
            turn.effects += ((do.InspectContainer(tag=tag), job) for tag in looks if tag is not None)
        purged = self._state.safety.kept.purged.intersection(found.strays)
        strays = [it for it in found.strays if it not in spared and it not in purged]
        going = (*sorted(purged, key=str), *self._state.strays.ripe(strays, turn.now))
        for tag in going:
            log.warning("container %s belongs to no known job; it is removed", tag)
        turn.effects += ((do.ClearAway(tag=tag), None) for tag in going)

    def _refuse_engine(self) -> None:
        if self._state.host is not None or self._engine_trouble != self._state.engine_check.trouble:
            log.warning("%s", self._state.engine_check.trouble)
        self._engine_trouble = self._state.engine_check.trouble
        self._state.host = None

    def _resume(self, turn: Turn, letter: Resume) -> None:
        """The engine is accepted first: what restored data finds on it is to be seen before that is resumed."""
        if self._state.engine_check.foreign is None:
            self._state.safety.resume(turn, purge=letter.purge)
        elif letter.new_engine:
            turn.engine_id = self._state.engine_check.foreign
        else:
            raise Invalid(f"{self._state.engine_check.trouble}.")

    def _tell(self, turn: Turn, letter: Deliver | Amend | Ring) -> None:
        """A letter about one job. One about an unknown job changes nothing; one about a child being spawned waits.

        A stop order to a child of an array that has not begun is kept by the array.
        """
        job = turn.get(letter.job_id)
        if job is None:
            if comes(turn, letter.job_id):
                turn.later.append(letter)
            elif isinstance(letter, Deliver):
                _keep_order(turn, letter)
            return
        match letter:
            case Deliver(event=event):
                if not self._state.safety.doubts(job, event):
                    turn.step(job.id, event)
            case Amend(change=change):
                turn.keep(job, change(job))
            case Ring():
                self._ring(turn, job, letter)

    def _ring(self, turn: Turn, job: Job, letter: Ring) -> None:
        """A timeout is ordered when the container that may decide is seen alive: it may have ended in time, unseen.

        What waits for such a look holds up nothing else that is due.
        """
        for alarm in due(job, turn.now):
            look_at = tag_looked_at(job, alarm)
            if look_at is None:
                turn.step(job.id, alarm)
                return
            if look_at == letter.seen_alive:
                if self._is_over_for_engine(turn, job, letter):
                    turn.step(job.id, alarm)
                return
            turn.effects.append((do.InspectContainer(tag=look_at), job))

    def _is_over_for_engine(self, turn: Turn, job: Job, letter: Ring) -> bool:
        """Whether the time of a container of an earlier boot is over by its engine's clock too. Decision 0035."""
        assert letter.seen_alive is not None, f"{letter} is of no container"
        ours = part_of(job, letter.seen_alive.part).started_at if has_parts(job) else job.started_at
        if letter.began is None or ours is None or self._state.engine_ahead is None or job.spec.timeout is None:
            return True
        if self._state.clock_since is None or ours >= self._state.clock_since:
            return True
        excess = (turn.now - ours) - (turn.now + self._state.engine_ahead - letter.began)
        started = job.started_at or ours
        return turn.now - max(excess, timedelta()) >= started + job.spec.timeout


def _keep_order(turn: Turn, letter: Deliver) -> None:
    """The audit record is about the child, which has no row yet."""
    array, child = array_to_spawn(turn, letter.job_id), parent_of(letter.job_id)
    if array is None or array.family is not None or child is None:
        return
    if not isinstance(letter.event, on.CancelRequested | on.TerminateRequested):
        return
    after = arrays.keep_order(array, child[1], letter.event)
    if after is not array:
        caller, turn.caller = turn.caller, None
        turn.keep(array, after)
        turn.caller = caller
        turn.note_job(array, letter.job_id)


def _check_dependencies(turn: Turn, spec: JobSpec, caller: Caller) -> None:
    """In the turn that takes the job, for what it names may have been forgotten a moment before."""
    found = {job_id: job for job_id in named(spec) if (job := turn.get(job_id)) is not None}
    known = {job_id: job for job_id, job in found.items() if caller.reaches(job.spec.owner)}
    if why := refusal(spec, known):
        raise Invalid(why)


def _reconciled(turn: Turn, letter: Surveyed) -> Reconciled:
    return reconcile(
        active=turn.active(),
        known={it.tag.job_id for it in letter.seen if turn.knows(it.tag.job_id)},
        seen=letter.seen,
        expected=letter.expected,
        lost_before=letter.lost_before,
    )


def _asked(letter: Letter) -> Sequence[JobId]:
    match letter:
        case Deliver(job_id=job_id) | Amend(job_id=job_id) | Ring(job_id=job_id):
            return _with_array(job_id)
        case Submit(spec=spec):
            return named(spec) if spec.depends_on else ()
        case Surveyed(seen=seen):
            return [job_id for it in seen for job_id in _with_array(it.tag.job_id)]
        case _:
            return ()


def _with_array(job_id: JobId) -> tuple[JobId, ...]:
    child = parent_of(job_id)
    return (job_id,) if child is None else (job_id, child[0])
