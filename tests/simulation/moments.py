"""The moments of the fault catalogue, recognised by stored jobs and by what the containers really do."""

from batchq.domain.ids import Tag
from batchq.domain.job import Job, Status
from batchq.ports.jobs import Changes
from batchq.ports.runtime import ContainerState
from tests.simulation.cases import CaseRun
from tests.simulation.choices import Point

# ----------------------------------------------------------------------------------------------------- the start path


def before_a_submission_is_saved(_play: CaseRun, at: Point) -> bool:
    return at.when == "before" and bool(_new(at))


def before_its_answer_is_sent(play: CaseRun, at: Point) -> bool:
    return at.when == "after" and bool(_new(at)) and not play.ids


def before_a_placement_is_saved(play: CaseRun, at: Point) -> bool:
    placed = (it for it in _changed(at) if it.status is Status.STARTING)
    return at.when == "before" and any(_stored(play, it).status is Status.RUNNABLE for it in placed)


def after_the_placement_before_the_create(play: CaseRun, at: Point) -> bool:
    placed = (it for it in play.world.invariants.jobs.values() if it.status is Status.STARTING)
    return any(not play.world.invariants.containers.of_job(it.id) for it in placed)


def during_a_pull(_play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("during", "pull")


def create_without_a_reply(play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("unanswered", "create") and _state(play, at.about) is ContainerState.CREATED


def after_the_create_before_its_commit(play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("after", "create") and _state(play, at.about) is ContainerState.CREATED


def before_the_start(play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("before", "start") and _state(play, at.about) is ContainerState.CREATED


def start_without_a_reply(play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("unanswered", "start") and _state(play, at.about) is ContainerState.RUNNING


def after_the_start_before_its_commit(play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("after", "start") and play.job("a").status is Status.STARTING


def after_the_exit_before_an_inspection(play: CaseRun, at: Point) -> bool:
    """Its start and its end are not seen yet."""
    starting = (it for it in play.world.invariants.jobs.values() if it.status is Status.STARTING)
    return any(_state(play, it.tag) is ContainerState.EXITED for it in starting) and at.what != "a read"


def before_an_end_is_saved(play: CaseRun, at: Point) -> bool:
    return at.when == "before" and any(len(it.attempts) > len(_stored(play, it).attempts) for it in _changed(at))


def before_the_container_is_removed(play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("before", "remove") and at.about in play.world.machine.engine.containers


# ------------------------------------------------------------------------------------------------------ the stop path


def after_the_commit_of_a_stop_order(_play: CaseRun, at: Point) -> bool:
    return at.when == "after" and any(it.stop is not None and it.stop.next_step_at is None for it in _changed(at))


def before_the_stop_signal(_play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("before", "signal_stop")


def after_the_stop_signal_before_its_commit(play: CaseRun, at: Point) -> bool:
    counted = any(it.stop is not None and it.stop.next_step_at is not None for it in _changed(at))
    noted = counted and at.when == "before" and _stop_requested(play)
    return noted or (at.when, at.what) == ("after", "signal_stop")


def in_the_grace_period(play: CaseRun, _at: Point) -> bool:
    stop = play.job("a").stop if "a" in play.ids else None
    return stop is not None and stop.next_step_at is not None and stop.killed_at is None and _lives(play)


def after_sigkill_before_the_exit_is_seen(play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("after", "kill") and play.job("a").status is Status.RUNNING


# --------------------------------------------------------------------------------------------- a concurrent request


def the_job_is_running(play: CaseRun, _at: Point) -> bool:
    return "a" in play.ids and play.job("a").status is Status.RUNNING and _lives(play)


def the_job_has_succeeded(play: CaseRun, _at: Point) -> bool:
    return "a" in play.ids and play.job("a").status is Status.SUCCEEDED


def the_container_has_exited_unseen(play: CaseRun, at: Point) -> bool:
    """The inspection that will find it begins."""
    ended = (at.when, at.what) == ("before", "inspect") and _state(play, at.about) is ContainerState.EXITED
    return ended and play.job("a").status is Status.RUNNING and not play.job("a").attempts


def its_image_is_being_pulled(_play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("before", "pull")


def the_created_container_waits_for_its_start(play: CaseRun, at: Point) -> bool:
    return (at.when, at.what) == ("refused", "start") and _state(play, at.about) is ContainerState.CREATED


def near_the_timeout(play: CaseRun, at: Point) -> bool:
    """Within the second before and after."""
    if not the_job_is_running(play, at):
        return False
    ran = (play.world.clock.now() - play.started("a")[0].it.started_at).total_seconds()
    return abs(ran - play.job("a").spec.timeout.total_seconds()) < 1


def the_last_job_waits_for_capacity(play: CaseRun, _at: Point) -> bool:
    return "c" in play.ids and play.job("c").status is Status.RUNNABLE


# ---------------------------------------------------------------------------------------------------------------------


def _new(at: Point) -> tuple[Job, ...]:
    return at.about.inserted if isinstance(at.about, Changes) else ()


def _changed(at: Point) -> tuple[Job, ...]:
    return at.about.updated if isinstance(at.about, Changes) else ()


def _stored(play: CaseRun, job: Job) -> Job:
    return play.world.invariants.jobs[job.id]


def _state(play: CaseRun, tag: Tag | Changes | None) -> ContainerState | None:
    container = play.world.machine.engine.containers.get(tag)
    return None if container is None else container.inspect(play.world.clock.now()).state


def _lives(play: CaseRun) -> bool:
    now = play.world.clock.now()
    return any(it.lives(now) for it in play.started("a"))


def _stop_requested(play: CaseRun) -> bool:
    return any(it.it.stop_requested_at is not None for it in play.started("a"))
