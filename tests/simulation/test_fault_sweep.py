"""Scripted cases with one fault: at every point, and at the moments of the fault catalogue."""

from collections import defaultdict
from datetime import timedelta

import pytest

from batchq.domain import status_reasons
from batchq.domain.enums import Status
from tests.simulation import cases, moments
from tests.simulation.cases import CASES, TERMINATED
from tests.simulation.cases_of_several import CASES_OF_SEVERAL
from tests.simulation.fault_sweep import (
    bugs,
    cancel_c,
    crash_points,
    crashes,
    crashes_at,
    faults,
    requests_at,
    run_case,
    transaction_faults,
)
from tests.simulation.planned_faults import LATE, LOST_REPLY, PlannedFault

LOOKED_AT = PlannedFault(looks=True)
SLOW_LOOKS = PlannedFault(delays={"inspect": 1.0})
MOMENTS = {moment: name for name, moment in vars(moments).items() if callable(moment)}
A_MOMENT = timedelta(seconds=0.6)  # beyond the time that no server was there


def exhaustive_but(*quick, cases=(*CASES, *CASES_OF_SEVERAL)):
    """All cases; `make check` runs only these."""
    return [case if case in quick else pytest.param(case, marks=pytest.mark.exhaustive) for case in cases]


#: A job that is stopped passes all points of a job that succeeds, except its end.
STOPPED = exhaustive_but(cases.STOPPED)
SUCCEEDS_RETRIED_STOPPED = exhaustive_but(cases.ONE, cases.AGAIN, cases.STOPPED, cases=CASES)

# ----------------------------------------------------------------------------------------------------------- everywhere


def test_the_server_dies_once_in_each_state_that_outlives_it():
    passed = []

    result, found = crash_points(cases.ONE, on_point=lambda _, point: passed.append(f"{point.when} {point.what}"))

    assert result.points + 1 == len(passed)
    assert [passed[at] for at in found] == [
        "before a read",
        "after a commit",  # submitted and placed
        "during create",  # the client has its answer
        "after create",
        "after a commit",  # created
        "after start",
        "after a commit",  # RUNNING
        "before inspect",  # the container has exited
        "after a commit",  # SUCCEEDED
        "before remove",  # the output is stored
        "after remove",
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [*CASES, *CASES_OF_SEVERAL], ids=lambda item: item.name)
def test_a_crash_at_any_point_does_not_change_the_outcome(case):
    runs = [run_case(case, planned) for planned in crashes(case)]

    assert len(runs) > 2 * 12


@pytest.mark.exhaustive
@pytest.mark.fault("CK01")
def test_a_crash_at_any_point_leaves_one_final_checkpoint():
    runs = [run_case(cases.CHECKPOINTED, planned) for planned in crashes(cases.CHECKPOINTED)]

    assert {run.job("a").stop.final_checkpoint for run in runs} == {"final"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [cases.ONE, cases.FAILING], ids=lambda item: item.name)
def test_a_crash_at_any_point_does_not_change_the_outcome_with_inspected_deaths(case):
    runs = [run_case(case, planned) for planned in crashes(case, LOOKED_AT)]

    assert len(runs) > 2 * 12


@pytest.mark.fault("EN24")
@pytest.mark.parametrize("case", STOPPED, ids=lambda item: item.name)
def test_a_lost_reply_of_any_call_does_not_change_the_outcome(case):
    runs = [run_case(case, planned) for planned in faults(case)]

    assert len(runs) > 3 * len(case.ends)


@pytest.mark.parametrize("case", STOPPED, ids=lambda item: item.name)
def test_a_failure_of_any_commit_does_not_change_the_outcome(case):
    runs = [run_case(case, planned) for planned in transaction_faults(case)]

    assert len(runs) > 2 * len(case.ends)


@pytest.mark.fault("LC05")
@pytest.mark.parametrize("case", STOPPED, ids=lambda item: item.name)
def test_an_unexpected_error_at_any_point_does_not_change_the_outcome(case):
    runs = [run_case(case, planned) for planned in bugs(case)]

    assert sum(run.counts["bugs reported"] for run in runs) > len(runs) / 3


@pytest.mark.fault("EN11")
@pytest.mark.parametrize("death_delays", [(), (0.0, 0.0), (0.0, 0.5, 7.0), (3.0,), (30.0,)], ids=str)
@pytest.mark.parametrize("looks", [False, True], ids=["event", "inspection"])
@pytest.mark.parametrize("case", SUCCEEDS_RETRIED_STOPPED, ids=lambda item: item.name)
def test_late_or_repeated_death_reports_do_not_change_the_outcome(case, looks, death_delays):
    run_case(case, PlannedFault(death_delays=death_delays, looks=looks))


