"""What remains of training jobs: final checkpoints, the deletion of checkpoints, and the last metrics. Decision 0046.

A final checkpoint is one that was written after the first signal which requests it. The checkpoints that exist before
are recorded before that signal is sent, so no file's time is compared with the server's clock (decision 0066).

While a job that is being stopped is expected to write a checkpoint, its directory is read every half second. It is also
read once the container has ended, before the end is reported, so the job ends with its final checkpoint known.

Deletions follow from the saved job: they begin when its end is saved, and a sweep at the start of the server and every
hour begins them again. So a crash loses no deletion, and nothing is deleted before the order that requires it is saved.

The last metrics are saved before the container is removed: a server that is killed in between saves them at the next
start, because the container still exists.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from batchq.domain import events as on
from batchq.domain.enums import FINISHED
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Attempt, Job
from batchq.domain.lifecycle.container_rules import any_awaits_checkpoint, leading_tag
from batchq.domain.lifecycle.escalation import may_repeat_at
from batchq.domain.lifecycle.reconcile import stopped_container
from batchq.domain.lifecycle.stopping import awaits_final_checkpoint, last_pause
from batchq.domain.stop_values import StopOrder
from batchq.domain.training import METRICS_FILE, MetricValue
from batchq.engine.mailbox import JobEvent, MetricsRead
from batchq.engine.supervisor import Supervisor
from batchq.errors import Invalid, StoreFailed
from batchq.ports.checkpoints import CheckpointStore, Mark, Moment
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore

log = logging.getLogger(__name__)
POLL_INTERVAL = 0.5  # seconds between two reads of the directory of a job that is to write a checkpoint
SWEEP_INTERVAL = 3600.0  # seconds between two sweeps
SWEEP_RETRY_INTERVAL = 10.0  # seconds after a sweep that failed or was suspended
SWEEP_BATCH = 200  # directories of one step of a sweep
#: Reads the last metrics of an attempt whose log is stored, by name. Raises StoreFailed.
ReadMetrics = Callable[[Job, Attempt], Awaitable[Mapping[str, MetricValue]]]


class Checkpoints:
    """Reports final checkpoints to the engine's loop, and deletes checkpoints of finished jobs."""

    def __init__(
        self,
        *,
        store: JobStore,
        files: CheckpointStore,
        retention: timedelta | None,
        clock: Clock,
        tasks: Supervisor,
        post: Callable[[JobEvent], None],
    ) -> None:
        self._store = store
        self.files = files
        #: The time after the end of a job until its checkpoints are deleted; None: never.
        self._retention = retention
        self._clock = clock
        self._tasks = tasks
        self._post = post
        #: The jobs with a stop step that waits for a checkpoint, as last saved.
        self._awaiting: dict[JobId, Job] = {}
        #: Set when a job is added to them.
        self._added = asyncio.Event()

    def on_saved(self, job: Job) -> None:
        """Follow a job with checkpoints that was saved, or loaded at the start."""
        if any_awaits_checkpoint(job):
            self._awaiting[job.id] = job
            self._added.set()
        else:
            self._awaiting.pop(job.id, None)
        if job.status in FINISHED or (job.attempt is None and unseen_final(job)):
            self._tasks.spawn(f"checkpoints of {job.id}", self._finish_or_log(job))

    async def watch(self) -> None:
        """Report each checkpoint that a stop step waits for."""
        while True:
            await self._added.wait()
            self._added.clear()
            while self._awaiting:
                for job in tuple(self._awaiting.values()):
                    await self.report_final(job, ended=False)
                await self._clock.sleep(POLL_INTERVAL)

    async def sweep(self, *, suspended: Callable[[], bool]) -> None:
        """Repeat the deletions that finished jobs require, and delete old checkpoints.

        `suspended`: whether nothing may be deleted at present, as in safe mode.
        """
        while True:
            after: JobId | None = None
            is_complete = False
            try:
                while not suspended() and (ids := await self.files.jobs(after=after, limit=SWEEP_BATCH)):
                    await self._sweep(ids)
                    after = ids[-1]
                is_complete = not suspended()
            except StoreFailed as failure:
                log.warning("the checkpoint directories are not swept now: %s", failure)
            await self._clock.sleep(SWEEP_INTERVAL if is_complete else SWEEP_RETRY_INTERVAL)

    async def mark_stop(self, job: Job) -> None:
        """Record the checkpoints that exist before a stop signal. An error is logged.

        That is before the first signal that requests a final one, and before each signal that another attempt may
        follow: it continues from what the program writes after the signal.
        """
        is_final = awaits_final_checkpoint(job)
        is_last_attempt = job.stop is not None and not job.is_pausing
        if job.spec.checkpoints is None or (is_last_attempt and not is_final):
            return
        try:
            await self.files.mark(job.id, _moment(job, Mark.STOP) if is_final else None)
        except StoreFailed as failure:
            log.warning("job %s: its checkpoints are not recorded before the signal: %s", job.id, failure)

    async def may_signal(self, job: Job, tag: Tag, unanswered_at: datetime | None) -> bool:
        """Whether the checkpoint signal that is due for a container may be sent.

        A signal that may be delivered already is repeated only when the time for a checkpoint is over without one: the
        program would write a second checkpoint. `unanswered_at`: when the last call ended unanswered; None: none did.
        """
        stopped = stopped_container(job, tag)
        repeat_at = None if stopped is None else may_repeat_at(stopped, unanswered_at)
        if repeat_at is None:
            return True
        return self._clock.now() >= repeat_at and not await self.report_final(job, ended=False)

    async def report_final(self, job: Job, *, ended: bool) -> bool:
        """Post the final checkpoint of the attempt under way, if one was requested and it exists; whether it does.

        `ended`: the container has ended. An error of the disk is logged.
        """
        if not awaits_final_checkpoint(job):
            return False
        try:
            return await self._post_final(job, ended=ended)
        except StoreFailed as failure:
            log.warning("job %s: its final checkpoint is not looked up now: %s", job.id, failure)
            return False

    async def _post_final(self, job: Job, *, ended: bool) -> bool:
        """Post the newest complete checkpoint that was written after the request. Returns whether one exists.

        A mark is set first, and only checkpoints that are complete at the mark count. Later ones are not posted: the
        next attempt continues from them.
        """
        names = await self._complete_names(job, ended=ended)
        if not names:
            return False
        moment = _moment(job, Mark.FINAL)
        with suppress(StoreFailed):  # then the next attempt continues from the final checkpoint
            await self.files.mark(job.id, moment, ended=ended)
            later = {checkpoint.name for checkpoint in await self.files.entries(job.id, ended=True, since=moment)}
            marked = [name for name in await self._complete_names(job, ended=ended) if name not in later]
            names = marked or names
        self._post(JobEvent(job_id=job.id, event=on.CheckpointSeen(attempt=moment.attempt, name=names[-1])))
        return True

    async def _complete_names(self, job: Job, *, ended: bool) -> list[str]:
        """The complete checkpoints from after the request for a final one, oldest first."""
        found = await self.files.entries(job.id, ended=ended, since=_moment(job, Mark.STOP))
        return [checkpoint.name for checkpoint in found if checkpoint.complete]

    async def _finish_or_log(self, job: Job) -> None:
        try:
            await self._finish(job)
        except StoreFailed as failure:
            log.warning("job %s: its checkpoints are not searched or deleted yet: %s", job.id, failure)

    async def _finish(self, job: Job) -> None:
        """Delete the temporary entries of a finished job, or all that its stop order does not keep.

        A final checkpoint that was not reported before the end of the attempt is reported first; then its commit begins
        this again. Nothing is deleted of a paused job.
        """
        if unseen_final(job) and await self._post_final(job, ended=True):
            return
        if job.status not in FINISHED:
            return
        order = job.stop
        if order is None or order.keep_checkpoints:
            await self.files.discard_temporary(job.id)
        else:
            await self.files.discard_except(job.id, (METRICS_FILE, *await self._kept(job, order)))

    async def _kept(self, job: Job, order: StopOrder) -> Sequence[str]:
        """The names that a request for a final checkpoint keeps: that checkpoint, and all from after the request.

        Without any the newest checkpoint: the job could not write one, or the moment of the request may not be
        recorded. An order without a final checkpoint keeps no name.
        """
        names: list[str] = []
        if order.final_checkpoint_requested and job.attempts:
            later = await self.files.entries(job.id, ended=True, since=_moment(job, Mark.STOP))
            final = () if order.final_checkpoint is None else (order.final_checkpoint,)
            names = [*final, *(checkpoint.name for checkpoint in later)]
        if names or not (order.final_checkpoint_requested or order.final_checkpoint_named):
            return names
        return [checkpoint.name for checkpoint in (await self.files.entries(job.id, ended=True))[-1:]]

    async def _sweep(self, ids: Sequence[JobId]) -> None:
        known = await self._store.jobs(ids)
        for job_id in ids:
            job = known.get(job_id)
            if job is not None and job.status not in FINISHED:
                continue
            try:
                if await self._is_old(job_id, job):
                    log.info("job %s: its checkpoints are deleted after %s", job_id, self._retention)
                    await self.files.discard_except(job_id, ())
                elif job is not None:
                    await self._finish(job)
            except (StoreFailed, Invalid) as failure:
                log.warning("job %s: its checkpoints are not deleted yet: %s", job_id, failure)

    async def _is_old(self, job_id: JobId, job: Job | None) -> bool:
        """Whether the retention period is over: since the end of the job, or since the last change if it is unknown."""
        if self._retention is None:
            return False
        ended: datetime | None = None if job is None else job.stopped_at
        if ended is None:
            found = await self.files.entries(job_id, ended=True)
            ended = found[-1].created_at if found else None
        return ended is not None and ended <= self._clock.now() - self._retention


