"""Plots, and the pictures of the last 24 hours that are drawn by them."""

import re
from datetime import timedelta
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as any_
from msgspec.structs import replace

from batchq.api.console.activity_pictures import FRESH_FOR, PictureCache, pictures
from batchq.api.console.plot import Plot, PlotColumn, PlotMark, Series, plot
from batchq.domain.access.accounts import Caller
from batchq.domain.activity import COARSE, FINE, Activity, ActivityBucket, ActivityLoad, Ends
from batchq.domain.container import Resources
from batchq.domain.enums import Role
from tests.console.world import HOSTILE
from tests.support.builders import NOON

SLOTS = 288
FIRST = NOON - (SLOTS - 1) * FINE


def drawn(*series, high=10.0, size=4, **more):
    texts = {"y_texts": (f"{high:g}", "0"), "x_texts": ("then", "now")}
    return plot(Plot(label="a picture", series=series, x=(0, size), y=(0, high), **texts | more))


def series(mark, *values, name="", **more):
    return Series(name=name, colour="RUNNING", mark=mark, points=list(enumerate(values)), **more)


def path(picture, mark):
    return re.findall(rf'<path class="{mark} [^"]*" d="([^"]*)"', picture)


def activity(buckets, at=NOON):
    return Activity(at=at, first=FIRST, width=FINE, buckets=tuple(buckets))


def bucket(slot, running=0, waiting=0, limit=None, **ends):
    return ActivityBucket(
        at=FIRST + slot * FINE,
        load=ActivityLoad(running=running, waiting=waiting, millicpus=running * 1000),
        capacity=None if limit is None else Resources(millicpus=limit, memory_mib=1),
        ends=Ends(**ends),
    )


# -------------------------------------------------------------------------------------------------------------- plots
def test_a_value_is_a_level_until_the_next_one():
    assert path(drawn(series(PlotMark.LINE, 10, 5, 5, 0)), "line") == ["M0 0V0H250V50H750V100H1000"]


def test_a_value_that_is_not_known_is_a_gap():
    assert path(drawn(series(PlotMark.LINE, 10, None, 10, None)), "line") == ["M0 0V0H250M500 0V0H750"]


def test_areas_are_stacked():
    lower, upper = path(drawn(series(PlotMark.AREA, 2, 4, 0), series(PlotMark.AREA, 2, 6, 0)), "area")

    assert lower.startswith("M0 80V80H250V60H500V100H750L")
    assert upper.startswith("M0 60V60H250V0H500V100H750L750 100V100H500V60H250V80H0Z")


def test_a_bar_of_no_height_is_not_drawn():
    assert path(drawn(series(PlotMark.BARS, 0, 10)), "bars") == ["M275 100V0H475V100Z"]


@given(
    any_.lists(any_.none() | any_.floats(0, 10), max_size=20),
    any_.sampled_from([PlotMark.AREA, PlotMark.LINE, PlotMark.BARS]),
)
def test_every_mark_stays_in_the_picture(values, mark):
    (text,) = path(drawn(series(mark, *values), size=20), mark.value)

    numbers = [float(number) for number in re.findall(r"[\d.]+", text)]
    assert all(0 <= number <= 1000 for number in numbers)
    assert (text == "") == all(value is None or (value == 0 and mark is PlotMark.BARS) for value in values)


def test_the_picture_has_its_values_as_text_beside_it():
    picture = drawn(series(PlotMark.AREA, 1, name="running: 3 now"))

    assert re.findall(r"<span>([^<]*)</span>", picture) == ["10", "0", "then", "now"]
    assert "running: 3 now</li>" in picture
    assert 'role="img" aria-label="a picture"' in picture
    assert "<text" not in picture


def test_all_texts_of_a_plot_are_escaped():
    dots = Series(name=HOSTILE, colour="RUNNING", mark=PlotMark.DOTS, points=[(0, 1)], titles=[HOSTILE])
    part = PlotColumn(first=0, end=1, text=HOSTILE)
    picture = drawn(dots, columns=[part], gaps=[part], y_texts=(HOSTILE, HOSTILE), x_texts=(HOSTILE,))

    assert "<script" not in picture
    assert "\u202e" not in picture


