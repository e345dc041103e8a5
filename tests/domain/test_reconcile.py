"""What is done for each pair of a stored attempt and a surveyed container: the table of a restart."""

from batchq.domain import effects as do
from batchq.domain import events as on
from batchq.domain.ids import JobId, Tag
from batchq.domain.lifecycle.reconcile import SurveyedContainer, reconcile
from tests.domain.lives import after, asked, exited, placed, runnable, running, starting, succeeded, terminate
from tests.domain.part_lives import app, ends, ganged, in_words, is_asked, runs, sidecar, tasked
from tests.support.builders import task_container

NOTHING = ((), (), ())


def reconciled(*jobs, seen=(), expected=()):
    """News, effects and strays of a survey, when these are the jobs that are remembered."""
    found = reconcile(
        active={job.id: job for job in jobs if job.attempt is not None},
        known={job.id for job in jobs},
        surveyed=seen,
        expected=expected,
    )
    return found.events, found.effects, found.orphans


def lives(tag):
    return SurveyedContainer(tag=tag, running=True)


def is_over(tag):
    return SurveyedContainer(tag=tag, running=False)


def test_nothing_stored_and_nothing_found_needs_nothing():
    assert reconciled() == NOTHING


# -------------------------------------------------------------------------------------------------------------- running


def test_a_running_job_with_a_running_container_needs_nothing():
    job = running()

    assert reconciled(job, seen=[lives(job.tag)], expected=[job.tag]) == NOTHING


def test_a_running_job_with_an_exited_container_is_inspected():
    job = running()

    assert reconciled(job, seen=[is_over(job.tag)], expected=[job.tag]) == (
        (),
        (do.InspectContainer(tag=job.tag),),
        (),
    )


def test_a_running_job_without_its_container_has_lost_it():
    job = running()

    assert reconciled(job, seen=[], expected=[job.tag]) == (
        ((job.id, on.ContainerLost(attempt=1)),),
        (),
        (),
    )


def test_a_container_not_yet_expected_is_not_lost():
    job = running()

    assert reconciled(job, seen=[], expected=[]) == NOTHING


def test_an_attempt_ended_since_the_survey_began_is_not_lost():
    before = running(attempts=2)
    job = after(before, exited(1), placed())

    assert reconciled(job, expected=[before.tag]) == ((), (do.StartContainer(tag=job.tag),), ())


def test_only_the_absent_container_is_lost():
    here, gone = running(), running()

    news, effects, strays = reconciled(here, gone, seen=[lives(here.tag)], expected=[here.tag, gone.tag])

    assert news == ((gone.id, on.ContainerLost(attempt=1)),)
    assert (effects, strays) == ((), ())


def test_a_stop_order_without_a_signal_before_the_crash_is_signalled():
    job = after(running(), terminate())

    assert reconciled(job, seen=[lives(job.tag)], expected=[job.tag]) == ((), (do.StopContainer(tag=job.tag),), ())


def test_a_signalled_stop_order_waits_for_its_deadline():
    job = after(running(), terminate(), asked())

    assert reconciled(job, seen=[lives(job.tag)], expected=[job.tag]) == NOTHING


def test_an_exited_container_is_inspected_and_not_signalled():
    job = after(running(), terminate())

    assert reconciled(job, seen=[is_over(job.tag)], expected=[job.tag]) == (
        (),
        (do.InspectContainer(tag=job.tag),),
        (),
    )


# ------------------------------------------------------------------------------------------------------------- starting


def test_the_start_of_a_starting_job_is_repeated_without_a_container():
    job = starting()

    assert reconciled(job) == ((), (do.StartContainer(tag=job.tag),), ())


def test_a_starting_job_is_never_lost():
    job = starting()

    assert reconciled(job, expected=[job.tag])[1] == (do.StartContainer(tag=job.tag),)


def test_the_start_of_a_starting_job_with_a_container_is_repeated():
    alive, over = starting(), starting()

    assert reconciled(alive, over, seen=[lives(alive.tag), is_over(over.tag)]) == (
        (),
        (do.StartContainer(tag=alive.tag), do.StartContainer(tag=over.tag)),
        (),
    )


def test_a_starting_job_with_a_stop_order_is_abandoned():
    job = after(starting(), terminate())

    assert reconciled(job) == ((), (do.StartContainer(tag=job.tag), do.AbandonStart(tag=job.tag)), ())


# ------------------------------------------------------------------------------------------------------------ leftovers


def test_a_container_of_a_finished_job_is_cleaned_up():
    before = running()
    over = after(before, exited(0))

    assert reconciled(over, seen=[is_over(before.tag)]) == ((), (do.CleanUpContainer(tag=before.tag),), ())


