"""Stop ladders: the signals that a container receives until it exits, in order. Pure. Decision 0044.

A ladder is a tuple of `SignalStep`, and SIGKILL always follows its last step. A step begins with the delivery of its
signal, and ends when its wait is over or, of a step for a checkpoint, when a checkpoint is seen. SIGKILL is repeated
until the container has exited.

An order that stops a job with one container and a container of an attempt with several have the same members for their
ladder, so the rules are the same. A signal whose delivery is stored (`next_step_at` is set) is never sent again. A stop
signal whose delivery is not stored is sent again after a restart. A checkpoint signal is stored before it is sent, and
may be sent again only at `may_repeat_at`. Decision 0052.
"""

from datetime import datetime, timedelta
from typing import TypeVar

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain.checkpoints import CheckpointRules
from batchq.domain.ids import Tag
from batchq.domain.job import AttemptContainer
from batchq.domain.stop_orders import SignalStep, StopOrder

KILL_AGAIN = timedelta(seconds=5)  # between two kills of a container that does not exit

#: What has a ladder.
Stopped = TypeVar("Stopped", StopOrder, AttemptContainer)


def ladder(
    rules: CheckpointRules | None, *, signal: str | None, grace: timedelta, checkpoint: bool
) -> tuple[SignalStep, ...]:
    """The steps to stop a container. `signal`, `grace`: of the stop signal. `checkpoint`: a final one is requested.

    A checkpoint signal is sent only if the job declared it in its `rules`. Without one the stop signal is the request,
    and SIGKILL follows only after the time for a checkpoint.
    """
    if not checkpoint or rules is None:
        return (SignalStep(signal=signal, wait=grace),)
    if rules.signal is None:
        return (SignalStep(signal=signal, wait=max(grace, rules.timeout)),)
    request = SignalStep(signal=f"SIG{rules.signal}", wait=rules.timeout, until_checkpoint=True)
    return request, SignalStep(signal=signal, wait=grace)


def under_way(it: StopOrder | AttemptContainer) -> SignalStep | None:
    """The step under way; None once SIGKILL is due."""
    return it.steps[it.step] if it.step < len(it.steps) else None


def unsent(it: StopOrder | AttemptContainer) -> SignalStep | None:
    """The step under way if its signal is not known to be delivered, else None."""
    return under_way(it) if it.next_step_at is None else None


def awaits_checkpoint(it: StopOrder | AttemptContainer) -> bool:
    """Whether the step under way ends with a checkpoint."""
    step = under_way(it)
    return step is not None and step.until_checkpoint


def requested(it: Stopped, step: int, now: datetime) -> Stopped:
    """Store that the checkpoint signal of the step is sent now. Nothing for another step, or a delivered signal."""
    found = unsent(it)
    if found is None or step != it.step or not found.until_checkpoint:
        return it
    return replace(it, checkpoint_requested_at=now)


def may_repeat_at(it: StopOrder | AttemptContainer, unanswered_at: datetime | None = None) -> datetime | None:
    """When a checkpoint signal that may be delivered is to be sent again; None: no such signal was sent.

    A program that got it has had the whole time for a checkpoint then. `unanswered_at`: when the call ended, if known.
    """
    step = unsent(it)
    if step is None or not step.until_checkpoint or it.checkpoint_requested_at is None:
        return None
    return max(it.checkpoint_requested_at, unanswered_at or it.checkpoint_requested_at) + step.wait


def begun(it: Stopped, now: datetime) -> Stopped:
    """The ladder of a container that runs although it was ordered to stop before: without steps it is killed."""
    return it if under_way(it) is not None else killed(it, now)


def delivered(it: Stopped, step: int, now: datetime) -> Stopped:
    """Start the wait of the step. Nothing for a step that is not under way, or a second delivery."""
    found = unsent(it)
    if found is None or step != it.step:
        return it
    waiting = replace(it, next_step_at=now + found.wait)
    if found.until_checkpoint:
        return replace(waiting, checkpoint_requested_at=it.checkpoint_requested_at or now)
    return replace(waiting, signalled_at=it.signalled_at or now)


def advanced(it: Stopped, now: datetime) -> Stopped:
    """End the step under way: the signal of the next one is to be sent, or SIGKILL, again and again."""
    return replace(it, step=it.step + 1, next_step_at=None) if it.step + 1 < len(it.steps) else killed(it, now)


def expired(it: Stopped, now: datetime) -> Stopped:
    """The wait of the step under way is over, or the next kill is due. Nothing before the signal is delivered."""
    return it if it.next_step_at is None else advanced(it, now)


def killed(it: Stopped, now: datetime) -> Stopped:
    """Send SIGKILL, and set the time of the next one."""
    return replace(it, step=len(it.steps), killed_at=it.killed_at or now, next_step_at=now + KILL_AGAIN)


def next_effect(
    tag: Tag, before: StopOrder | AttemptContainer | None, after: StopOrder | AttemptContainer
) -> do.StopContainer | do.KillContainer | None:
    """The signal that a change of the ladder of a running container requires; None: none.

    `before` None: the container was not ordered to stop, or did not run.
    """
    step = unsent(after)
    if step is not None:
        known = before is not None and unsent(before) is not None and before.step == after.step
        return None if known else do.StopContainer(tag=tag, step=after.step, signal=step.signal)
    is_killed = under_way(after) is None and after.next_step_at is not None
    if is_killed and (before is None or before.next_step_at != after.next_step_at):
        return do.KillContainer(tag=tag)
    return None


def latest_kill(it: StopOrder | AttemptContainer, now: datetime) -> datetime:
    """The latest time of SIGKILL, or of the next one, if no step ends early."""
    later = sum((step.wait for step in it.steps[it.step + 1 :]), timedelta())
    step = under_way(it)
    return (it.next_step_at or now + (timedelta() if step is None else step.wait)) + later


def longest_wait(it: StopOrder | AttemptContainer) -> timedelta:
    """The longest that `next_step_at` may lie in the future."""
    return max((KILL_AGAIN, *(step.wait for step in it.steps)))
