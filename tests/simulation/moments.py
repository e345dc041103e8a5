"""The moments of the fault catalogue, recognised by stored jobs and by what the containers really do."""

from collections.abc import Callable

from batchq.domain.enums import Status
from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.stopping import next_step_at
from batchq.ports.jobs import Changes
from batchq.ports.runtime import ContainerState
from tests.simulation.cases import CaseRun
from tests.simulation.choices import Point

Moment = Callable[[CaseRun, Point], bool]


def _at_call(when: str, call: str, state: ContainerState | None = None) -> Moment:
    """The moment before, during or after a call of the engine about a container in this state; None: in any state."""
    return lambda run, at: (at.when, at.what) == (when, call) and state in (None, _state(run, at.about))


# ----------------------------------------------------------------------------------------------------- the start path


def before_a_submission_is_saved(_run: CaseRun, at: Point) -> bool:
    return at.when == "before" and bool(_new(at))


def before_its_answer_is_sent(run: CaseRun, at: Point) -> bool:
    return at.when == "after" and bool(_new(at)) and not run.ids


def before_a_placement_is_saved(run: CaseRun, at: Point) -> bool:
    placed = (job for job in _changed(at) if job.status is Status.STARTING)
    return at.when == "before" and any(_stored(run, job).status is Status.RUNNABLE for job in placed)


def after_the_placement_before_the_create(run: CaseRun, at: Point) -> bool:
    placed = (job for job in run.world.invariants.jobs.values() if job.status is Status.STARTING)
    return any(not run.world.invariants.containers.of_job(job.id) for job in placed)


during_a_pull = _at_call("during", "pull")
create_without_a_reply = _at_call("unanswered", "create", ContainerState.CREATED)
after_the_create_before_its_commit = _at_call("after", "create", ContainerState.CREATED)
before_the_start = _at_call("before", "start", ContainerState.CREATED)
start_without_a_reply = _at_call("unanswered", "start", ContainerState.RUNNING)


def after_the_start_before_its_commit(run: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("after", "start") and run.job("a").status is Status.STARTING


def after_the_exit_before_an_inspection(run: CaseRun, at: Point) -> bool:
    """Its start and its end are not seen yet."""
    starting = (job for job in run.world.invariants.jobs.values() if job.status is Status.STARTING)
    return any(_state(run, container.tag) is ContainerState.EXITED for container in starting) and at.what != "a read"


def before_an_end_is_saved(run: CaseRun, at: Point) -> bool:
    return at.when == "before" and any(len(job.attempts) > len(_stored(run, job).attempts) for job in _changed(at))


def before_the_container_is_removed(run: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("before", "remove") and at.about in run.world.machine.engine.containers


# ------------------------------------------------------------------------------------------------------ the stop path


def after_the_commit_of_a_stop_order(_run: CaseRun, at: Point) -> bool:
    return at.when == "after" and any(job.stop is not None and next_step_at(job) is None for job in _changed(at))


before_the_stop_signal = _at_call("before", "signal_stop")


def after_the_stop_signal_before_its_commit(run: CaseRun, at: Point) -> bool:
    counted = any(next_step_at(job) is not None for job in _changed(at))
    noted = counted and at.when == "before" and _stop_requested(run)
    return noted or (at.when, at.what) == ("after", "signal_stop")


def in_the_grace_period(run: CaseRun, _at: Point) -> bool:
    job = run.job("a") if "a" in run.ids else None
    return job is not None and next_step_at(job) is not None and job.stop.killed_at is None and _lives(run)


def after_sigkill_before_the_exit_is_seen(run: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("after", "kill") and run.job("a").status is Status.RUNNING


# --------------------------------------------------------------------------------------------- a concurrent request


def the_job_is_running(run: CaseRun, _at: Point) -> bool:
    return "a" in run.ids and run.job("a").status is Status.RUNNING and _lives(run)


def the_job_has_succeeded(run: CaseRun, _at: Point) -> bool:
    return "a" in run.ids and run.job("a").status is Status.SUCCEEDED


def the_container_has_exited_unseen(run: CaseRun, at: Point) -> bool:
    """The inspection that will find it begins."""
    ended = (at.when, at.what) == ("before", "inspect") and _state(run, at.about) is ContainerState.EXITED
    return ended and run.job("a").status is Status.RUNNING and not run.job("a").attempts


its_image_is_being_pulled = _at_call("before", "pull")
the_created_container_waits_for_its_start = _at_call("refused", "start", ContainerState.CREATED)


def near_the_timeout(run: CaseRun, at: Point) -> bool:
    """Within the second before and after."""
    if not the_job_is_running(run, at):
        return False
    ran = (run.world.clock.now() - run.started("a")[0].container.started_at).total_seconds()
    return abs(ran - run.job("a").spec.timeout.total_seconds()) < 1


def the_last_job_waits_for_capacity(run: CaseRun, _at: Point) -> bool:
    return "c" in run.ids and run.job("c").status is Status.RUNNABLE


# ---------------------------------------------------------------------------------------------------------------------


def _new(at: Point) -> tuple[Job, ...]:
    return at.about.inserted if isinstance(at.about, Changes) else ()


def _changed(at: Point) -> tuple[Job, ...]:
    return at.about.updated if isinstance(at.about, Changes) else ()


def _stored(run: CaseRun, job: Job) -> Job:
    return run.world.invariants.jobs[job.id]


def _state(run: CaseRun, tag: Tag | Changes | None) -> ContainerState | None:
    container = run.world.machine.engine.containers.get(tag)
    return None if container is None else container.inspect(run.world.clock.now()).state


def _lives(run: CaseRun) -> bool:
    now = run.world.clock.now()
    return any(record.lives(now) for record in run.started("a"))


def _stop_requested(run: CaseRun) -> bool:
    return any(started.container.stop_requested_at is not None for started in run.started("a"))
