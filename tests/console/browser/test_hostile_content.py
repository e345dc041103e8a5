"""Names, environments, reasons and log lines with markup and control characters are shown, and nothing else."""

import re

import pytest

from tests.console.browser.test_pages import ALL

#: Controls, and characters that change the direction of the text around them.
UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("name", ALL)
def test_a_page_shows_hostile_content_as_text(visitor, world, name):
    page = visitor.open(ALL[name].format_map(world.jobs))

    content = page.content()

    assert UNSHOWN.search(content) is None
    assert page.evaluate("() => window.executed") is None
    assert page.locator("#main :is(script, img)").count() == 0
