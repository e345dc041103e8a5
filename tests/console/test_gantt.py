"""Timelines: the times of jobs, and where a picture has them."""

import re
from datetime import timedelta

from batchq.api.console.gantt import Gantt, GanttRow, SpanKind, TimeSpan, gantt
from batchq.api.console.job_timeline import attempts_picture, last_dependency, path_picture, running_picture
from batchq.api.console.runs_of_rows import active_rows
from batchq.domain.enums import Status
from batchq.ports.history import HistoryEntry
from tests.console.world import HOSTILE
from tests.support import builders
from tests.support.builders import NOON


def at(seconds):
    return None if seconds is None else NOON + timedelta(seconds=seconds)


def run(number, placed, started, stopped, **more):
    times = {"placed_at": at(placed), "started_at": at(started), "stopped_at": at(stopped)}
    return builders.attempt(number=number, **times, **more)


def ended(status, *runs, stopped, **more):
    return builders.job(status=status, attempts=runs, stopped_at=at(stopped), **more)


def runnable(seconds):
    return [HistoryEntry(job_id="a-job", at=at(seconds), status=Status.RUNNABLE, reason=None, attempt=None)]


def bars(picture):
    """The colour, beginning and width of each bar, in percent of the axis."""
    found = re.findall(r'<g class="shape-(\w+)"><title>[^<]*</title><rect x="([\d.]+)%" width="([\d.]+)%"', picture)
    return [(colour, float(left), float(width)) for colour, left, width in found]


def results(picture):
    return re.findall(r'<div class="result">([^<]*)</div>', picture)


def test_an_attempt_is_its_wait_its_start_and_its_run():
    job = ended(Status.SUCCEEDED, run(1, 10, 20, 100, exit_code=0), stopped=100)

    picture = attempts_picture(job, runnable(0), at(500))

    assert bars(picture) == [("RUNNABLE", 0, 10), ("STARTING", 10, 10), ("SUCCEEDED", 20, 80)]
    assert "succeeded 80 s, from 12:00:20 UTC to 12:01:40 UTC" in picture
    assert 'aria-label="Attempt 1: waiting 10 s, starting 10 s, succeeded 80 s"' in picture
    assert results(picture) == ["exit code 0, 80 s"]


def test_each_attempt_has_a_row_with_the_wait_after_the_attempt_before():
    failed = run(1, 0, 0, 20, exit_code=3)
    job = builders.job(status=Status.RUNNING, attempts=(failed,), attempt=run(2, 40, 50, None))

    picture = attempts_picture(job, runnable(0), at(100))

    assert bars(picture) == [("FAILED", 0, 20), ("RUNNABLE", 20, 20), ("STARTING", 40, 10), ("RUNNING", 50, 50)]
    assert results(picture) == ["exit code 3, 20 s", "running, 50 s"]


def test_a_wait_for_other_jobs_is_not_a_wait_for_capacity():
    job = ended(Status.SUCCEEDED, run(1, 50, 50, 100), stopped=100)

    picture = attempts_picture(job, runnable(30), at(100))

    assert bars(picture) == [("DEPENDENCIES", 0, 30), ("RUNNABLE", 30, 20), ("SUCCEEDED", 50, 50)]


def test_a_job_that_waits_for_another_one_has_waited_until_now():
    job = builders.job(status=Status.PENDING, depends_on=(builders.job_id(7),))

    picture = attempts_picture(job, [], at(60))

    assert bars(picture) == [("DEPENDENCIES", 0, 100)]
    assert results(picture) == ["waits"]


def test_a_run_that_a_user_ended_is_not_a_failure():
    orders = (builders.stop(user="alice"),)
    terminated = ended(Status.FAILED, run(1, 0, 0, 10), stopped=10, stop_orders=orders)
    paused = builders.job(status=Status.RUNNABLE, attempts=(run(1, 0, 0, 10, paused=True),))

    assert bars(attempts_picture(terminated, [], at(10))) == [("STOPPED", 0, 100)]
    assert bars(attempts_picture(paused, [], at(20))) == [("STOPPED", 0, 50), ("RUNNABLE", 50, 50)]


def test_clocks_of_machines_that_differ_make_no_overlap():
    job = ended(Status.SUCCEEDED, run(1, 10, 5, 8), stopped=10)

    assert bars(attempts_picture(job, [], at(10))) == [("RUNNABLE", 0, 100), ("SUCCEEDED", 99.6, 0.4)]


def test_the_dependency_that_ended_last_decided_the_start():
    early, late = (ended(Status.SUCCEEDED, run(1, 0, 0, end), stopped=end) for end in (20, 60))
    after_the_start = ended(Status.SUCCEEDED, run(1, 0, 0, 90), stopped=90)
    job = builders.job(status=Status.RUNNING, attempt=run(1, 61, 62, None))
    waiting = builders.job(status=Status.PENDING)
    unfinished = builders.job(status=Status.RUNNING, attempt=run(1, 0, 0, None))

    assert last_dependency(job, [late, after_the_start, early], at(100)) is late
    assert last_dependency(waiting, [late, unfinished], at(100)) is unfinished
    assert last_dependency(job, [], at(100)) is None


def test_a_critical_path_has_each_job_from_the_end_of_the_one_before():
    first = ended(Status.SUCCEEDED, run(1, 0, 0, 50), stopped=50, name="first")
    second = ended(Status.SUCCEEDED, run(1, 60, 60, 80), stopped=80, name="second")
    job = builders.job(status=Status.RUNNING, attempt=run(1, 80, 80, None), name="last")

    found = path_picture([first, second, job], at(100))

    expected = [("SUCCEEDED", 0, 50), ("RUNNABLE", 50, 10), ("SUCCEEDED", 60, 20), ("RUNNING", 80, 20)]
    assert bars(found.picture) == expected
    assert found.sentence == "The longest part is that of first: 50 s of 100 s."
    assert f'<a href="/ui/jobs/{first.id}">first</a>' in found.picture


def test_running_jobs_are_drawn_from_their_start_and_at_most_a_day():
    old = builders.job(status=Status.RUNNING, attempt=run(1, -200_000, -200_000, None))
    new = builders.job(status=Status.STARTING, attempt=run(1, -43_200, None, None))

    picture = running_picture(active_rows([old, new]), NOON)

    assert bars(picture) == [("RUNNING", 0, 100), ("STARTING", 50, 50)]
    assert re.findall(r"<span>([^<]*)</span>", picture)[-5:] == ["1 d ago", "18 h ago", "12 h ago", "6 h ago", "now"]
    assert running_picture([], NOON) is None


def test_texts_of_a_timeline_are_escaped_and_short_times_are_visible():
    spans = [
        TimeSpan(kind=SpanKind.STARTING, start=NOON, end=NOON),
        TimeSpan(kind=SpanKind.RUNNING, start=NOON, end=at(1e6)),
    ]
    row = GanttRow(name=HOSTILE, path="/ui/jobs/x", detail=HOSTILE, spans=spans, result=HOSTILE)

    picture = gantt(Gantt(label=HOSTILE, rows=[row], start=NOON, end=at(1e6)))

    assert bars(picture)[0] == ("STARTING", 0, 0.4)
    assert "<script" not in picture
    assert not re.search(r'="[^"]*"[a-z]', picture)
    assert "\u202e" not in picture