def unseen_final(job: Job) -> bool:
    """Whether the last attempt of a job ended before the final checkpoint that was requested of it was seen."""
    if not job.attempts or job.attempt is not None:
        return False
    order = last_pause(job) if job.attempts[-1].paused else job.stop
    return order is not None and order.final_checkpoint_requested and order.final_checkpoint is None


def _moment(job: Job, mark: Mark) -> Moment:
    """The moment of the attempt under way, else of the last attempt. AssertionError for a job without attempts."""
    attempt = job.latest_attempt
    assert attempt is not None, f"{job.id} has no attempt"
    return Moment(attempt=attempt.number, mark=mark)


class FinalMetrics:
    """Reads and saves the metrics of attempts that have ended."""

    def __init__(self, *, read: ReadMetrics, post: Callable[[MetricsRead], None]) -> None:
        self._read = read
        self._post = post

    async def save(self, tag: Tag, job: Job | None) -> None:
        """Save the metrics of the attempt if this container is the one that shows them. Raises Unavailable."""
        if job is None or not job.spec.reports_metrics or tag != leading_tag(job, tag.attempt):
            return
        attempt = next((attempt for attempt in job.attempts if attempt.number == tag.attempt), None)
        if attempt is None or attempt.metrics:
            return
        metrics = tuple((await self._read(job, attempt)).items())
        if metrics:
            saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._post(MetricsRead(job_id=job.id, attempt=attempt.number, metrics=metrics, answer=saved))
            await saved
