"""A restart, or a survey, during an attempt of several containers: each continues."""

from batchq.domain import events as on
from batchq.domain.ids import Tag
from tests.domain.lives import after, terminate
from tests.domain.part_lives import app, ends, ganged, in_words, is_asked, runs, sidecar, tasked
from tests.domain.test_reconcile import is_over, lives, reconciled
from tests.support.builders import task_container


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


def test_only_the_absent_container_is_lost():
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
