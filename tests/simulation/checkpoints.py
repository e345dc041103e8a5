"""The checkpoints that containers write in a run, and their invariants."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from posixpath import basename
from random import Random

from batchq.compute.simulated.container import PlannedCheckpoint
from batchq.domain.enums import FINISHED
from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.stop_values import StopOrder
from batchq.domain.training import is_temporary
from batchq.ports.runtime import LaunchSpec
from tests.simulation.clocks import StoredTimes
from tests.simulation.container_checks import was_forced
from tests.simulation.run_log import Checks, RunLog
from tests.support.inline import InlineCheckpointFiles

AT_START = "step-"  # the names of checkpoints that a container writes when it starts


def script(rng: Random) -> dict[str, object]:
    """The checkpoints of a container's script: some are late, temporary, or never written."""
    number = rng.randrange(1000)
    return {
        "checkpoints": rng.choice([(), (f"{AT_START}{number}",), (f"{AT_START}{number}", "half.tmp")]),
        "on_request": rng.choice([None, f"requested-{number}", f"requested-{number}", f"requested-{number}.part"]),
        "request_delay": rng.choice([0, 0.5, 3, 12]),
        "request_exit": rng.choice([None, None, None, 0, 7]),
        "term_checkpoint": rng.choice([None, f"last-{number}"]),
    }