def test_a_picture_needs_neither_script_nor_style():
    picture = drawn(series(PlotMark.AREA, 1, name="running"), columns=[PlotColumn(first=0, end=1, text="a")])

    assert not re.search(r"<script|style=|\son\w+=", picture)


# ---------------------------------------------------------------------------------------------------- the last 24 hours
def test_a_downtime_of_the_server_is_marked():
    found = pictures(activity([bucket(0, running=1), bucket(100, running=1), bucket(SLOTS - 1)]))

    assert found.load.count('<g class="gap">') == 2
    assert "12:10 UTC: the server did not run" in found.load
    assert path(found.load, "area")[0].count("M") == 3


def test_an_idle_server_is_no_gap():
    found = pictures(activity([bucket(slot) for slot in range(SLOTS)]))

    assert "gap" not in found.load
    assert path(found.load, "area")[0] == "M0 100V100H1000L1000 100V100H0Z"


def test_the_legend_has_the_last_and_the_highest_value():
    found = pictures(activity([bucket(200, running=1204, limit=8000), bucket(SLOTS - 1, running=2.54, limit=9000)]))

    assert "running: 2.5 now, at most 1,204</li>" in found.load
    assert "limit: 9 now, at most 9</li>" in found.vcpus
    stopped = pictures(activity([bucket(200, running=3)]))
    assert "running: 3 at last, at most 3</li>" in stopped.load
    assert "limit: none recorded</li>" in stopped.vcpus


def test_ends_are_counted_by_outcome():
    found = pictures(activity([bucket(slot, succeeded=2, failed=1, stopped=3) for slot in range(12)]))

    assert re.findall(r"(\w+: \d+)</li>", found.ends) == ["succeeded: 24", "failed: 12", "terminated: 36"]
    assert found.failed == 12
    assert "succeeded 12, failed 6, cancelled or terminated 18" in found.ends


def test_failures_are_a_strip_in_which_more_failures_are_darker():
    buckets = [bucket(0, failed=1, succeeded=3), bucket(6, failed=8), bucket(12, stopped=5), bucket(18)]
    found = pictures(activity(buckets)).failures

    cells = re.findall(r'<title>([^<]*)</title><rect class="shape-([\w-]+)" x="(\d+)"', found)
    assert [(colour, x) for _, colour, x in cells[:5]] == [
        ("FAIL-1", "0"),
        ("FAIL-4", "10"),
        ("FINE", "20"),
        ("IDLE", "30"),
        ("DOWN", "40"),
    ]
    assert cells[0][0].endswith("UTC: 1 failed of 4 that ended")
    assert cells[2][0].endswith("UTC: 0 failed of 5 that ended")
    assert (len(cells), "at most 8 in half an hour" in found) == (48, True)


def test_what_was_used_is_a_line_beside_the_request_and_not_measured_is_not_zero():
    load = ActivityLoad(running=2, millicpus=4000, memory_mib=64, measured=1, used_millicpus=1000, used_mib=16)
    found = pictures(activity([replace(bucket(SLOTS - 1), load=load)]))
    unmeasured = pictures(activity([bucket(SLOTS - 1, running=4)]))

    assert path(found.vcpus, "line")[0] == "M996.5 75V75H1000"
    assert "used: 1 now, at most 1</li>" in found.vcpus
    assert "used: 16 MiB now, at most 16 MiB</li>" in found.memory
    assert "used: not measured</li>" in unmeasured.vcpus
    assert path(unmeasured.vcpus, "line")[0] == ""


def test_the_cost_an_hour_is_drawn_where_jobs_had_prices():
    load = ActivityLoad(running=2, hourly_cost=1.5e9)
    found = pictures(replace(activity([replace(bucket(SLOTS - 1), load=load)]), currency="EUR"))

    assert "running jobs: 1.50 EUR now, at most 1.50 EUR</li>" in found.cost
    assert pictures(activity([bucket(SLOTS - 1, running=4)])).cost is None


