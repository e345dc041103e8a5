"""Lines of output as HTML."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchq.api.console.log_colours import MAX_CHANGES, MAX_CHARACTERS, MAX_PAGE_CHANGES, ColourBudget, plain
from batchq.system.escapes import ESCAPES_IN_LINES

CONTROLS = {chr(line) for line in ESCAPES_IN_LINES}
PIECES = ["\x1b[", "\x1b]", "m", "31", "38;5;", "38;2;", ";", "<b>", "&", '"', "\r", "\x9b", "\u202e", "K", "\x07", "é"]


def coloured(text):
    return ColourBudget().coloured(text)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m plain", '<span class="sgr-31">red</span> plain'),
        ("\x1b[1;92mgreen\x1b[22m\x1b[39mplain", '<span class="sgr-1 sgr-32">green</span>plain'),
        ("\x1b[mx", "x"),
        ("\x1b[41mx\x1b[49my", '<span class="sgr-7">x</span>y'),
        ("\x1b[7mx\x1b[27my", '<span class="sgr-7">x</span>y'),
        ("\x1b[2;3;4mx", '<span class="sgr-2 sgr-3 sgr-4">x</span>'),
        ("\x1b[38;5;9mx", '<span class="sgr-31">x</span>'),
        ("\x1b[38;5;46mx", '<span class="sgr-32">x</span>'),
        ("\x1b[38;5;255mx", '<span class="sgr-37">x</span>'),
        ("\x1b[38;2;20;20;250mx", '<span class="sgr-34">x</span>'),
        ("\x1b[38:5:3mx", '<span class="sgr-33">x</span>'),
        ("\x1b[38mx", "x"),
        ("\x1b[48;5;3;31mx", '<span class="sgr-7 sgr-31">x</span>'),
        ("\x1b[999mx", "x"),
    ],
)
def test_colours_become_classes(text, html):
    assert coloured(text) == html


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<b>&\"'", "&lt;b&gt;&amp;&#34;&#39;"),
        ("10%\r50%\r100%\r", "100%"),
        ("\x1b[2K\x1b[1Gdone\x1b[?25h", "done"),
        ("\x1b]8;;http://x\x07link", "\\x1b]8;;http://x\\x07link"),
        ("a\u202eb\x00c\x9b31m", "a\\u202eb\\x00c\\x9b31m"),
        ("a\tb", "a\tb"),
        ("\x1b[31<i>m", "\\x1b[31&lt;i&gt;m"),
    ],
)
def test_other_control_characters_are_removed_or_shown_escaped(text, shown):
    assert coloured(text) == shown


def test_the_rest_of_a_line_with_too_many_changes_keeps_one_colour():
    html = coloured("\x1b[31mr\x1b[32mg" * MAX_CHANGES)
    assert html.count("<span") == MAX_CHANGES
    assert html.endswith(f'<span class="sgr-32">{"gr" * (MAX_CHANGES // 2)}g</span>')


def test_a_page_has_a_budget_of_changes():
    colours = ColourBudget()
    pages = [colours.coloured("\x1b[31mr" * MAX_CHANGES) for _ in range(MAX_PAGE_CHANGES // MAX_CHANGES + 1)]
    assert [page.count("<span") for page in pages] == [*[MAX_CHANGES] * (len(pages) - 1), 0]
    assert pages[-1] == "r" * MAX_CHANGES


def test_a_long_line_is_cut():
    assert coloured("'" * MAX_CHARACTERS) == "&#39;" * MAX_CHARACTERS
    assert coloured("'" * 2 * MAX_CHARACTERS) == "&#39;" * MAX_CHARACTERS + "…"
    assert plain("\x1b[m" * 10**6 + "x") == "…"


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=3)).map("".join))
def test_no_text_makes_markup_or_control_characters(text):
    html = coloured(text)
    rest = html.replace("</span>", "")
    assert rest.count("<") == rest.count('<span class="sgr-')
    assert not set(html) & CONTROLS
    assert not set(plain(text)) & CONTROLS
