"""How a task is stopped: all its containers, each with its own deadline. aws-batch.md 5.4, 6.2, 11.3."""

from datetime import timedelta

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.job import Status
from batchq.domain.lifecycle.deadlines import next_wakeup, tag_to_inspect
from tests.domain.lives import after, at, cancel, due_event, lived, marks, starting, terminate, timed_out
from tests.domain.part_lives import (
    app,
    asks,
    ends,
    given_up,
    grace_over,
    in_words,
    is_asked,
    runs,
    sidecar,
    states,
    tasked,
    too_late,
)
from tests.support.builders import gang, task, task_container

APP, SIDECAR, INIT = "0/app", "0/sidecar", "0/init"
MINUTE = timedelta(minutes=1)


def init(**changes):
    return task_container("init", **{"essential": False} | changes)


# --------------------------------------------------------------------------------------------------------- stop, cancel


def test_a_terminate_stops_all_containers():
    job = after(tasked(app(), sidecar()), runs(APP), runs(SIDECAR))

    over = after(job, terminate("enough"), ends(APP, 0), ends(SIDECAR, 0))

    assert asks(job, terminate()) == ["stop 0/app", "stop 0/sidecar"]
    assert marks(over) == (Status.FAILED, "enough", False, True)
    assert (over.attempts[0].status_reason, over.attempts[0].exit_code) == ("enough", 0)


def test_a_terminate_abandons_starting_containers_and_ends_waiting_ones():
    job = after(tasked(app(), sidecar(), init(after={"app": "COMPLETE"})), runs(APP))

    assert asks(job, terminate()) == ["stop 0/app", "abandon 0/sidecar"]
    assert states(after(job, terminate()))[INIT] == "ENDED"


def test_a_terminate_before_any_container_ran_uses_no_attempt():
    job = tasked(app(), sidecar())

    over = after(job, terminate("enough"), given_up(APP), given_up(SIDECAR))

    assert asks(job, terminate(), given_up(APP), given_up(SIDECAR)) == ["clear 0/app", "clear 0/sidecar"]
    assert (marks(over), over.attempts) == ((Status.FAILED, "enough", False, True), ())


def test_a_terminate_after_a_non_essential_container_ran_uses_an_attempt():
    job = after(tasked(init(), app(after={"init": "SUCCESS"})), runs(INIT), terminate("enough"), ends(INIT, 143))

    assert (job.status, job.attempts[0].exit_code, job.attempts[0].status_reason) == (Status.FAILED, None, "enough")


def test_an_abandoned_container_does_not_decide_after_another_ran():
    other = task_container("other")
    job = after(tasked(app(), other), runs("0/other"), terminate(), given_up(APP), ends("0/other", 143))

    assert (job.attempts[0].decided_by, job.attempts[0].exit_code) == ("0/other", 143)


def test_a_terminate_while_the_last_containers_stop_fails_the_job():
    job = after(tasked(app(), sidecar()), runs(APP), runs(SIDECAR), ends(APP, 0))

    over = after(job, terminate("enough"), ends(SIDECAR, 143))

    assert asks(job, terminate()) == []
    assert marks(over) == (Status.FAILED, "enough", False, True)


def test_the_first_order_stands():
    job = after(tasked(app()), runs(APP), terminate("enough"))

    assert lived(job, terminate("more"), now=at(5)) == (job, ())
    assert lived(job, timed_out(), now=at(5)) == (job, ())


def test_a_cancel_is_remembered_and_the_attempt_continues():
    job, effects = lived(after(tasked(app(), attempts=3), runs(APP)), cancel("not wanted"))

    assert effects == ()
    assert marks(after(job, ends(APP, 1))) == (Status.FAILED, "not wanted", True, False)
    assert marks(after(job, ends(APP, 0))) == (Status.SUCCEEDED, status_reasons.EXITED, False, False)


def test_a_timeout_stops_all_containers():
    job = after(tasked(app(), sidecar(), attempts=3), runs(APP), runs(SIDECAR))

    over = after(job, timed_out(), ends(APP, 0), ends(SIDECAR, 0))

    assert asks(job, timed_out()) == ["stop 0/app", "stop 0/sidecar"]
    assert marks(over) == (Status.FAILED, status_reasons.TIMED_OUT, False, False)