def test_waits_are_drawn_where_attempts_began():
    waits = (0, 0, 0, 0, 8, *[0] * 10)
    found = pictures(activity([bucket(SLOTS - 1, waits=waits)]))

    assert "half of the jobs: 20 s now" in found.waits
    assert len(path(found.waits, "line")) == 2


def test_a_new_server_has_pictures_without_values():
    """They have the size of all others, so that a page does not move when values appear."""
    found = pictures(activity([]))

    assert all("<figure" in picture for picture in (found.load, found.vcpus, found.ends, found.waits))
    assert "running: none recorded</li>" in found.load


def test_the_pictures_of_a_page_are_small():
    buckets = [bucket(at, running=at * 7919 % 101, waiting=at * 31 % 97, limit=at, succeeded=at) for at in range(SLOTS)]
    found = pictures(activity(buckets))

    assert sum(map(len, (found.load, found.vcpus, found.ends, found.waits))) < 40_000


def test_thirty_days_are_drawn_in_columns_of_half_a_day():
    first = NOON - timedelta(hours=719)
    buckets = [
        ActivityBucket(at=first + timedelta(hours=at), load=None, capacity=None, ends=Ends(failed=1))
        for at in range(720)
    ]

    found = pictures(Activity(at=NOON, first=first, width=COARSE, buckets=tuple(buckets)))

    assert found.failed == 720
    assert found.failures.count("12 failed of 12 that ended") == 60
    assert f"{first:%Y-%m-%d %H:%M} UTC: 12 failed" in found.failures
    assert "Ended jobs in the last 30 days" in found.ends


async def test_pages_switch_between_a_day_and_thirty_days(browser):
    drawn, empty = "jobs, last 30 days", "Nothing was recorded in the last 30 days."
    for path, shown in (("/ui/", drawn), ("/ui/queues/default", drawn), ("/ui/environments", empty)):
        assert "?hours=720" in (await browser.open(path)).page.links
        assert shown in (await browser.open(f"{path}?hours=720")).text
        await browser.open(f"{path}?hours=25", status=400)


async def test_a_page_shows_the_pictures_of_its_queue(browser):
    overview, queue = await browser.open("/ui/"), await browser.open("/ui/queues/default")

    assert "Running and waiting jobs, last 24 hours" in overview.text
    assert "running: none recorded" in queue.text


async def test_recent_pictures_are_drawn_once_for_callers_who_see_the_same():
    times, requested = [NOON], []
    clock = SimpleNamespace(now=lambda: times[-1])

    async def read(queue, *, hours, caller):
        requested.append((caller.user, queue, hours))
        return activity([bucket(0, running=len(requested))])

    parts = SimpleNamespace(
        catalog=SimpleNamespace(queues_of=lambda caller: caller.queues or {"a", "b"}),
        overviews=SimpleNamespace(activity=SimpleNamespace(activity=read)),
    )
    cache, ada, eve = PictureCache(clock), Caller(user="ada", role=Role.USER), Caller(user="eve", role=Role.USER)
    barred = replace(ada, queues=frozenset({"b"}))

    first = await cache.of(parts, "a", caller=ada)
    assert await cache.of(parts, "a", caller=ada) is first
    for caller, queue in ((eve, "a"), (ada, "b"), (ada, None), (barred, None)):
        assert await cache.of(parts, queue, caller=caller) is not first
    assert await cache.of(parts, "a", hours=720, caller=ada) is not first
    places = [("ada", "a"), ("eve", "a"), ("ada", "b"), ("ada", None), ("ada", None)]
    assert requested == [*((*place, 24) for place in places), ("ada", "a", 720)]
    times.append(NOON + FRESH_FOR)
    assert await cache.of(parts, "a", caller=ada) is not first
