"""Laws that hold in every history of the containers of a job, of one as of several, whatever events arrive."""

from collections import Counter

import pytest
from hypothesis import given, settings

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.enums import ACTIVE, FINISHED, AttemptContainerState, Status
from batchq.domain.lifecycle.container_rules import (
    any_awaits_checkpoint,
    newly_started,
    nodes_to_stop,
    task_container_of,
)
from batchq.domain.lifecycle.deadlines import next_wakeup
from batchq.domain.lifecycle.reconcile import (
    SurveyedContainer,
    reconcile,
    tags_running,
    tags_to_keep,
    tags_under_way,
)
from batchq.domain.lifecycle.transitions import step
from batchq.domain.task import Condition
from tests.domain.lives import due_event, placed
from tests.domain.part_lives import ends, is_abandoned, parts, runs
from tests.domain.random_parts import container_histories
from tests.support.examples import examples

LAWS = []
MOST_STEPS = 200


def law(holds):
    LAWS.append(holds)
    return holds


@settings(max_examples=examples(300), deadline=None)
@given(container_histories())
def test_every_law_holds_in_every_history(life):
    for holds in LAWS if life else []:
        holds(life)


@law
def no_container_is_started_twice(life):
    assert [count for count in tag_counts(life, do.StartContainer).values() if count > 1] == []


@law
def no_container_starts_on_a_closed_node(life):
    for transition in life:
        begun = [tag.container_key for tag in step_tags(transition, do.StartContainer)]
        assert not [
            key for key in begun if transition.after.attempt and node_of(key) in nodes_to_stop(transition.after)
        ]


@law
def a_container_starts_exactly_when_its_conditions_are_met(life):
    for transition in life:
        begun = {tag.container_key for tag in step_tags(transition, do.StartContainer)}
        for part in transition.after.attempt.containers if transition.after.attempt else ():
            may = may_start(transition.after, part)
            assert may if part.key in begun else not (may and part.state is AttemptContainerState.WAITING)


@law
def containers_of_a_closed_node_have_ended_or_have_a_stop_order(life):
    for number, transition in enumerate(life):
        stopped = set(tag_counts(life[: number + 1], do.StopContainer, do.AbandonStart, do.KillContainer))
        for part in transition.after.attempt.containers if transition.after.attempt else ():
            if part.node in nodes_to_stop(transition.after):
                assert part.state is AttemptContainerState.ENDED or (
                    part.stop_ordered and tag_of(transition.after, part) in stopped
                )


@law
def a_running_container_with_a_stop_order_gets_a_signal(life):
    to_stop = {
        tag_of(transition.after, part)
        for transition in life
        for part in (transition.after.attempt.containers if transition.after.attempt else ())
        if part.state is AttemptContainerState.RUNNING and part.stop_ordered
    }

    assert {*tag_counts(life, do.StopContainer, do.KillContainer)} == to_stop


@law
def each_container_gets_each_signal_once_in_the_order_of_its_ladder(life):
    for tag in tag_counts(life, do.StopContainer):
        sent = [signal.step for signal in signals(life) if signal.tag == tag]
        assert sent == sorted(set(sent))


@law
def no_signal_follows_sigkill(life):
    killed = set()
    for transition in life:
        assert not killed & set(step_tags(transition, do.StopContainer))
        killed |= set(step_tags(transition, do.KillContainer))


@law
def no_signal_is_sent_that_the_job_did_not_declare(life):
    rules = life[0].after.spec.checkpoints
    declared = None if rules is None or rules.signal is None else f"SIG{rules.signal}"

    assert {signal.signal for signal in signals(life)} <= {None, declared}


@law
def only_containers_of_the_main_node_get_the_checkpoint_signal(life):
    requested = {signal.tag.node for signal in signals(life) if signal.signal is not None}

    assert requested <= {life[0].after.spec.nodes.main}


@law
def the_other_nodes_are_stopped_when_no_container_waits_for_a_checkpoint_any_more(life):
    for transition in life:
        if transition.after.attempt and transition.after.stop and not any_awaits_checkpoint(transition.after):
            assert all(
                part.stop_ordered for part in parts(transition.after) if part.state is AttemptContainerState.RUNNING
            )


