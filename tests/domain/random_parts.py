"""Random histories of containers: any event of any container of a job, at any moment, in any order."""

from datetime import timedelta

from hypothesis import strategies as some

from batchq.domain import events as on
from batchq.domain.enums import ACTIVE, QUEUED, AttemptContainerState
from batchq.domain.lifecycle.containers import TRANSITIONS
from batchq.domain.lifecycle.transitions import step
from batchq.domain.task import Condition, ContainerDependency, DefinitionForm, NodeRange, Nodes, Task
from tests.domain.lives import cancel, due_event, placed, timed_out
from tests.domain.part_lives import described, parts
from tests.domain.random_lives import RULES_OF_CHECKPOINTS, may_pause
from tests.support.builders import NOON, job, task_container

EXIT_CODES = [0, 0, 1, 137]
ONWARD = {AttemptContainerState.STARTING: on.ContainerStarted, AttemptContainerState.RUNNING: on.ContainerExited}
DUE, TERMINATES, CANCELS, TIMES_OUT, LEADS_ON = 30, 40, 46, 52, 190

seconds = some.integers(0, 20).map(lambda number: timedelta(seconds=number))


class PartStep:
    """As `Step`, with a short representation: an attempt of several containers fills pages."""

    def __init__(self, *, before, event, now):
        self.before, self.event, self.now = before, event, now
        self.after, self.effects = step(before, event, now)

    def __repr__(self):
        effects = ", ".join(described(effect) for effect in self.effects)
        what = f"{type(self.event).__name__} {getattr(self.event, 'part', '')}"
        how = {part.key: str(part.state) for part in parts(self.after)}
        return f"\n{self.now:%X} {what} makes it {self.after.status} {how}, effects: {effects}"


@some.composite
def tasks(draw, most=4):
    """Each container may wait for those before it, and at least one is essential."""
    names = [f"c{number}" for number in range(draw(some.integers(1, most)))]
    essential = draw(some.sampled_from(names))
    return Task(
        containers=tuple(
            task_container(
                name,
                essential=name == essential or draw(some.booleans()),
                start_timeout=draw(some.none() | seconds),
                stop_timeout=draw(some.none() | seconds),
                depends_on=tuple(draw(dependencies(names[:number]))),
            )
            for number, name in enumerate(names)
        )
    )


@some.composite
def dependencies(draw, before):
    named = draw(some.lists(some.sampled_from(before), max_size=2, unique=True)) if before else []
    return [
        ContainerDependency(container=container, condition=draw(some.sampled_from(Condition))) for container in named
    ]


@some.composite
def gangs(draw):
    count = draw(some.integers(1, 3))
    ranges = tuple(NodeRange(first=node, last=node, task=draw(tasks(most=2))) for node in range(count))
    return Nodes(count=count, main=draw(some.integers(0, count - 1)), ranges=ranges, form=DefinitionForm.NODES)


@some.composite
def placed_jobs(draw):
    """A job of any form, just before it is placed for the first time."""
    several = draw(some.sampled_from([dict, lambda: {"task": draw(tasks())}, lambda: {"nodes": draw(gangs())}]))()
    fields = {
        "attempts": draw(some.integers(1, 2)),
        "timeout": draw(some.none() | seconds),
        "stop_grace": draw(seconds),
    }
    fields["checkpoints"] = draw(RULES_OF_CHECKPOINTS)
    return step(job(number=1, **several, **fields), on.DependenciesMet(), NOON)[0]


@some.composite
def container_histories(draw):
    """A job from its placement on, step by step. Each step is drawn from four bytes."""
    found, now, steps = draw(placed_jobs()), NOON, []
    numbers = iter(draw(some.binary(min_size=24, max_size=160)))
    for which, whom, later, detail in zip(numbers, numbers, numbers, numbers, strict=False):
        now += timedelta(seconds=later % 8)
        event = random_event(found, now, which=which, whom=whom, detail=detail)
        if event is None:
            break
        steps.append(PartStep(before=found, event=event, now=now))
        found = steps[-1].after
    return steps


def random_event(other_job, now, *, which, whom, detail):
    """The next event; None for a finished job."""
    if other_job.status in QUEUED:
        return on.ReleaseRequested() if other_job.held else placed()
    if other_job.status not in ACTIVE:
        return None
    if which < DUE and (due := due_event(other_job, now)) is not None:
        return due
    if which < TERMINATES:
        node = (
            whom % (other_job.spec.nodes.count + 1)
            if detail % 2 == 0 and other_job.spec.nodes.form is DefinitionForm.NODES
            else None
        )
        if detail % 7 == 0:
            return on.StopForced(reason="at once", node=node)
        if detail % 11 == 0 and may_pause(other_job):
            return on.PauseRequested(reason="later")
        if detail % 5 == 0:
            return on.CheckpointSeen(attempt=other_job.attempt.number, name=f"step-{detail}")
        grace = timedelta(0) if detail % 3 == 0 else None
        return on.TerminateRequested(reason="enough", node=node, grace=grace, checkpoint=detail % 4 > 0)
    if which < CANCELS or (which < TIMES_OUT and other_job.attempt.started_at is None):
        return cancel()
    if which < TIMES_OUT:
        return timed_out(other_job.attempt.number)
    return container_events(other_job, now, which=which, whom=whom, detail=detail)


def container_events(other_job, now, *, which, whom, detail):
    """An event of an active container, mostly a legal one; sometimes of a container that has ended."""
    under_way = [part for part in other_job.attempt.containers if part.state is not AttemptContainerState.WAITING]
    living = [part for part in under_way if part.state is not AttemptContainerState.ENDED]
    part = (living or under_way)[whom % len(living or under_way)] if detail < 240 else under_way[whom % len(under_way)]
    legal = [kind for kind in TRANSITIONS[part.state] if kind is not on.StartAbandoned or part.stop_ordered]
    kind = ONWARD.get(part.state, legal[0]) if which > LEADS_ON else legal[which % len(legal)]
    about = {"attempt": other_job.attempt.number, "container_key": part.key}
    match kind:
        case on.ContainerCreated:
            return kind(**about, container_id=f"container {detail}")
        case on.ContainerStarted:
            return kind(**about, started_at=now, address=f"10.0.0.{part.node}")
        case on.StartFailed:
            return kind(**about, reason="no such file", exit_code=127 if detail % 2 else None)
        case on.ContainerExited:
            began = part.started_at or now
            return kind(**about, exit_code=EXIT_CODES[detail % 4], started_at=began, stopped_at=now)
        case on.CheckpointRequested | on.StopSignalDelivered:
            return kind(**about, step=0 if detail > 200 else part.step)
    return kind(**about)
