"""The last jobs of a definition, and what a running attempt uses, as pictures."""

import re
from datetime import timedelta

from batchq.api.console.run_pictures import memory_share, runs_picture
from batchq.api.console.use_pictures import use_pictures
from batchq.domain.enums import Status
from batchq.domain.use import MIB, Use, definition_use
from batchq.domain.use_points import UsePoint
from tests.support import builders
from tests.support.builders import NOON


def ended(status, seconds, exit_code, **more):
    times = {"started_at": NOON, "stopped_at": NOON + timedelta(seconds=seconds)}
    run = builders.attempt(exit_code=exit_code, **times)
    return builders.job(status=status, attempts=(run,), **times, **more)


def dots(picture):
    return re.findall(r'<path class="dots shape-(\w+)" d="M([\d.]+) ([\d.]+)h0"', picture)


def test_each_run_is_a_dot_that_leads_to_its_job():
    good, bad = ended(Status.SUCCEEDED, 100, 0, name="good"), ended(Status.FAILED, 50, 3, name="bad")
    stopped = ended(Status.FAILED, 10, 143, stop_orders=(builders.stop(user="alice"),))

    found = runs_picture([stopped, bad, good])

    assert dots(found.picture) == [
        ("SUCCEEDED", "166.7", "9.1"),
        ("FAILED", "500", "54.5"),
        ("STOPPED", "833.3", "90.9"),
    ]
    assert (
        f'<a href="/ui/jobs/{bad.id}" tabindex="-1"><g><title>bad: failed by themselves, exit code 3, 50 s'
        in found.picture
    )
    assert (found.rate, found.failed, found.undisturbed) == ("50 %", 1, 2)
    assert (found.median, found.p95) == ("50 s", "100 s")


def test_jobs_that_did_not_run_have_no_dot_and_count():
    never = builders.job(status=Status.FAILED)
    found = runs_picture([never])
    assert (found.picture, found.rate, found.jobs) == (None, "100 %", 1)
    assert runs_picture([]) is None


def test_memory_that_was_not_measured_is_not_zero():
    assert memory_share(definition_use([Use(sampled_at=NOON)], 1024)) is None
    uses = [Use(sampled_at=NOON, working_set=size * MIB) for size in range(1, 101)]
    assert memory_share(definition_use(uses, 1024)).words == ("96 MiB", "1 GiB")


def test_the_use_of_an_attempt_is_drawn_beside_its_request():
    job = builders.job(status=Status.RUNNING, millicpus=2000, memory_mib=100)
    points = [UsePoint(NOON + timedelta(seconds=at), 1.0 * at, 50.0 * MIB) for at in range(0, 61, 10)]

    found = use_pictures(job, points)

    assert "used: 1 now, at most 1</li>" in found.cpu
    assert "requested: 2</li>" in found.cpu
    area, limit = (re.search(rf'<path class="{kind} [^"]*" d="([^"]*)"', found.cpu)[1] for kind in ("area", "line"))
    assert area.startswith("M0 54.5V54.5H1000L")  # 1 of an axis of 2.2
    assert limit == "M0 9.1V9.1H1000"
    assert "used: 50 MiB now, at most 50 MiB" in found.memory


def test_an_attempt_without_samples_has_no_picture_and_a_figure_that_was_not_measured_no_line():
    job = builders.job(status=Status.RUNNING)
    points = [UsePoint(NOON + timedelta(seconds=at), None, 1.0) for at in (0, 10)]
    assert use_pictures(job, points[:1]) is None
    assert "used: not measured" in use_pictures(job, points).cpu
