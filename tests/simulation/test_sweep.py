"""Small plays, and one thing that goes wrong: at every point there is, and at those that the catalogue names."""

from collections import defaultdict
from datetime import timedelta

import pytest

from batchq.domain import status_reasons
from batchq.domain.job import Status
from tests.simulation import moments, plots
from tests.simulation.fate import LATE, LOST_REPLY, Mishap
from tests.simulation.plots import PLOTS, TERMINATED
from tests.simulation.sweep import asked_at, bugs, cancel_c, crashes, crashes_at, faults, play, spoils

LOOKED_AT = Mishap(looks=True)
SLOW_LOOKS = Mishap(delays={"inspect": 1.0})
A_MOMENT = timedelta(seconds=0.6)  # beyond the time that no server was there


def exhaustive_but(*quick):
    """All plots; `make check` sweeps only these."""
    return [it if it in quick else pytest.param(it, marks=pytest.mark.exhaustive) for it in PLOTS]


SUCCEEDS = exhaustive_but(plots.ONE)
SUCCEEDS_RETRIED_STOPPED = exhaustive_but(plots.ONE, plots.AGAIN, plots.POLITE_ONE)

# ----------------------------------------------------------------------------------------------------------- everywhere


@pytest.mark.parametrize("plot", SUCCEEDS, ids=lambda it: it.name)
def test_wherever_the_server_dies_the_end_is_the_same(plot):
    played = [play(plot, mishap) for mishap in crashes(plot)]

    assert len(played) > 2 * len(plot.ends) * 30


@pytest.mark.exhaustive
@pytest.mark.parametrize("plot", [plots.ONE, plots.FAILING], ids=lambda it: it.name)
def test_wherever_it_dies_the_end_is_the_same_where_ends_are_told_with_what_was_found(plot):
    played = [play(plot, mishap) for mishap in crashes(plot, LOOKED_AT)]

    assert len(played) > 2 * len(plot.ends) * 30


@pytest.mark.fault("EN24")
@pytest.mark.parametrize("plot", SUCCEEDS_RETRIED_STOPPED, ids=lambda it: it.name)
def test_whichever_call_is_not_answered_the_end_is_the_same(plot):
    played = [play(plot, mishap) for mishap in faults(plot)]

    assert len(played) > 3 * len(plot.ends)


@pytest.mark.parametrize("plot", SUCCEEDS_RETRIED_STOPPED, ids=lambda it: it.name)
def test_whichever_commit_fails_the_end_is_the_same(plot):
    played = [play(plot, mishap) for mishap in spoils(plot)]

    assert len(played) > 2 * len(plot.ends)


@pytest.mark.fault("LC05")
@pytest.mark.parametrize("plot", SUCCEEDS_RETRIED_STOPPED, ids=lambda it: it.name)
def test_wherever_something_unforeseen_is_raised_the_end_is_the_same(plot):
    played = [play(plot, mishap) for mishap in bugs(plot)]

    assert sum(it.world.story.counts["bugs told"] for it in played) > len(played) / 3


@pytest.mark.fault("EN11")
@pytest.mark.parametrize("tells", [(), (0.0, 0.0), (0.0, 0.5, 7.0), (3.0,), (30.0,)], ids=str)
@pytest.mark.parametrize("looks", [False, True], ids=["told", "looked at"])
@pytest.mark.parametrize("plot", SUCCEEDS_RETRIED_STOPPED, ids=lambda it: it.name)
def test_however_deaths_are_told_the_end_is_the_same(plot, looks, tells):
    play(plot, Mishap(tells=tells, looks=looks))


@pytest.mark.fault("EN29")
@pytest.mark.parametrize("plot", SUCCEEDS_RETRIED_STOPPED, ids=lambda it: it.name)
def test_on_a_slow_engine_all_takes_longer_but_answers_to_users(plot):
    played = play(plot, Mishap(delays=defaultdict(lambda: 5.0)))

    assert played.answered_in < timedelta(seconds=0.5)


# -------------------------------------------------------------------------- where the catalogue says: it is killed (-9)


