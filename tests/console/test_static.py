"""The script, the style sheet and the templates: their sizes, their caching, and that nothing is inline."""

import re
from pathlib import Path

import pytest

from batchq.api.console.templates import STATIC, static_path

TEMPLATES = sorted((STATIC.parent / "templates").iterdir())
MAX_BYTES, MAX_LINES = 15 * 1024, 400
INLINE = {
    "the filter safe": re.compile(r"\|\s*safe\b"),
    "a style": re.compile(r"\sstyle\s*=|<style"),
    "a handler": re.compile(r"\son[a-z]+\s*="),
    "an inline script": re.compile(r"<script(?![^>]*\ssrc=)"),
    "a script URL": re.compile(r"javascript:", re.IGNORECASE),
}


@pytest.mark.parametrize("name", ["console.js", "console.css"])
def test_the_script_and_the_style_sheet_are_small(name):
    assert len((STATIC / name).read_bytes()) <= MAX_BYTES


def test_the_script_is_short():
    assert len((STATIC / "console.js").read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda it: it.name)
def test_a_template_has_nothing_inline(template: Path):
    assert [name for name, found in INLINE.items() if found.search(template.read_text())] == []


@pytest.mark.parametrize(
    "text", ["{{ a | safe }}", '<p style="x">', "<style>", '<a onclick="x">', "<script>", '<a href="javascript:x">']
)
def test_inline_markup_is_found(text):
    assert any(found.search(text) for found in INLINE.values())


async def test_static_files_have_the_types_that_browsers_require(browser):
    types = {
        name: (await browser.open(static_path(name))).headers["Content-Type"] for name in ("console.js", "icon.svg")
    }
    assert types == {"console.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml; charset=utf-8"}


async def test_a_static_file_with_an_old_hash_is_not_found(browser):
    await browser.open("/ui/static/0123456789abcdef/console.js", status=404)