def test_a_running_container_of_a_finished_job_is_cleaned_up():
    over = succeeded()
    tag = Tag(job_id=over.id, attempt=1)

    assert reconciled(over, seen=[lives(tag)]) == ((), (do.CleanUpContainer(tag=tag),), ())


def test_the_container_of_an_earlier_attempt_is_cleaned_up():
    first = running(attempts=2)
    second = after(first, exited(1), placed())

    assert reconciled(second, seen=[is_over(first.tag)])[1] == (
        do.StartContainer(tag=second.tag),
        do.CleanUpContainer(tag=first.tag),
    )


def test_a_container_of_a_job_that_waits_for_a_retry_is_cleaned_up():
    first = running(attempts=2)
    waits = after(first, exited(1))

    assert reconciled(waits, seen=[is_over(first.tag)]) == ((), (do.CleanUpContainer(tag=first.tag),), ())


def test_a_container_of_a_queued_job_without_attempts_is_cleaned_up():
    job = runnable()
    tag = Tag(job_id=job.id, attempt=1)

    assert reconciled(job, seen=[lives(tag)]) == ((), (do.CleanUpContainer(tag=tag),), ())


def test_a_container_of_an_unknown_job_is_an_orphan():
    tag = Tag(job_id=JobId("nobody"), attempt=1)

    assert reconciled(running(), seen=[lives(tag)]) == ((), (), (tag,))


def tag(job, key):
    return Tag(job_id=job.id, attempt=1, container_key=key)


def effects(job, *, seen=(), expected=()):
    """What is asked for, when these containers were seen, and these were expected."""
    found = reconciled(job, seen=seen, expected=[tag(job, key) for key in expected])
    return [in_words(it) for it in found[1]]


def test_a_starting_container_is_started_again_and_a_waiting_one_needs_nothing():
    assert effects(ganged()) == ["start 0/app"]


def test_a_starting_container_with_a_stop_order_is_abandoned():
    job = after(tasked(app(), sidecar()), ends("0/app"))

    assert effects(job) == ["start 0/sidecar", "abandon 0/sidecar"]


def test_running_containers_need_nothing():
    job = after(tasked(app(), sidecar()), runs("0/app"), runs("0/sidecar"))

    seen = [lives(tag(job, "0/app")), lives(tag(job, "0/sidecar"))]

    assert reconciled(job, seen=seen, expected=[it.tag for it in seen]) == ((), (), ())


def test_only_the_absent_container_of_a_task_is_lost():
    job = after(tasked(app(), sidecar()), runs("0/app"), runs("0/sidecar"))
    both = [tag(job, "0/app"), tag(job, "0/sidecar")]

    news, _, _ = reconciled(job, seen=[lives(both[0])], expected=both)

    assert news == ((job.id, on.ContainerLost(attempt=1, container_key="0/sidecar")),)


def test_an_exited_container_is_inspected():
    job = after(tasked(app(), sidecar()), runs("0/app"), runs("0/sidecar"))

    assert effects(job, seen=[is_over(tag(job, "0/app")), lives(tag(job, "0/sidecar"))]) == ["look 0/app"]


def test_a_stop_order_without_a_signal_before_the_crash_signals_each_container():
    job = after(tasked(app(), sidecar()), runs("0/app"), runs("0/sidecar"), terminate(), is_asked("0/app"))

    assert effects(job, seen=[lives(tag(job, key)) for key in ("0/app", "0/sidecar")]) == ["stop 0/sidecar"]


def test_an_ended_container_that_still_exists_is_cleaned_up():
    job = after(tasked(app(), sidecar()), runs("0/app"), runs("0/sidecar"), ends("0/sidecar"))

    seen = [lives(tag(job, "0/app")), is_over(tag(job, "0/sidecar"))]

    assert effects(job, seen=seen, expected=["0/app"]) == ["clear 0/sidecar"]


def test_an_ended_container_is_kept_while_another_has_to_start():
    init = task_container("init", essential=False)
    job = after(tasked(init, app(after={"init": "SUCCESS"})), runs("0/init"), ends("0/init"))

    assert effects(job, seen=[is_over(tag(job, "0/init"))]) == ["start 0/app"]


def test_a_container_that_exists_without_a_start_is_cleaned_up():
    job = after(ganged(), runs("0/app"), ends("0/app"))

    assert "clear 7/app" in effects(job, seen=[lives(tag(job, "7/app"))])


def test_all_containers_of_a_finished_job_are_cleaned_up():
    job = after(tasked(app(), sidecar()), ends("0/app"), runs("0/sidecar"), ends("0/sidecar"))

    seen = [is_over(tag(job, key)) for key in ("0/app", "0/sidecar")]

    assert effects(job, seen=seen) == ["clear 0/app", "clear 0/sidecar"]
