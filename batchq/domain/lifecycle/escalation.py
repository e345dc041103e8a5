"""Stop steps: the signals that a container receives until it exits, in order. Pure. Decision 0044.

Each container has its own stop steps, `AttemptContainer.steps`, also the container of a job that has only one.

SIGKILL follows the last step. A step begins with the delivery of its signal. It ends when its wait is over or, if it
waits for a checkpoint, when a checkpoint is seen. SIGKILL is repeated every KILL_AGAIN until the container has exited.

What is sent again after a restart of the server (decision 0052):

- A signal whose delivery is stored (`next_step_at` is set): never.
- A stop signal whose delivery is not stored: at once.
- A checkpoint signal whose delivery is not stored: at `may_repeat_at`. The time of sending is stored before it is sent.
- SIGKILL: at once. Its delivery is never stored.
"""

from datetime import datetime, timedelta

from msgspec.structs import replace

from batchq.domain import effects as do
from batchq.domain.ids import Tag
from batchq.domain.job import AttemptContainer
from batchq.domain.stop_values import SignalStep
from batchq.domain.training import CheckpointRules

#: The time between two kills of a container that does not exit.
KILL_AGAIN = timedelta(seconds=5)
#: From the first kill until the container counts as unkillable.
UNKILLABLE_AFTER = timedelta(seconds=60)


def stop_steps(
    rules: CheckpointRules | None, *, signal: str | None, grace: timedelta, checkpoint: bool
) -> tuple[SignalStep, ...]:
    """The steps to stop a container.

    `rules`: the job's; None: it has no checkpoint directory. `signal`: the stop signal; None: the image's StopSignal,
    or SIGTERM. `grace`: from the delivery of the stop signal to SIGKILL. `checkpoint`: a final checkpoint is requested.
    The checkpoint signal is sent only if the job declared one. Otherwise the stop signal is the request, and SIGKILL
    follows after the longer of the grace period and the time for a checkpoint.
    """
    if not checkpoint or rules is None:
        return (SignalStep(signal=signal, wait=grace),)
    if rules.signal is None:
        return (SignalStep(signal=signal, wait=max(grace, rules.timeout)),)
    request = SignalStep(signal=f"SIG{rules.signal}", wait=rules.timeout, until_checkpoint=True)
    return request, SignalStep(signal=signal, wait=grace)


def under_way(container: AttemptContainer) -> SignalStep | None:
    """The step under way; None once SIGKILL is due."""
    return container.steps[container.step] if container.step < len(container.steps) else None


def unsent(container: AttemptContainer) -> SignalStep | None:
    """The step under way if the delivery of its signal is not stored, else None."""
    return under_way(container) if container.next_step_at is None else None


def awaits_checkpoint(container: AttemptContainer) -> bool:
    """Whether a checkpoint ends the step under way."""
    step = under_way(container)
    return step is not None and step.until_checkpoint


def requested(container: AttemptContainer, step: int, now: datetime) -> AttemptContainer:
    """Store that the checkpoint signal of the step with index `step` is sent at `now`.

    No change if another step is under way, if the delivery is stored, or if the step waits for no checkpoint.
    """
    found = unsent(container)
    if found is None or step != container.step or not found.until_checkpoint:
        return container
    return replace(container, checkpoint_requested_at=now)


def may_repeat_at(container: AttemptContainer, unanswered_at: datetime | None) -> datetime | None:
    """When to send the checkpoint signal again if its delivery is not known; None: no such signal was sent.

    A program that got the first signal has had the whole time for a checkpoint by then. `unanswered_at`: when the call
    of the container engine failed; None: not known.
    """
    step = unsent(container)
    if step is None or not step.until_checkpoint or container.checkpoint_requested_at is None:
        return None
    return max(container.checkpoint_requested_at, unanswered_at or container.checkpoint_requested_at) + step.wait


