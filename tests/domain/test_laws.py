"""Laws that hold in every history of a job, whatever happens in whatever order."""

import pytest
from hypothesis import given, settings

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.enums import ACTIVE, FINISHED, QUEUED, Status, StopKind
from batchq.domain.lifecycle import stopping
from batchq.domain.lifecycle.deadlines import next_wakeup
from batchq.domain.lifecycle.status import EDGES
from batchq.domain.lifecycle.transitions import step
from tests.domain.lives import due_event
from tests.domain.random_lives import histories
from tests.support.examples import examples

LATER = set(Status) - {Status.SUBMITTED}
LAWS = []


def law(holds):
    """Laws are held against the same lives, so that each sees many."""
    LAWS.append(holds)
    return holds


@settings(max_examples=examples(600), deadline=None)
@given(histories())
def test_every_law_holds_in_every_history(life):
    for holds in LAWS:
        holds(life)


@law
def no_event_changes_a_finished_job(life):
    over = since(life, lambda job: job.status in FINISHED)[1:]

    assert all(transition.after is transition.before and transition.effects == () for transition in over)


@law
def no_attempt_begins_after_a_stop_order(life):
    assert tags_of(since(life, ends), do.StartContainer) == []


@law
def no_attempt_begins_after_a_cancel(life):
    assert tags_of(since(life, lambda value: value.cancel is not None), do.StartContainer) == []


@law
def attempts_are_numbered_from_one_up_to_the_limit(life):
    last = life[-1].after
    begun = [tag.attempt for tag in tags_of(life, do.StartContainer)]

    assert begun == list(range(1, len(begun) + 1))
    assert len(begun) <= last.max_attempts
    assert [attempt.number for attempt in last.attempts] == begun[: len(last.attempts)]


@law
def an_ended_attempt_is_never_changed(life):
    assert all(
        transition.after.attempts[: len(transition.before.attempts)] == transition.before.attempts
        for transition in life
    )


@law
def each_container_is_cleaned_up_once_after_its_attempt(life):
    under_way = [life[-1].after.tag] if life[-1].after.status in ACTIVE else []

    assert tags_of(life, do.CleanUpContainer) + under_way == tags_of(life, do.StartContainer)


@law
def an_attempt_is_under_way_exactly_while_the_job_is_active(life):
    assert all((transition.after.attempt is not None) == (transition.after.status in ACTIVE) for transition in life)


@law
def a_status_changes_only_along_the_edges(life):
    walks = {
        (transition.before.status, transition.after.status)
        for transition in life
        if transition.after.status is not transition.before.status
    }

    through_running = {(Status.STARTING, target) for target in EDGES[Status.RUNNING]}
    assert walks <= {(status, target) for status in EDGES for target in EDGES[status]} | through_running


@law
def a_job_succeeds_only_with_exit_code_0_and_without_a_stop_order(life):
    done = since(life, lambda job: job.status is Status.SUCCEEDED)[:1]

    assert all(isinstance(step.event, on.ContainerExited) and step.event.exit_code == 0 for step in done)
    assert all(transition.after.attempts[-1].exit_code == 0 for transition in done)
    assert all(transition.after.stop is None and not transition.after.is_cancelled for transition in done)


@law
def a_job_that_was_ordered_to_stop_fails_with_the_reason_of_the_order(life):
    over = [
        transition.after
        for transition in life
        if transition.after.status in FINISHED and transition.after.stop is not None
    ]

    assert all(job.status is Status.FAILED for job in over)
    assert all(job.status_reason == job.stop.reason or _was_forced(job) for job in over)


@law
def no_job_is_cancelled_and_terminated_at_once(life):
    assert not [
        transition.after for transition in life if transition.after.is_cancelled and transition.after.is_terminated
    ]


@law
def the_first_stop_order_is_final(life):
    orders = [transition.after.stop for transition in since(life, ends)]

    assert len({(order.kind, order.reason, order.ordered_at, order.steps) for order in orders}) <= 1


@law
def an_order_that_had_an_effect_stays_visible_with_its_author(life):
    for transition in life:
        before, orders = transition.before.stop_orders, transition.after.stop_orders
        assert [facts(order) for order in orders[: len(before)]] == [facts(order) for order in before]
        assert all(facts(order) == (order.kind, *author_and_time(transition)) for order in orders[len(before) :])


