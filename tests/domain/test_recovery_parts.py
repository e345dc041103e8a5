"""A restart, or a survey, in the midst of an attempt of several containers: each is taken up where it is."""

from batchq.domain import events as on
from batchq.domain.ids import Tag
from tests.domain.lives import after, terminate
from tests.domain.part_lives import app, ends, ganged, in_words, is_asked, runs, sidecar, tasked
from tests.domain.test_recovery import is_over, lives, reconciled
from tests.support.builders import task_container


def tag(job, key):
    return Tag(job_id=job.id, attempt=1, container_key=key)


def effects(job, *, seen=(), expected=()):
    """What is asked for, when these containers were seen, and these were expected."""
    found = reconciled(job, seen=seen, expected=[tag(job, key) for key in expected])
    return [in_words(it) for it in found[1]]


def test_one_that_starts_is_started_again_and_one_that_waits_wants_nothing():
    assert effects(ganged()) == ["start 0/app"]


def test_one_that_starts_and_is_to_end_is_given_up():
    job = after(tasked(app(), sidecar()), ends("0/app"))

    assert effects(job) == ["start 0/sidecar", "abandon 0/sidecar"]


def test_those_that_run_are_well():
    job = after(tasked(app(), sidecar()), runs("0/app"), runs("0/sidecar"))

    seen = [lives(tag(job, "0/app")), lives(tag(job, "0/sidecar"))]

    assert reconciled(job, seen=seen, expected=[it.tag for it in seen]) == ((), (), ())


def test_the_lost_one_is_the_one_that_is_not_there():
    job = after(tasked(app(), sidecar()), runs("0/app"), runs("0/sidecar"))
    both = [tag(job, "0/app"), tag(job, "0/sidecar")]

    news, _, _ = reconciled(job, seen=[lives(both[0])], expected=both)

    assert news == ((job.id, on.ContainerLost(attempt=1, container_key="0/sidecar")),)


def test_the_one_that_is_over_is_looked_at():
    job = after(tasked(app(), sidecar()), runs("0/app"), runs("0/sidecar"))

    assert effects(job, seen=[is_over(tag(job, "0/app")), lives(tag(job, "0/sidecar"))]) == ["look 0/app"]


def test_an_order_that_was_not_asked_before_the_crash_is_asked_of_each():
    job = after(tasked(app(), sidecar()), runs("0/app"), runs("0/sidecar"), terminate(), is_asked("0/app"))

    assert effects(job, seen=[lives(tag(job, key)) for key in ("0/app", "0/sidecar")]) == ["stop 0/sidecar"]


def test_one_that_has_ended_is_cleared_away_if_it_is_still_there():
    job = after(tasked(app(), sidecar()), runs("0/app"), runs("0/sidecar"), ends("0/sidecar"))

    seen = [lives(tag(job, "0/app")), is_over(tag(job, "0/sidecar"))]

    assert effects(job, seen=seen, expected=["0/app"]) == ["clear 0/sidecar"]


def test_one_that_has_ended_stays_while_another_is_yet_to_start():
    init = task_container("init", essential=False)
    job = after(tasked(init, app(after={"init": "SUCCESS"})), runs("0/init"), ends("0/init"))

    assert effects(job, seen=[is_over(tag(job, "0/init"))]) == ["start 0/app"]


def test_one_that_never_began_and_is_there_all_the_same_is_cleared_away():
    job = after(ganged(), runs("0/app"), ends("0/app"))

    assert "clear 7/app" in effects(job, seen=[lives(tag(job, "7/app"))])


def test_when_the_job_is_over_all_that_is_left_of_it_is_cleared_away():
    job = after(tasked(app(), sidecar()), ends("0/app"), runs("0/sidecar"), ends("0/sidecar"))

    seen = [is_over(tag(job, key)) for key in ("0/app", "0/sidecar")]

    assert effects(job, seen=seen) == ["clear 0/app", "clear 0/sidecar"]