@law
def sigkill_follows_a_delivered_signal_or_a_force(life):
    for transition in life:
        for tag in step_tags(transition, do.KillContainer):
            killed = next(part for part in transition.before.attempt.containers if part.key == tag.container_key)
            assert killed.next_step_at is not None or isinstance(transition.event, on.StopForced) or killed.steps == ()


@law
def each_started_container_is_cleaned_up_once_after_its_attempt(life):
    last = life[-1].after
    begun, gone = tag_counts(life, do.StartContainer), tag_counts(life, do.CleanUpContainer)

    assert [count for count in gone.values() if count > 1] == []
    assert begun.keys() - gone.keys() == {*(tags_under_way(last) + tags_to_keep(last) if last.attempt else ())}


@law
def no_container_is_cleaned_up_while_another_may_start(life):
    waits = {AttemptContainerState.WAITING, AttemptContainerState.STARTING}
    for transition in life:
        assert not (
            step_tags(transition, do.CleanUpContainer)
            and transition.after.attempt
            and {part.state for part in parts(transition.after)} & waits
        )


@law
def all_containers_of_an_ended_attempt_have_ended(life):
    over = [transition.after for transition in life if transition.after.attempt is None]

    assert all(
        part.state is AttemptContainerState.ENDED
        for job in over
        for attempt in job.attempts
        for part in attempt.containers
    )


@law
def the_exit_code_is_that_of_the_deciding_container(life):
    for attempt in life[-1].after.attempts:
        decider = next((part for part in attempt.containers if part.key == attempt.decided_by), None)
        assert attempt.exit_code == (decider and decider.exit_code)
        assert decider is None or decider.node == life[-1].after.spec.nodes.main


@law
def the_deciding_container_is_final(life):
    for transition in life:
        if transition.before.attempt and transition.before.attempt.decided_by is not None and transition.after.attempt:
            assert transition.after.attempt.decided_by == transition.before.attempt.decided_by


@law
def a_job_succeeds_only_with_exit_code_0_and_without_a_stop_order(life):
    for transition in life:
        if transition.after.status is Status.SUCCEEDED:
            assert (transition.after.attempts[-1].exit_code, transition.after.stop) == (0, None)
        if transition.after.status is Status.FAILED and transition.after.stop is None:
            assert transition.after.attempts[-1].exit_code != 0


@law
def a_job_that_was_ordered_to_stop_fails_with_the_reason_of_the_order(life):
    over = [
        transition.after
        for transition in life
        if transition.after.status in FINISHED and transition.after.stop is not None
    ]

    assert all((job.status, job.status_reason) == (Status.FAILED, job.stop.reason) for job in over)


@law
def a_job_runs_since_its_first_container_started(life):
    active = [transition.after for transition in life if transition.after.status in ACTIVE]

    for job in active:
        ran = any(part.started_at is not None for part in job.attempt.containers)
        assert (job.status is Status.RUNNING) == ran == (job.attempt.started_at is not None)


@law
def each_container_is_reported_running_once(life):
    begun = [tag for transition in life for tag in newly_started(transition.before, transition.after)]
    ran = {(attempt.number, part.key) for attempt in attempts(life) for part in attempt.containers if part.started_at}

    assert sorted((tag.attempt, tag.container_key) for tag in begun) == sorted(ran)


@law
def timers_expire_when_they_are_due_and_come_to_an_end(life):
    for transition in life:
        due = next_wakeup(transition.after) if transition.after.attempt else None
        assert (due_event(transition.after, transition.now) is not None) == (due is not None and due <= transition.now)
    job, rings = life[-1].after, 0
    while (event := due_event(job, life[-1].now)) is not None:
        job, rings = step(job, event, life[-1].now)[0], rings + 1
        assert rings < MOST_STEPS


@law
def a_stopping_container_has_a_timer(life):
    for transition in life:
        for part in transition.after.attempt.containers if transition.after.attempt else ():
            if part.state is AttemptContainerState.RUNNING and part.next_step_at is not None:
                assert next_wakeup(transition.after) <= part.next_step_at


@law
def a_survey_after_a_crash_repeats_all_unfinished_effects(life):
    job = life[-1].after
    if job.attempt is None:
        return
    seen = [SurveyedContainer(tag=tag, running=True) for tag in (*tags_running(job), *tags_to_keep(job))]

    found = reconcile(active={job.id: job}, known={job.id}, surveyed=seen, expected=tags_running(job))

    assert set(found.effects) == set(unfinished_effects(job))
    assert (found.events, found.orphans) == ((), ())