@law
def stop_orders_follow_pauses_in_the_order_of_their_kinds(life):
    kinds = [order.kind for order in life[-1].after.stop_orders]
    pauses = [StopKind.PAUSE] * kinds.count(StopKind.PAUSE)
    others = set(kinds) - {StopKind.PAUSE}

    assert kinds == pauses + sorted(others, key=list(StopKind).index)
    assert not {StopKind.TERMINATE, StopKind.TIMEOUT} <= set(kinds)


@law
def the_times_of_a_stop_order_ascend(life):
    orders = life[-1].after.stop_orders
    for order in orders:  # one that follows a pause takes over what that has begun
        times = [
            min(order.ordered_at for order in orders),
            order.checkpoint_requested_at,
            order.signalled_at,
            order.killed_at,
        ]
        assert [at for at in times if at] == sorted(filter(None, times))
        assert order.killed_at is None or order.signalled_at is not None or order.forced_at is not None


@law
def each_signal_is_sent_once_in_the_order_of_the_ladder(life):
    sent = [(signal.tag.attempt, signal.step) for signal in signals(life)]

    assert sent == sorted(set(sent))


@law
def a_checkpoint_signal_is_sent_only_if_a_final_checkpoint_was_requested(life):
    for transition in life:
        if [signal for signal in signals([transition]) if signal.signal is not None]:
            assert transition.after.stop.final_checkpoint_requested


@law
def a_final_checkpoint_is_requested_of_a_running_job_only(life):
    ordered = next((transition for transition in life if transition.after.stop is not None), None)

    if ordered is not None and ordered.after.stop.final_checkpoint_requested:
        assert ordered.before.status is Status.RUNNING


@law
def each_wait_counts_from_the_delivery_of_its_signal(life):
    counted = [
        transition
        for transition in life
        if isinstance(transition.event, on.StopSignalDelivered) and transition.after != transition.before
    ]

    assert all(
        kill_at(transition.before) is None and transition.event.step == alone(transition.before).step
        for transition in counted
    )
    assert all(
        kill_at(transition.after) == transition.now + alone(transition.after).steps[transition.event.step].wait
        for transition in counted
    )


@law
def the_first_checkpoint_after_the_order_is_the_final_one(life):
    stopped = [
        transition.after
        for transition in life
        if transition.after.stop is not None and transition.after.attempt is not None
    ]
    names = {
        (job.attempt.number, job.stop.final_checkpoint) for job in stopped if job.stop.final_checkpoint is not None
    }

    assert len(names) == len({number for number, _ in names})


@law
def a_running_job_that_is_forced_is_killed_at_once(life):
    forced = [
        transition.after
        for transition in life
        if runs_to_stop(transition.after) and transition.after.stop.forced_at is not None
    ]

    assert all(job.stop.killed_at is not None for job in forced)


@law
def a_stopping_job_has_the_timer_of_its_next_step(life):
    runs = [
        transition.after
        for transition in life
        if transition.after.status is Status.RUNNING and transition.after.stop is not None
    ]

    assert all(next_wakeup(run) == alone(run).next_step_at for run in runs)


@law
def a_running_job_with_a_timeout_has_its_timer(life):
    runs = [
        transition.after
        for transition in life
        if transition.after.status is Status.RUNNING and transition.after.stop is None
    ]

    assert all(next_wakeup(run) == run.started_at + run.spec.timeout for run in runs if run.spec.timeout is not None)


@law
def a_timer_expires_once_when_it_is_due(life):
    due = [transition for transition in life if due_event(transition.after, transition.now) is not None]

    assert due == [
        transition
        for transition in life
        if next_wakeup(transition.after) is not None and next_wakeup(transition.after) <= transition.now
    ]
    assert all(
        due_event(
            step(transition.after, due_event(transition.after, transition.now), transition.now)[0], transition.now
        )
        is None
        for transition in due
    )


@law
def effects_concern_the_current_attempt(life):
    active = [transition for transition in life if transition.before.status in ACTIVE]

    assert all(effect.tag == transition.before.tag for transition in active for effect in transition.effects)