@pytest.mark.parametrize(
    ("plot", "moment"),
    [
        pytest.param(plots.ONE, moments.before_a_submission_is_saved, marks=pytest.mark.fault("ST01")),
        pytest.param(plots.ONE, moments.before_its_answer_is_sent, marks=pytest.mark.fault("ST02")),
        pytest.param(plots.NO_ROOM, moments.before_a_placing_is_saved, marks=pytest.mark.fault("ST03")),
        pytest.param(plots.ONE, moments.placed_and_nothing_made, marks=pytest.mark.fault("ST04")),
        pytest.param(plots.PULLED, moments.during_a_pull, marks=pytest.mark.fault("ST05")),
        pytest.param(plots.ONE, moments.created_and_not_noted, marks=pytest.mark.fault("ST07", "EN30")),
        pytest.param(plots.ONE, moments.before_the_start, marks=pytest.mark.fault("ST08", "EN30")),
        pytest.param(plots.ONE, moments.started_and_not_noted, marks=pytest.mark.fault("ST10")),
        pytest.param(plots.AT_ONCE, moments.over_and_not_seen, marks=pytest.mark.fault("ST11")),
        pytest.param(plots.DEPENDENT, moments.before_an_end_is_saved, marks=pytest.mark.fault("ST12")),
        pytest.param(plots.AGAIN, moments.before_an_end_is_saved, marks=pytest.mark.fault("ST12")),
        pytest.param(plots.ONE, moments.before_it_is_cleared_away, marks=pytest.mark.fault("ST13")),
        pytest.param(plots.POLITE_ONE, moments.an_order_is_saved_and_not_answered, marks=pytest.mark.fault("SP01")),
        pytest.param(plots.POLITE_ONE, moments.ordered_and_not_asked, marks=pytest.mark.fault("SP02")),
        pytest.param(plots.DEAF_ONE, moments.asked_and_not_noted, marks=pytest.mark.fault("SP03")),
        pytest.param(plots.DEAF_ONE, moments.killed_and_not_seen, marks=pytest.mark.fault("SP05")),
    ],
    ids=lambda it: it.name if isinstance(it, plots.Plot) else it.__name__,
)
def test_killed_there_it_ends_as_if_nothing_had_happened(plot, moment):
    played = [play(plot, mishap) for mishap in crashes_at(plot, moment)]

    assert played
    assert {it.world.story.counts["crashes"] for it in played} == {1}


@pytest.mark.parametrize(
    ("call", "moment"),
    [
        pytest.param(0, moments.a_create_is_not_answered, marks=pytest.mark.fault("ST06")),
        pytest.param(1, moments.a_start_is_not_answered, marks=pytest.mark.fault("ST09")),
    ],
)
def test_killed_before_the_answer_it_is_started_once(call, moment):
    unheard = Mishap(fault_at=call, fault=LOST_REPLY)

    played = [play(plots.ONE, mishap) for mishap in crashes_at(plots.ONE, moment, unheard)]

    assert played


@pytest.mark.fault("SP04")
def test_killed_in_the_grace_the_deadline_stands():
    played = [(it, play(plots.DEAF_ONE, it)) for it in crashes_at(plots.DEAF_ONE, moments.in_the_grace)]

    assert played
    for mishap, it in played:
        container = it.started("a")[0].it
        late = container.killed_at - container.stop_requested_at - timedelta(seconds=2)
        assert timedelta() <= late < timedelta(seconds=mishap.downtime) + A_MOMENT


# ---------------------------------------------------------------------------------- where it says: somebody asks a stop


@pytest.mark.fault("SP06")
def test_one_that_ends_well_before_it_is_asked_has_failed_and_shows_its_code():
    slow = Mishap(delays={"signal_stop": 5.0})

    played = asked_at(plots.ONE, moments.it_runs, slow)

    assert played
    assert {it.ends()["a"] for it in played} == {TERMINATED}
    assert {it.job("a").attempts[-1].exit_code for it in played} == {0}
    assert {it.started("a")[0].it.stop_requested_at for it in played} == {None}


