"""Random requests for final checkpoints and force, and checks of the signals that containers get."""

from collections.abc import Callable, Mapping
from datetime import datetime
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from batchq.domain.enums import FINISHED, AttemptContainerState
from batchq.domain.ids import JobId, Tag, node_of
from batchq.domain.job import Job
from batchq.domain.stop_values import StopOrder
from batchq.domain.training import CHECKPOINTS_TAG, SIGNAL_TAG, TIMEOUT_TAG
from tests.simulation.run_log import Checks, RunLog

DISCARD = {"keep_checkpoints": False}
OF_BULK_STOPS = {"SIGINT"}  # signals that `bulk_stops.sequence` chooses


def tags(rng: Random) -> tuple[tuple[str, str], ...]:
    """The tags of a submission: some without a checkpoint directory, or without a checkpoint signal."""
    seconds = (TIMEOUT_TAG, str(rng.choice([1, 4, 9, 20])))
    own, signal = (CHECKPOINTS_TAG, "true"), (SIGNAL_TAG, rng.choice(["USR1", "HUP"]))
    return rng.choices([(), (own, seconds), (own, signal, seconds)], weights=[2, 1, 3])[0]


def how(rng: Random) -> dict[str, Any]:
    """How a terminate stops a job: mostly with a final checkpoint, since many jobs end without writing one."""
    checkpoint = {"checkpoint": True}
    return rng.choices([{}, checkpoint, checkpoint | DISCARD, DISCARD, {"force": True}], weights=[1, 4, 2, 1, 1])[0]


class Request(Struct, frozen=True, kw_only=True):
    """The request of a checkpoint by a signal."""

    #: When a server saved it.
    saved_at: datetime | None
    #: When it was first sent.
    sent_at: datetime
    may_be_delivered: bool = True


class SignalChecks(Checks):
    def __init__(self, *, jobs: Mapping[JobId, Job], now: Callable[[], datetime], run_log: RunLog) -> None:
        super().__init__(jobs=jobs, run_log=run_log)
        self._now = now
        self._stopped: set[Tag] = set()
        self._killed: set[Tag] = set()
        #: The latest request of a checkpoint of each container.
        self._requests: dict[Tag, Request] = {}

    def killed(self, tag: Tag) -> None:
        self._killed.add(tag)

    def sent(self, tag: Tag, signal: str | None) -> None:
        """A server sends a signal. It may have died after an earlier one, so a stop signal may come twice in a row."""
        if tag in self._killed:
            self.fail("I29 no signal follows SIGKILL", tag, signal)
        job = self.jobs.get(tag.job_id)
        if job is None or job.attempt is None or job.attempt.number != tag.attempt:
            return
        declared = None if job.spec.checkpoints is None else job.spec.checkpoints.signal
        if signal is None or signal in OF_BULK_STOPS:
            self._stopped.add(tag)
            return
        if declared is None or signal != f"SIG{declared}":
            self.fail("I30 no signal is sent that the job did not declare", tag, signal)
        if job.stop is None or not job.stop.final_checkpoint_requested:
            self.fail("I30 a checkpoint signal is sent for a final checkpoint only", tag, signal)
        if tag in self._stopped:
            self.fail("I29 the stop signal follows the checkpoint signal", tag, signal)
        part = next((container for container in job.attempt.containers if container.key == tag.container_key), None)
        if part is not None and part.state is AttemptContainerState.ENDED:  # it ended while the request was saved
            return
        if part is not None and part.checkpoint_requested_at is None:
            self.fail("I29 a checkpoint signal is saved before it is sent", tag, signal)
        saved = None if part is None else part.checkpoint_requested_at
        self._request(tag, job, saved)

    def _request(self, tag: Tag, job: Job, saved: datetime | None) -> None:
        """Its time begins with the first send: the repetition of a send that failed is the same saved request."""
        rules, last, now = job.spec.checkpoints, self._requests.get(tag), self._now()
        if rules is not None and last is not None and last.may_be_delivered and now - last.sent_at < rules.timeout:
            self.fail("I29 a checkpoint signal that may be delivered is not repeated in its time", tag, str(last))
        first = now if last is None or last.saved_at != saved else last.sent_at
        self._requests[tag] = Request(saved_at=saved, sent_at=first)

    def not_sent(self, tag: Tag) -> None:
        """The signal that was sent last did not reach the engine."""
        if (last := self._requests.get(tag)) is not None:
            self._requests[tag] = replace(last, may_be_delivered=False)

    def forced(self, job_id: JobId) -> None:
        """A force of a whole job was acknowledged."""
        whole, node = node_of(job_id)
        job = self.jobs.get(whole)
        if job is None or node is not None or job.status in FINISHED:
            return
        sealed = job.array_state is not None and job.array_state.ended_at is not None
        if not sealed and (job.stop is None or job.stop.forced_at is None):
            self.fail("I31 an acknowledged force is durable", job)


def without_checkpoint(orders: tuple[StopOrder, ...]) -> tuple[object, ...]:
    """The orders of a finished job without what may still be found: its final checkpoint."""
    return tuple(
        (order.kind, order.reason, order.user, order.signalled_at, order.killed_at, order.forced_at, order.steps)
        for order in orders
    )