@law
def an_ended_attempt_stopped_after_it_started(life):
    last = life[-1].after
    ran = [attempt for attempt in last.attempts if attempt.started_at is not None]

    assert all(container.started_at <= container.stopped_at for container in ran)
    assert all(attempt.stopped_at is not None for attempt in last.attempts)
    assert (last.stopped_at is not None) == (last.status in FINISHED)


@law
def no_finished_job_is_unschedulable(life):
    assert not [
        transition.after
        for transition in life
        if transition.after.unschedulable and transition.after.status in FINISHED
    ]


@law
def a_held_job_has_the_reason_of_its_hold_and_is_neither_blocked_nor_active(life):
    held = [transition.after for transition in life if transition.after.held]

    assert all(
        job.status in QUEUED and job.status_reason in {f"HELD: {job.hold.reason}", f"PAUSED: {job.hold.reason}"}
        for job in held
    )
    assert not [job for job in held if job.unschedulable or job.blocked_at is not None]


@law
def the_first_hold_lasts_until_the_job_is_released_or_ends(life):
    for transition in life:
        if transition.before.hold is not None and transition.after.hold != transition.before.hold:
            assert transition.after.hold is None
            released = isinstance(transition.event, on.ReleaseRequested | on.ResumeRequested)
            assert released or ends(transition.after) or transition.after.status in FINISHED


@law
def an_active_job_with_a_hold_is_pausing(life):
    assert all(
        transition.after.is_pausing
        for transition in life
        if transition.after.hold is not None and transition.after.status in ACTIVE
    )


@law
def a_paused_attempt_was_ordered_to_stop_and_the_job_waits_for_the_next_one(life):
    for transition in life:
        for ended in transition.after.attempts[len(transition.before.attempts) :]:
            if ended.paused:
                assert transition.before.is_pausing or isinstance(transition.event, on.AttemptSuperseded)
                assert (transition.after.status, transition.after.cancel) == (Status.RUNNABLE, None)
                assert transition.after.hold == transition.before.hold


@law
def an_attempt_that_is_pausing_ends_paused_or_fails_the_job(life):
    over = [transition for transition in life if transition.before.is_pausing and transition.after.attempt is None]

    assert all(transition.after.attempts[-1].paused or transition.after.status is Status.FAILED for transition in over)


@pytest.mark.exhaustive
def test_the_generated_histories_cover_all_cases():
    seen = set()

    @settings(max_examples=1000, deadline=None, database=None, derandomize=True)
    @given(histories())
    def collect(life):
        last = life[-1].after
        seen.update(transition.after.status for transition in life)
        seen.update(type(effect) for transition in life for effect in transition.effects)
        seen.add((last.stop.kind if last.stop else None, last.is_cancelled, len(last.attempts)))

    collect()

    assert seen >= {*LATER, do.StartContainer, do.StopContainer, do.KillContainer, do.AbandonStart, do.CleanUpContainer}
    assert seen >= {(None, False, 3), (None, True, 1), (StopKind.TIMEOUT, False, 1), (StopKind.TERMINATE, False, 2)}


def _was_forced(job):
    begins = job.status_reason.startswith("Force-failed: ")
    return begins and job.status_reason.endswith(f"(ordered to stop: {job.stop.reason})")


def tags_of(life, kind):
    return [effect.tag for transition in life for effect in transition.effects if isinstance(effect, kind)]


def signals(life):
    return [effect for transition in life for effect in transition.effects if isinstance(effect, do.StopContainer)]


def runs_to_stop(job):
    return job.status is Status.RUNNING and job.stop is not None


def ends(job):
    """Whether an order ends the job. A pause does not."""
    return job.stop is not None and not job.is_pausing


def since(life, fact):
    """The life from the first step on whose outcome has it."""
    return next((life[number:] for number, transition in enumerate(life) if fact(transition.after)), [])


def facts(order):
    return order.kind, order.user, order.ordered_at


def author_and_time(value):
    """The user and the time of the order that a step stores."""
    return getattr(value.event, "user", ""), value.now


def alone(job):
    """The container of the attempt under way."""
    (container,) = job.attempt.containers
    return container


def kill_at(job):
    return job.stop and stopping.next_step_at(job)