@pytest.mark.fault("EN29")
@pytest.mark.parametrize("case", SUCCEEDS_RETRIED_STOPPED, ids=lambda item: item.name)
def test_a_slow_engine_does_not_delay_replies_to_users(case):
    runs = run_case(case, PlannedFault(delays=defaultdict(lambda: 5.0)))

    assert runs.answered_in < timedelta(seconds=0.5)


# ----------------------------------------------------------------------------------- kills (-9) of the catalogue


@pytest.mark.parametrize(
    ("case", "moment"),
    [
        pytest.param(cases.ONE, moments.before_a_submission_is_saved, marks=pytest.mark.fault("ST01")),
        pytest.param(cases.ONE, moments.before_its_answer_is_sent, marks=pytest.mark.fault("ST02")),
        pytest.param(cases.NO_ROOM, moments.before_a_placement_is_saved, marks=pytest.mark.fault("ST03")),
        pytest.param(cases.ONE, moments.after_the_placement_before_the_create, marks=pytest.mark.fault("ST04")),
        pytest.param(cases.PULLED, moments.during_a_pull, marks=pytest.mark.fault("ST05")),
        pytest.param(cases.ONE, moments.after_the_create_before_its_commit, marks=pytest.mark.fault("ST07", "EN30")),
        pytest.param(cases.ONE, moments.before_the_start, marks=pytest.mark.fault("ST08", "EN30")),
        pytest.param(cases.ONE, moments.after_the_start_before_its_commit, marks=pytest.mark.fault("ST10")),
        pytest.param(cases.END_AT_ONCE, moments.after_the_exit_before_an_inspection, marks=pytest.mark.fault("ST11")),
        pytest.param(cases.DEPENDENT, moments.before_an_end_is_saved, marks=pytest.mark.fault("ST12")),
        pytest.param(cases.AGAIN, moments.before_an_end_is_saved, marks=pytest.mark.fault("ST12")),
        pytest.param(cases.ONE, moments.before_the_container_is_removed, marks=pytest.mark.fault("ST13")),
        pytest.param(cases.STOPPED, moments.after_the_commit_of_a_stop_order, marks=pytest.mark.fault("SP01")),
        pytest.param(cases.STOPPED, moments.before_the_stop_signal, marks=pytest.mark.fault("SP02")),
        pytest.param(cases.KILLED, moments.after_the_stop_signal_before_its_commit, marks=pytest.mark.fault("SP03")),
        pytest.param(cases.KILLED, moments.after_sigkill_before_the_exit_is_seen, marks=pytest.mark.fault("SP05")),
    ],
    ids=lambda item: item.name if isinstance(item, cases.Case) else MOMENTS[item],
)
def test_a_crash_at_a_moment_of_the_catalogue_does_not_change_the_outcome(case, moment):
    runs = [run_case(case, planned) for planned in crashes_at(case, moment)]

    assert runs
    assert {run.counts["crashes"] for run in runs} == {1}


@pytest.mark.parametrize(
    ("call", "moment"),
    [
        pytest.param(0, moments.create_without_a_reply, marks=pytest.mark.fault("ST06")),
        pytest.param(1, moments.start_without_a_reply, marks=pytest.mark.fault("ST09")),
    ],
)
def test_a_crash_before_the_reply_starts_the_container_once(call, moment):
    no_reply = PlannedFault(fault_at=call, fault=LOST_REPLY)

    runs = [run_case(cases.ONE, planned) for planned in crashes_at(cases.ONE, moment, no_reply)]

    assert runs


@pytest.mark.fault("SP04")
def test_a_crash_in_the_grace_period_keeps_the_deadline():
    runs = [(crash, run_case(cases.KILLED, crash)) for crash in crashes_at(cases.KILLED, moments.in_the_grace_period)]

    assert runs
    for planned, run in runs:
        container = run.started("a")[0].container
        late = container.killed_at - container.stop_requested_at - timedelta(seconds=2)
        assert timedelta() <= late < timedelta(seconds=planned.downtime) + A_MOMENT


# ------------------------------------------------------------------------------------ stops at steps of the catalogue


@pytest.mark.fault("SP06")
def test_a_terminated_job_that_exits_before_the_signal_has_failed_with_its_exit_code():
    slow = PlannedFault(delays={"signal_stop": 5.0})

    runs = requests_at(cases.ONE, moments.the_job_is_running, slow)

    assert runs
    assert {run.ends()["a"] for run in runs} == {TERMINATED}
    assert {run.job("a").attempts[-1].exit_code for run in runs} == {0}
    assert {run.started("a")[0].container.stop_requested_at for run in runs} == {None}