def begun(container: AttemptContainer, now: datetime) -> AttemptContainer:
    """Begin the first step of a container that runs although it was ordered to stop. Without steps it is killed."""
    return container if under_way(container) is not None else killed(container, now)


def delivered(container: AttemptContainer, step: int, now: datetime) -> AttemptContainer:
    """Store that the signal of the step with index `step` was delivered at `now`: the wait of the step starts.

    No change if another step is under way, for a second delivery, or while the container has steps and no stop order.
    """
    found = unsent(container)
    if found is None or step != container.step or not container.stop_ordered:
        return container
    waiting = replace(container, next_step_at=now + found.wait)
    if found.until_checkpoint:
        return replace(waiting, checkpoint_requested_at=container.checkpoint_requested_at or now)
    return replace(waiting, signalled_at=container.signalled_at or now)


def advanced(container: AttemptContainer, now: datetime) -> AttemptContainer:
    """End the step under way. The signal of the next step is due, and after the last step SIGKILL."""
    if container.step + 1 < len(container.steps):
        return replace(container, step=container.step + 1, next_step_at=None)
    return killed(container, now)


def expired(container: AttemptContainer, now: datetime) -> AttemptContainer:
    """As `advanced`, at `next_step_at`. No change before the signal of the step is delivered."""
    return container if container.next_step_at is None else advanced(container, now)


def with_last_step(container: AttemptContainer, last: SignalStep, now: datetime) -> AttemptContainer:
    """Stop with another last step, because a later order names another stop signal or grace period.

    A stop signal that is under way is followed by the other signal; with the same signal only its wait changes. No
    change once SIGKILL is due, and without steps.
    """
    step = under_way(container)
    if step is None:
        return container
    if container.step + 1 < len(container.steps):
        return replace(container, steps=(*container.steps[:-1], last))
    if last.signal != step.signal:
        return replace(container, steps=(*container.steps, last), step=container.step + 1, next_step_at=None)
    due = container.next_step_at
    return replace(
        container,
        steps=(*container.steps[:-1], last),
        next_step_at=None if due is None else max(now, due - step.wait + last.wait),
    )


def killed(container: AttemptContainer, now: datetime) -> AttemptContainer:
    """Store that SIGKILL is sent at `now`, and again after KILL_AGAIN."""
    return replace(
        container, step=len(container.steps), killed_at=container.killed_at or now, next_step_at=now + KILL_AGAIN
    )


def next_effect(
    tag: Tag, before: AttemptContainer | None, after: AttemptContainer
) -> do.StopContainer | do.KillContainer | None:
    """The signal that a running container must get because its stop steps changed; None: no signal.

    `before` None: every signal that is due is required. So it is when the order is new, when the container has begun to
    run, and after a restart.
    """
    step = unsent(after)
    if step is not None:
        known = before is not None and unsent(before) is not None and before.step == after.step
        return None if known else do.StopContainer(tag=tag, step=after.step, signal=step.signal)
    is_killed = under_way(after) is None and after.next_step_at is not None
    if is_killed and (before is None or before.killed_at is None or before.next_step_at != after.next_step_at):
        return do.KillContainer(tag=tag)
    return None


def latest_kill(container: AttemptContainer, now: datetime) -> datetime:
    """The time of SIGKILL, or of the next one, if no step ends early. Unsent signals count as delivered at `now`."""
    later = sum((step.wait for step in container.steps[container.step + 1 :]), timedelta())
    step = under_way(container)
    return (container.next_step_at or now + (timedelta() if step is None else step.wait)) + later


def is_unkillable(killed_at: datetime | None, now: datetime) -> bool:
    """Whether the first kill was UNKILLABLE_AFTER ago or earlier. `killed_at`: None before that kill."""
    return killed_at is not None and now - killed_at >= UNKILLABLE_AFTER


def longest_wait(container: AttemptContainer) -> timedelta:
    """The longest time that `next_step_at` may lie in the future."""
    return max((KILL_AGAIN, *(step.wait for step in container.steps)))