def test_a_timeout_does_not_affect_a_decided_attempt():
    job = after(tasked(app(), sidecar(), timeout=MINUTE), runs(APP), runs(SIDECAR), ends(APP, 0))

    assert next_wakeup(job) is None
    assert lived(job, timed_out()) == (job, ())


# ---------------------------------------------------------------------------------------------------------------- grace


def stopping(**changes):
    """An app that is over, and a sidecar that runs and is to stop."""
    asked = {name: changes.pop(name) for name in changes.keys() & {"stop_timeout"}}
    return after(tasked(app(), sidecar(**asked), **changes), runs(APP), runs(SIDECAR), ends(APP))


def test_the_grace_period_starts_with_the_signal():
    job = stopping(stop_grace=MINUTE)

    assert next_wakeup(job) is None
    assert next_wakeup(after(job, is_asked(SIDECAR), now=at(5))) == at(65)


def test_a_second_signal_does_not_restart_the_grace_period_of_a_container():
    job = after(stopping(), is_asked(SIDECAR))

    assert lived(job, is_asked(SIDECAR), now=at(9)) == (job, ())


def test_a_container_may_have_its_own_grace_period():
    job = stopping(stop_grace=MINUTE, stop_timeout=timedelta(seconds=7))

    assert next_wakeup(after(job, is_asked(SIDECAR))) == at(7)


def test_the_grace_period_of_a_terminate_takes_precedence():
    job = after(tasked(app(stop_timeout=MINUTE)), runs(APP), terminate(grace=timedelta(0)), is_asked(APP))

    assert due_event(job, at(0)) == grace_over(APP)


def test_a_terminate_without_a_grace_period_uses_that_of_the_container():
    job = after(tasked(app(stop_timeout=MINUTE)), runs(APP), terminate(), is_asked(APP))

    assert next_wakeup(job) == at(60)


def test_a_later_terminate_does_not_change_a_running_grace_period():
    job = after(stopping(stop_grace=MINUTE), is_asked(SIDECAR))

    assert next_wakeup(after(job, terminate(grace=timedelta(seconds=1)))) == at(60)


def test_a_signal_without_an_order_starts_no_grace_period_of_a_container():
    job = after(tasked(app()), runs(APP))

    assert lived(job, is_asked(APP)) == (job, ())


def test_after_its_grace_period_a_container_is_killed_repeatedly():
    job = after(stopping(), is_asked(SIDECAR))

    killed, effects = lived(job, due_event(job, at(30)), now=at(30))

    assert [in_words(it) for it in effects] == ["kill 0/sidecar"]
    assert next_wakeup(killed) == at(35)
    assert asks(killed, grace_over(SIDECAR), now=at(35)) == ["kill 0/sidecar"]


def test_a_container_that_exits_in_its_grace_period_is_not_killed():
    job = after(tasked(app(), sidecar()), runs(APP), runs(SIDECAR), terminate(), is_asked(APP), ends(APP))

    assert next_wakeup(job) is None


def test_a_container_without_a_signal_is_not_killed():
    job = stopping()

    assert lived(job, grace_over(SIDECAR), now=at(99)) == (job, ())


def test_each_container_has_its_own_deadline():
    other = task_container("other", essential=False, stop_timeout=timedelta(seconds=5))
    job = after(tasked(app(), sidecar(), other), runs(APP), runs(SIDECAR), runs("0/other"), ends(APP))

    asked = after(job, is_asked(SIDECAR), is_asked("0/other"))
    later = after(asked, grace_over("0/other"), now=at(29))

    assert due_event(asked, at(60)) == grace_over("0/other")
    assert due_event(later, at(30)) == grace_over(SIDECAR)


def test_a_container_that_survives_the_kill_is_reported_and_holds_its_resources():
    job = after(after(stopping(), is_asked(SIDECAR)), grace_over(SIDECAR), now=at(30))

    just_before = after(job, grace_over(SIDECAR), now=at(89.999))
    deaf = after(just_before, grace_over(SIDECAR), now=at(90))

    assert just_before.status_reason is None
    assert (deaf.status, deaf.status_reason) == (Status.RUNNING, status_reasons.UNKILLABLE)
    assert after(deaf, ends(SIDECAR, 137)).status_reason == status_reasons.EXITED


# -------------------------------------------------------------------------------------------------------- start timeout


def waiting(**changes):
    """An app that waits for a container that has five seconds."""
    return tasked(init(start_timeout=timedelta(seconds=5), **changes), app(after={"init": "SUCCESS"}), sidecar())