@pytest.mark.fault("SP07")
def test_a_terminate_does_not_change_a_finished_job():
    runs = requests_at(cases.ONE, moments.the_job_has_succeeded)

    assert runs
    assert {run.ends()["a"] for run in runs} == {cases.SUCCEEDED}


@pytest.mark.fault("SP08")
def test_a_terminate_before_an_exit_is_seen_fails_the_job():
    runs = requests_at(cases.ONE, moments.the_container_has_exited_unseen, SLOW_LOOKS)

    assert runs
    assert {run.ends()["a"] for run in runs} == {TERMINATED}
    assert {run.job("a").attempts[-1].exit_code for run in runs} == {0}


@pytest.mark.fault("SP09")
def test_a_terminate_during_the_pull_prevents_the_container():
    slow = PlannedFault(delays={"pull": 5.0})

    runs = requests_at(cases.PULLED, moments.its_image_is_being_pulled, slow)

    assert runs
    assert {(run.job("a").status, run.job("a").status_reason) for run in runs} == {(Status.FAILED, TERMINATED.reason)}
    assert {len(run.containers["a"]) for run in runs} == {0}


@pytest.mark.fault("SP10")
def test_a_terminate_before_the_start_prevents_the_start():
    runs = requests_at(cases.REFUSED, moments.the_created_container_waits_for_its_start)

    assert runs
    assert {(run.job("a").status, run.job("a").status_reason) for run in runs} == {(Status.FAILED, TERMINATED.reason)}
    assert {len(run.started("a")) for run in runs} == {0}


@pytest.mark.fault("SP13")
def test_a_terminate_before_a_failure_is_seen_prevents_a_retry():
    runs = requests_at(cases.FAILING, moments.the_container_has_exited_unseen, SLOW_LOOKS)

    assert runs
    assert {run.ends()["a"] for run in runs} == {TERMINATED}
    assert {run.job("a").attempts[-1].exit_code for run in runs} == {1}


@pytest.mark.fault("SP26")
def test_a_terminate_near_the_timeout_sends_one_signal_for_the_first_reason():
    signals = []

    runs = requests_at(
        cases.TOO_LONG,
        moments.near_the_timeout,
        on_point=lambda run, at: (
            signals.append(run.world.run_log) if (at.when, at.what) == ("after", "signal_stop") else None
        ),
    )

    assert runs
    assert len(signals) == len(set(signals)) == len(runs)
    assert {other_run.job("a").status_reason for other_run in runs} == {TERMINATED.reason, status_reasons.TIMED_OUT}
    assert {len(other_run.job("a").attempts) for other_run in runs} == {1}


@pytest.mark.fault("SP15")
def test_a_cancel_during_the_placement_either_cancels_the_job_or_lets_it_run():
    runs = requests_at(cases.NO_ROOM, moments.the_last_job_waits_for_capacity, on_request=cancel_c)

    ends = {(run.job("c").status, len(run.job("c").attempts), len(run.started("c"))) for run in runs}
    assert ends == {(Status.FAILED, 0, 0), (Status.SUCCEEDED, 1, 1)}


@pytest.mark.parametrize(
    ("call", "what"),
    [
        pytest.param(0, "create", marks=pytest.mark.fault("EN07")),
        pytest.param(1, "start", marks=pytest.mark.fault("EN08")),
    ],
)
def test_a_late_call_starts_no_container_of_a_terminated_job(call, what):
    late = PlannedFault(fault_at=call, fault=LATE)

    runs = requests_at(cases.ONE, lambda _, at: (at.when, at.what) == ("unanswered", what), late)

    assert runs
    assert {run.job("a").status_reason for run in runs} == {TERMINATED.reason}
    assert {len(run.started("a")) for run in runs} == {0}


@pytest.mark.exhaustive
@pytest.mark.fault("SP23")
def test_three_hundred_jobs_terminated_at_once_are_killed_after_their_grace_period():
    runs = run_case(cases.MANY_JOBS, PlannedFault(grace=30.0))

    killed = [
        run.container.killed_at - run.container.stop_requested_at
        for name in cases.MANY_JOBS.ends
        for run in runs.started(name)
    ]
    assert len(killed) == 300
    assert timedelta(seconds=30) <= min(killed)
    assert max(killed) < timedelta(seconds=31)
    assert runs.answered_in < timedelta(seconds=0.5)
