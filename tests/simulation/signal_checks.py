"""Random requests for final checkpoints and force, and checks of the signals that containers get."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from batchq.domain import events as on
from batchq.domain.checkpoints import CHECKPOINTS_TAG, SIGNAL_TAG, TIMEOUT_TAG
from batchq.domain.ids import JobId, Tag, node_of
from batchq.domain.job import FINISHED, AttemptContainer, Job
from batchq.domain.lifecycle.stop_order import awaits_final_checkpoint
from batchq.domain.stop_orders import StopOrder
from batchq.engine.messages import JobEvent
from tests.simulation.run_log import RunLog

OF_BULK_STOPS = {"SIGINT"}  # signals that `bulk_stops.order` chooses


def tags(rng: Random) -> tuple[tuple[str, str], ...]:
    """The tags of a submission: often without a checkpoint directory, or without a checkpoint signal."""
    seconds = (TIMEOUT_TAG, str(rng.choice([1, 4, 9])))
    return rng.choice(
        [
            (),
            (),
            ((CHECKPOINTS_TAG, "true"), seconds),
            ((CHECKPOINTS_TAG, "true"), (SIGNAL_TAG, rng.choice(["USR1", "HUP"])), seconds),
        ]
    )


def how(rng: Random) -> dict[str, Any]:
    """How a terminate stops a job."""
    return rng.choice([{}, {"checkpoint": True}, {"checkpoint": True, "keep_checkpoints": False}, {"force": True}])


class CheckpointReports:
    """Reports checkpoints of jobs that are stopping; some of them late, or of an attempt that is over."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._rng: Random = world.choices.ladders

    async def run(self) -> None:
        number = 0
        while True:
            await self._world.clock.sleep(self._rng.choice([0.3, 2, 5]))
            jobs = [it for it in self._world.invariants.jobs.values() if it.stop is not None and it.array_state is None]
            waiting = [it for it in jobs if awaits_final_checkpoint(it)]
            chosen = waiting or jobs
            server = self._world.server
            if not chosen or server is None or not server.ready:
                continue
            number += 1
            job = self._rng.choice(chosen)
            attempt = len(job.attempts) + (job.attempt is not None)
            seen = on.CheckpointSeen(attempt=attempt, name=f"checkpoint-{number}")
            server.engine.mailbox.post(JobEvent(job_id=job.id, event=seen))
            await asyncio.sleep(0)


class SignalChecks:
    """`jobs` are as last committed."""

    def __init__(self, *, jobs: Mapping[JobId, Job], name_of: Callable[[Any], str], run_log: RunLog) -> None:
        self._jobs = jobs
        self._name_of = name_of
        self._run_log = run_log
        self._stopped: set[Tag] = set()
        self._killed: set[Tag] = set()

    def killed(self, tag: Tag) -> None:
        self._killed.add(tag)

    def sent(self, tag: Tag, signal: str | None) -> None:
        """A server sends a signal. It may have died after an earlier one, so a signal may come twice in a row."""
        if tag in self._killed:
            self._fail("I29 no signal follows SIGKILL", tag, signal)
        job = self._jobs.get(tag.job_id)
        if job is None or job.attempt is None or job.attempt.number != tag.attempt:
            return
        declared = None if job.spec.checkpoints is None else job.spec.checkpoints.signal
        if signal is None or signal in OF_BULK_STOPS:
            self._stopped.add(tag)
            return
        if declared is None or signal != f"SIG{declared}":
            self._fail("I30 no signal is sent that the job did not declare", tag, signal)
        if job.stop is None or not job.stop.final_checkpoint_requested:
            self._fail("I30 a checkpoint signal is sent for a final checkpoint only", tag, signal)
        if tag in self._stopped:
            self._fail("I29 the stop signal follows the checkpoint signal", tag, signal)
        ladder = next((it for it in job.attempt.containers if it.key == tag.container_key), job.stop)
        if ladder is not None and _delivered(ladder):
            self._fail("I29 a signal whose delivery is stored is not sent again", tag, signal)

    def forced(self, job_id: JobId) -> None:
        """A force of a whole job was acknowledged."""
        whole, node = node_of(job_id)
        job = self._jobs.get(whole)
        if job is None or node is not None or job.status in FINISHED:
            return
        sealed = job.array_state is not None and job.array_state.ended_at is not None
        if not sealed and (job.stop is None or job.stop.forced_at is None):
            self._run_log.fail("I31 an acknowledged force is durable", self._name_of(job.id))

    def _fail(self, what: str, tag: Tag, signal: str | None) -> None:
        self._run_log.fail(what, f"{self._name_of(tag)} {signal}")


def _delivered(ladder: StopOrder | AttemptContainer) -> bool:
    return ladder.checkpoint_requested_at is not None


def without_checkpoint(orders: tuple[StopOrder, ...]) -> tuple[object, ...]:
    """The orders of a finished job without what may still be found: its final checkpoint."""
    return tuple((it.kind, it.reason, it.user, it.signalled_at, it.killed_at, it.forced_at, it.steps) for it in orders)
