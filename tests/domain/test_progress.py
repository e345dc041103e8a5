"""The progress of the jobs of a group or an array."""

from batchq.domain.enums import Status
from batchq.domain.progress import progress_of
from batchq.domain.wording import rate_words


def test_the_counts_add_up_to_the_size_with_stopped_jobs():
    summary = {Status.SUCCEEDED: 1200, Status.FAILED: 15, Status.STARTING: 1, Status.RUNNING: 7}

    progress = progress_of("fit", 1300, summary, stopped=12)

    assert progress.counts == "1,200 succeeded, 3 failed, 12 stopped, 8 running, 77 waiting"
    assert progress.size == 1300


def test_the_run_times_so_far_tell_the_time_left_and_the_rate():
    progress = progress_of("fit", 200, {Status.SUCCEEDED: 115, Status.RUNNING: 8}, mean_run=24.0)

    assert progress.seconds_left() == 24 * (77 / 8 + 0.5)
    assert rate_words(progress.rate) == "20 a minute"


def test_without_a_run_time_there_is_neither_a_rate_nor_a_time_left():
    progress = progress_of("fit", 200, {Status.RUNNING: 8})

    assert (progress.rate, progress.seconds_left()) == (None, None)