class CheckpointChecks(Checks):
    def __init__(self, *, jobs: Mapping[JobId, Job], times: StoredTimes, run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._times = times
        #: The time of the disk's clock at a true time.
        self.shown_by_disk: Callable[[datetime], datetime] = times.shown
        #: By job and name: when the checkpoint was last written, and by which container.
        self._written: defaultdict[JobId, dict[str, PlannedCheckpoint]] = defaultdict(dict)
        #: By job and attempt: the true time of the first commit with a request for a final checkpoint.
        self._requested: dict[tuple[JobId, int], datetime] = {}

    def wrote(self, checkpoint: PlannedCheckpoint) -> None:
        tag = checkpoint.container.launch.tag
        self._written[tag.job_id][checkpoint.path.name] = checkpoint
        self.run_log.counts["checkpoints written"] += 1
        self.run_log.write(f"{self.run_log.name_of(tag)} writes {checkpoint.path.name}")

    def created(self, launch: LaunchSpec) -> None:
        """The first container of an attempt is created, which continues from the newest checkpoint."""
        if launch.checkpoint_directory is None:
            return
        own = dict(launch.environment)
        newest = max(
            self._complete(launch.tag.job_id),
            key=lambda checkpoint: (checkpoint.at, checkpoint.path.name),
            default=None,
        )
        resumes_from = basename(own.get("BATCHQ_RESUME_FROM", ""))
        chosen = self._written[launch.tag.job_id].get(resumes_from)
        if launch.tag.container_key and chosen and newest and self._is_shown_later(chosen, newest):
            return
        self.run_log.counts["attempts resumed"] += resumes_from != ""
        if resumes_from != ("" if newest is None else newest.path.name):
            self.fail(
                "I34 an attempt continues from the newest checkpoint",
                launch.tag,
                f"{resumes_from}, not {newest and (newest.path.name, newest.at)}",
            )

    def _is_shown_later(self, older: PlannedCheckpoint, newer: PlannedCheckpoint) -> bool:
        """Whether the clock was set between two checkpoints. Decision 0066 permits the wrong order in one period, in
        which only several containers write.
        """
        return older is not newer and self.shown_by_disk(older.at) >= self.shown_by_disk(newer.at)

    def committed(self, before: Job | None, after: Job) -> None:
        if after.attempt is not None and after.stop is not None and after.stop.final_checkpoint_requested:
            self._requested.setdefault((after.id, after.attempt.number), self._times.now())
        known = () if before is None else before.stop_orders
        for number, order in enumerate(after.stop_orders):
            old = known[number].final_checkpoint if number < len(known) else None
            if order.final_checkpoint == old:
                continue
            if old is not None:
                self.fail("I33 an order has one final checkpoint", after.id, f"{old} {order}")
            found = self._written[after.id].get(order.final_checkpoint or "")
            self.run_log.counts["final checkpoints"] += 1
            if found is None or is_temporary(found.path.name) or not order.final_checkpoint_requested:
                self.fail("I33 a final checkpoint was requested and written", after.id, order)
            elif not self._times.machine_clock and found.at < _requested_at(order) - timedelta(seconds=1):
                self.fail("I33 a final checkpoint is newer than its request", after.id, f"{found.at} {order}")

    def discards(self, job_id: JobId, kept: Collection[str] | None) -> None:
        """All checkpoints but `kept` are about to be deleted; None: the temporary entries are."""
        job = self.jobs[job_id]
        if job.status not in FINISHED:
            self.fail("I35 nothing is deleted before the job has ended", job_id, job)
        if kept is None:
            return
        self.run_log.counts["directories emptied"] += 1
        if _keeps(job) or not _finals(job) <= set(kept):
            self.fail("I35 only what the order does not keep is deleted", job_id, f"{kept} {job}")

    def check_end(self, directory: Callable[[JobId], Path | None]) -> None:
        """Check the directories of all jobs, which are finished."""
        for job_id in self._written:
            folder = directory(job_id)
            self._check_names(job_id, () if folder is None else [path.name for path in folder.iterdir()])

    def _check_names(self, job_id: JobId, names: Collection[str]) -> None:
        job = self.jobs[job_id]
        if was_forced(job):  # Its containers may write after its end; a later sweep deletes that.
            return
        wrote = {checkpoint.path.name for checkpoint in self._complete(job_id)}
        finals, answers = _finals(job), self._answers(job)
        if not _keeps(job) and not self._may_remain(job, set(names), answers | finals | self._late_starts(job)):
            self.fail("I35 what the order does not keep is deleted", job_id, f"{names} {job}")
        if not _keeps(job) and _names_final(job) and wrote and not names:
            self.fail("I35 an order with a final checkpoint keeps one", job_id, f"{wrote} {job}")
        if not (wrote if _keeps(job) else (finals | answers) & wrote) <= set(names):
            self.fail("I35 what the order keeps is not deleted", job_id, f"{names} {wrote} {job}")
        if any(map(is_temporary, names)):
            self.fail("I35 temporary entries are deleted at the end", job_id, names)

    def _answers(self, job: Job) -> set[str]:
        """The checkpoints that the last attempt wrote after a request for a final one: those after a signal."""
        if not any(order.final_checkpoint_requested and not order.keep_checkpoints for order in job.stop_orders):
            return set()
        last = [write for write in self._complete(job.id) if write.container.launch.tag.attempt == len(job.attempts)]
        return {checkpoint.path.name for checkpoint in last if not checkpoint.path.name.startswith(AT_START)}

    def _late_starts(self, job: Job) -> set[str]:
        """The checkpoints of containers that started after another container got the request for a final one."""
        requested_at = self._requested.get((job.id, len(job.attempts)))
        if requested_at is None:
            return set()
        last = [write for write in self._complete(job.id) if write.container.launch.tag.attempt == len(job.attempts)]
        return {
            checkpoint.path.name
            for checkpoint in last
            if checkpoint.container.launch.tag.container_key and checkpoint.at >= requested_at
        }

    def _may_remain(self, job: Job, names: set[str], kept: set[str]) -> bool:
        """Without a final checkpoint that was requested or named, one checkpoint remains: the newest."""
        return names <= kept or (_names_final(job) and not kept and len(names) == 1)

    def _complete(self, job_id: JobId) -> list[PlannedCheckpoint]:
        return [file for name, file in self._written[job_id].items() if not is_temporary(name)]


def _requested_at(order: StopOrder) -> datetime:
    """When the final checkpoint was requested, or earlier. An order that took over a pause has the pause's signals."""
    return min(at for at in (order.ordered_at, order.checkpoint_requested_at, order.signalled_at) if at is not None)


def _keeps(job: Job) -> bool:
    return all(order.keep_checkpoints for order in job.stop_orders)


def _names_final(job: Job) -> bool:
    """Whether an order that discards checkpoints requested or named a final one."""
    discarding = [order for order in job.stop_orders if not order.keep_checkpoints]
    return any(checkpoint.final_checkpoint_requested or checkpoint.final_checkpoint_named for checkpoint in discarding)


def _finals(job: Job) -> set[str]:
    """The final checkpoints of the orders that discard the others. They discard that of an earlier pause too."""
    return {
        order.final_checkpoint for order in job.stop_orders if not order.keep_checkpoints and order.final_checkpoint
    }


class ObservedCheckpoints(InlineCheckpointFiles):
    """Reports each deletion to the checks, before it is carried out. Its times are those of the machine's clock."""

    checks: CheckpointChecks

    async def discard_except(self, job_id, names):
        self.checks.discards(job_id, names)
        await super().discard_except(job_id, names)

    async def discard_temporary(self, job_id):
        self.checks.discards(job_id, None)
        await super().discard_temporary(job_id)