@pytest.mark.fault("SP07")
def test_one_that_is_over_stays_what_it_is():
    played = asked_at(plots.ONE, moments.it_is_over)

    assert played
    assert {it.ends()["a"] for it in played} == {plots.SUCCEEDED}


@pytest.mark.fault("SP08")
def test_one_that_has_ended_and_was_not_seen_has_failed():
    played = asked_at(plots.ONE, moments.it_has_ended_unseen, SLOW_LOOKS)

    assert played
    assert {it.ends()["a"] for it in played} == {TERMINATED}
    assert {it.job("a").attempts[-1].exit_code for it in played} == {0}


@pytest.mark.fault("SP09")
def test_one_that_is_not_made_yet_is_never_made():
    slow = Mishap(delays={"pull": 5.0})

    played = asked_at(plots.PULLED, moments.its_image_is_pulled, slow)

    assert played
    assert {(it.job("a").status, it.job("a").status_reason) for it in played} == {(Status.FAILED, TERMINATED.reason)}
    assert {len(it.world.witness.truth.of_job(it.ids["a"])) for it in played} == {0}


@pytest.mark.fault("SP10")
def test_one_that_is_made_and_not_started_never_is():
    played = asked_at(plots.REFUSED, moments.it_is_made_and_waits_to_start)

    assert played
    assert {(it.job("a").status, it.job("a").status_reason) for it in played} == {(Status.FAILED, TERMINATED.reason)}
    assert {len(it.started("a")) for it in played} == {0}


@pytest.mark.fault("SP13")
def test_one_that_fails_in_that_moment_has_no_further_attempt():
    played = asked_at(plots.FAILING, moments.it_has_ended_unseen, SLOW_LOOKS)

    assert played
    assert {it.ends()["a"] for it in played} == {TERMINATED}
    assert {it.job("a").attempts[-1].exit_code for it in played} == {1}


@pytest.mark.fault("SP26")
def test_one_whose_time_is_up_is_stopped_once_for_the_first_reason():
    signals = []

    played = asked_at(
        plots.TOO_LONG,
        moments.its_time_is_up,
        sees=lambda it, at: signals.append(it) if (at.when, at.what) == ("after", "signal_stop") else None,
    )

    assert played
    assert len(signals) == len(set(signals)) == len(played)
    assert {it.job("a").status_reason for it in played} == {TERMINATED.reason, status_reasons.TIMED_OUT}
    assert {len(it.job("a").attempts) for it in played} == {1}


@pytest.mark.fault("SP15")
def test_one_that_is_cancelled_as_it_is_placed_is_either_cancelled_or_runs():
    played = asked_at(plots.NO_ROOM, moments.the_last_waits_for_room, asks=cancel_c)

    ends = {(it.job("c").status, len(it.job("c").attempts), len(it.started("c"))) for it in played}
    assert ends == {(Status.FAILED, 0, 0), (Status.SUCCEEDED, 1, 1)}


@pytest.mark.parametrize(
    ("call", "what"),
    [
        pytest.param(0, "create", marks=pytest.mark.fault("EN07")),
        pytest.param(1, "start", marks=pytest.mark.fault("EN08")),
    ],
)
def test_a_call_that_is_carried_out_after_the_job_was_stopped_starts_nothing(call, what):
    late = Mishap(fault_at=call, fault=LATE)

    played = asked_at(plots.ONE, lambda _, at: (at.when, at.what) == ("unanswered", what), late)

    assert played
    assert {it.job("a").status_reason for it in played} == {TERMINATED.reason}
    assert {len(it.started("a")) for it in played} == {0}


@pytest.mark.fault("SP23")
def test_three_hundred_that_are_terminated_at_once_are_all_killed_when_their_grace_is_over():
    played = play(plots.CROWD, Mishap(grace=30.0))

    killed = [it.it.killed_at - it.it.stop_requested_at for name in plots.CROWD.ends for it in played.started(name)]
    assert len(killed) == 300
    assert timedelta(seconds=30) <= min(killed)
    assert max(killed) < timedelta(seconds=31)
    assert played.answered_in < timedelta(seconds=0.5)