def test_the_start_timeout_counts_from_the_request():
    job = after(waiting(), runs(INIT, since=at(3)), now=at(3))

    assert (next_wakeup(waiting()), next_wakeup(job)) == (at(5), at(5))
    assert due_event(job, at(4.999)) is None
    assert due_event(job, at(5)) == too_late(INIT)


def test_a_container_without_waiting_dependents_has_no_start_timeout():
    assert next_wakeup(tasked(init(start_timeout=MINUTE), app())) is None
    assert next_wakeup(after(waiting(), ends(INIT))) is None


def test_a_start_timeout_fails_the_job():
    job = after(waiting(), runs(INIT), runs(SIDECAR), too_late(INIT))

    over = after(job, ends(INIT, 143), ends(SIDECAR, 143))

    assert asks(waiting(), runs(INIT), runs(SIDECAR), too_late(INIT)) == ["stop 0/init", "stop 0/sidecar"]
    assert (over.status, over.status_reason) == (Status.FAILED, status_reasons.NOT_STARTED)
    why = "DependencyTimeoutError: container init did not reach SUCCESS within 5 seconds"
    assert (over.attempts[0].reason, over.attempts[0].exit_code, over.attempts[0].decided_by) == (why, None, APP)


def test_a_start_timeout_of_a_non_essential_container_stops_the_task():
    job = tasked(init(start_timeout=MINUTE), app(), sidecar(after={"init": "COMPLETE"}))

    over = after(job, runs(INIT), runs(APP), too_late(INIT), ends(APP, 0), ends(INIT, 0))

    assert (over.status, over.attempts[0].decided_by, over.attempts[0].exit_code) == (Status.FAILED, SIDECAR, None)


def test_of_several_failed_waits_an_essential_container_decides():
    slow = init(start_timeout=MINUTE)
    job = tasked(slow, sidecar(after={"init": "SUCCESS"}), app(after={"init": "COMPLETE"}))

    over = after(job, runs(INIT), too_late(INIT), ends(INIT, 143))

    why = "DependencyTimeoutError: container init did not reach COMPLETE within 60 seconds"
    assert (over.attempts[0].decided_by, over.attempts[0].reason) == (APP, why)


def test_a_waiting_container_is_stopped_without_a_failure():
    last = task_container("last", essential=False, after={"sidecar": "SUCCESS"})
    job = tasked(init(start_timeout=MINUTE), sidecar(), last, app(after={"init": "SUCCESS"}))

    over = after(job, runs(INIT), runs(SIDECAR), too_late(INIT), ends(SIDECAR, 143), ends(INIT, 143)).attempts[0]

    assert [it.key for it in over.containers if it.reason is not None] == [APP]


def test_a_condition_met_at_the_start_timeout_is_met():
    job = after(waiting(), runs(INIT), ends(INIT))

    assert lived(job, too_late(INIT)) == (job, ())
    assert lived(after(tasked(app(start_timeout=MINUTE)), runs(APP)), too_late(APP))[1] == ()


def test_a_timeout_due_before_a_grace_period_is_first():
    job = after(tasked(app(), sidecar(), timeout=MINUTE), runs(APP), runs(SIDECAR))

    assert due_event(job, at(60)) == on.TimedOut(attempt=1)
    assert due_event(job, at(59.999)) is None


# ------------------------------------------------------------------------------------------ looked at before a timeout


def looked_at(job):
    tag = tag_to_inspect(job, on.TimedOut(attempt=1))
    return None if tag is None else tag.container_key


def test_before_a_timeout_the_deciding_container_is_inspected():
    nodes = gang(2, main=1, leader=task(init(), app()))
    job = after(starting(nodes=nodes), runs("1/init"), runs("1/app"), runs("0/app"))

    assert looked_at(job) == "1/app"


def test_containers_of_the_main_node_are_inspected_before_other_nodes():
    nodes = gang(2, main=1, leader=task(init(), app(after={"init": "COMPLETE"})))
    job = after(starting(nodes=nodes), runs("1/init", address="10.0.0.1"), runs("0/app"))

    assert looked_at(job) == "1/init"


def test_without_a_running_container_none_is_inspected():
    job = after(tasked(init(), app(after={"init": "COMPLETE"})), runs(INIT), ends(INIT))

    assert (job.status, looked_at(job)) == (Status.RUNNING, None)
