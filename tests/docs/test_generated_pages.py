"""The parts of README and docs that a program writes are current: tables, pictures, recordings and transcripts."""

import re
from xml.etree import ElementTree as ET

import pytest

from batchq.api.metrics.routes import Metrics
from tests.demo import stopping
from tests.docs import commands, explanations, man_pages, monitoring, recording, settings_table
from tests.house import room_graph
from tests.support.builders import NOON

MAX_PICTURE = 120_000  # bytes


def test_the_picture_of_the_rooms_is_current():
    text = room_graph.PAGE.read_text()

    assert text == room_graph.current(text), "run: python -m tests.house.room_graph"


def test_the_page_describes_every_room():
    text = room_graph.PAGE.read_text()
    rooms = {room for arrow in room_graph.edges() for room in arrow}

    assert [room for room in sorted(rooms) if f"`{room}`" not in text] == []


def test_the_page_of_all_commands_is_current():
    assert commands.PAGE.read_text() == commands.page(), "run: python -m tests.docs.commands"


def test_the_man_pages_and_the_completions_are_current():
    assert man_pages.kept() == man_pages.files(), "run: python -m tests.docs.man_pages"


def test_a_man_page_has_neither_requests_nor_escapes_from_the_texts_of_flags():
    assert man_pages.escaped(r".B \fI--x") == r"\&.B \efI\-\-x"


def test_the_table_of_explanations_is_current():
    page = explanations.PAGE.read_text()

    assert page == explanations.with_table(page)


def test_the_table_of_settings_is_current():
    page = settings_table.PAGE.read_text()

    assert page == settings_table.with_table(page), "run: python -m tests.docs.settings_table"


def test_the_recording_shows_the_commands_of_the_page():
    image = ET.parse(recording.PICTURE)

    shown = [line.text for line in image.iter("{http://www.w3.org/2000/svg}text") if line.get("class") == "command"]

    assert shown == [f"$ {command}" for command in recording.commands_of_the_page()]


def test_the_first_screen_of_readme_shows_the_recording():
    beginning = (recording.ROOT / "README.md").read_text().partition("\n## ")[0]

    assert re.search(r"!\[[^]]+\]\(docs/recording\.svg\)", beginning)


def test_readme_shows_a_small_picture_of_the_console():
    picture = recording.ROOT / "docs" / "console.png"

    assert re.search(r"!\[[^]]+\]\(docs/console\.png\)", (recording.ROOT / "README.md").read_text())
    assert picture.stat().st_size <= MAX_PICTURE


@pytest.mark.exhaustive
def test_the_transcript_of_bulk_stops_is_current(tmp_path):
    (shown,) = stopping.BLOCK.findall(stopping.PAGE.read_text())

    seen = stopping.block(stopping.transcript(tmp_path / "data", "--runtime", stopping.SIMULATED))

    assert stopping.anonymous(shown) == stopping.anonymous(seen), "run: python -m tests.demo.stopping"


def exported():
    """The names of all metrics of a server, as they are written in expressions."""
    families = [item for item in Metrics(now=lambda: NOON).registry.collect() if item.name.startswith("batchq_")]
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in families}


def test_the_dashboard_and_the_alerts_are_those_of_the_script():
    assert monitoring.DASHBOARD.read_text() == monitoring.dashboard()
    assert monitoring.ALERTS.read_text() == monitoring.alerts()


def test_the_dashboard_shows_every_metric_and_no_other():
    assert monitoring.metrics_in(monitoring.dashboard()) == exported()


def test_the_alerts_name_metrics_that_exist():
    assert monitoring.metrics_in(monitoring.alerts()) <= exported()


def test_the_page_describes_every_metric_and_no_other():
    assert set(re.findall(r"`(batchq_\w+)`", (monitoring.DOCS / "monitoring.md").read_text())) == exported()
