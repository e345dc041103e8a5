"""Parts of rows of lists: what they print, and that texts of users are escaped."""

from datetime import timedelta

from batchq.api.console import page_parts
from batchq.api.console.log_page import ShownLine
from batchq.domain.enums import Status
from batchq.domain.ids import JobId
from batchq.services.job_views import JobView
from tests.support.builders import NOON, job

ID = "8f2c51a7-0000-4000-8000-000000000000"


def test_times_are_those_of_utc_without_fractions():
    late = NOON + timedelta(seconds=90.5)
    assert page_parts.moment(late) == '<time datetime="2026-11-21T12:01:30Z">2026-11-21 12:01:30 UTC</time>'
    assert "data-relative" in page_parts.time_ago(NOON, late)
    assert ">90 s ago<" in page_parts.time_ago(NOON, late)


def test_names_and_ids_are_escaped():
    hostile = job(name="<b>\x1b", number=1)
    view = JobView(job=hostile, rerun=JobId('"><b>'))
    parts = [
        page_parts.job_link(hostile),
        page_parts.choose_box(hostile, None),
        page_parts.queue_link("<b>\x1b", ["<b>\x1b"]),
        page_parts.queue_link("<b>\x1b", []),
        page_parts.copy_button('"><b>'),
        page_parts.why_label(view),
        page_parts.rerun_sentence(view),
    ]
    assert [part for part in parts if "<b>" in part or "\x1b" in part] == []


def test_a_line_of_a_log_is_folded_with_its_summary():
    line = ShownLine(
        position=7, time="+0:00:01.000", iso="", html=page_parts.shown_text("<b>"), summary="<b>", size=5000
    )
    assert line.item(page_parts.shown_text("/log?a&b"), None) == (
        '<li id="L7"><a class="line" href="/log?a&amp;b&amp;at=7#L7">#</a><span class="note">+0:00:01.000</span>'
        "<details><summary>&lt;b&gt;… (5,000 characters)</summary><code>&lt;b&gt;</code></details></li>"
    )


def test_a_status_has_a_sign():
    assert ">✓</span> SUCCEEDED<" in page_parts.status_mark(Status.SUCCEEDED)
    assert page_parts.job_mark(job(status=Status.SUCCEEDED)) == page_parts.status_mark(Status.SUCCEEDED)