@law
def every_job_ends(life):
    job, now = life[-1].after, life[-1].now
    for _ in range(MOST_STEPS):
        if job.status in FINISHED:
            return
        job = step(job, next_event(job), now)[0]
    raise AssertionError(f"it never ends: {job}")


@pytest.mark.exhaustive
def test_the_generated_histories_cover_all_cases():
    seen = set()

    @settings(max_examples=1000, deadline=None, database=None, derandomize=True)
    @given(container_histories())
    def collect(life):
        seen.update(transition.after.status for transition in life)
        seen.update(type(effect) for transition in life for effect in transition.effects)
        seen.update(type(transition.event) for transition in life if transition.after is not transition.before)

    collect()

    assert seen >= {Status.RUNNABLE, Status.STARTING, Status.RUNNING, Status.SUCCEEDED, Status.FAILED}
    assert seen >= {do.StartContainer, do.StopContainer, do.KillContainer, do.AbandonStart, do.CleanUpContainer}
    assert seen >= {
        on.PauseRequested,
        on.StartTimedOut,
        on.GraceExpired,
        on.TimedOut,
        on.StartAbandoned,
        on.ContainerLost,
        on.StopSignalDelivered,
    }


def signals(life):
    return [effect for transition in life for effect in transition.effects if isinstance(effect, do.StopContainer)]


def step_tags(step, *kinds):
    return [effect.tag for effect in step.effects if isinstance(effect, kinds)]


def tag_counts(life, *kinds):
    return Counter(tag for transition in life for tag in step_tags(transition, *kinds))


def attempts(life):
    last = life[-1].after
    return [*last.attempts, *([last.attempt] if last.attempt else [])]


def node_of(key):
    return int(key.partition("/")[0] or 0)


def tag_of(job, part):
    return next(tag for tag in (*tags_under_way(job), *tags_to_keep(job)) if tag.container_key == part.key)


def may_start(job, part):
    """Whether a container may start, by the documentation of AWS, with containers and nodes."""
    here = {container.name: container for container in job.attempt.containers if container.node == part.node}
    of_main = [container for container in job.attempt.containers if container.node == job.spec.nodes.main]
    main_runs = any(
        container.address or (container.started_at and task_container_of(job, container).essential)
        for container in of_main
    )
    spec = job.spec.nodes.task(part.node).container(part.name)
    come_true = {
        Condition.START: lambda container: container.started_at is not None,
        Condition.COMPLETE: lambda other_container: other_container.state is AttemptContainerState.ENDED,
        Condition.SUCCESS: lambda one_container: (
            one_container.state is AttemptContainerState.ENDED and one_container.exit_code == 0
        ),
    }
    met = all(come_true[dependency.condition](here[dependency.container]) for dependency in spec.depends_on)
    return met and (main_runs or part.node == job.spec.nodes.main)


def unfinished_effects(job):
    for part in job.attempt.containers:
        tag = next((tag for tag in tags_under_way(job) if tag.container_key == part.key), None)
        if part.state is AttemptContainerState.STARTING:
            yield do.StartContainer(tag=tag)
        if part.state is AttemptContainerState.STARTING and part.stop_ordered:
            yield do.AbandonStart(tag=tag)
        if part.state is AttemptContainerState.RUNNING and part.stop_ordered and part.next_step_at is None:
            yield do.StopContainer(tag=tag, step=part.step, signal=part.steps[part.step].signal)
        if part.state is AttemptContainerState.RUNNING and part.killed_at is not None:
            yield do.KillContainer(tag=tag)


def next_event(job):
    """The next event that a correct engine reports."""
    if job.status is Status.RUNNABLE:
        return on.ReleaseRequested() if job.held else placed()
    number = job.attempt.number
    part = next(
        container
        for container in job.attempt.containers
        if container.state in {AttemptContainerState.STARTING, AttemptContainerState.RUNNING}
    )
    if part.state is AttemptContainerState.RUNNING:
        return ends(part.key, attempt=number, started_at=part.started_at, stopped_at=part.started_at)
    return (
        type(is_abandoned(part.key))(attempt=number, container_key=part.key)
        if part.stop_ordered
        else runs(part.key, attempt=number)
    )
