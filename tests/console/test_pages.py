"""What all pages have in common, the settings of a browser, and the files that pages load."""

import re
from itertools import product

import pytest

from batchq.api.console.pages import HEADERS, NOT_FOUND
from batchq.api.console.templates import STATIC, static_path

TEMPLATES = sorted((STATIC.parent / "templates").iterdir())
MAX_BYTES, MAX_LINES = 16 * 1024, 400
INLINE = {
    "the filter safe": re.compile(r"\|\s*safe\b"),
    "a style": re.compile(r"\sstyle\s*=|<style"),
    "a handler": re.compile(r"\son[a-z]+\s*="),
    "an inline script": re.compile(r"<script(?![^>]*\ssrc=)"),
    "a script URL": re.compile(r"javascript:", re.IGNORECASE),
}
CHOSEN = {"theme": "dark", "times": "utc", "shortcuts": "off"}
UNKNOWN = "8f2c51a7-0000-4000-8000-000000000000"


@pytest.fixture
def browser(shared_browser):
    return shared_browser


async def test_a_page_is_not_cached_and_allows_no_inline_script(browser):
    page = await browser.open("/ui/")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert HEADERS.items() <= dict(page.headers).items()


async def test_head_of_a_page_has_its_headers_and_no_content(browser):
    page = await browser.open("/ui/jobs")

    async with browser._session.head(f"{browser.url}/ui/jobs") as head:
        assert (head.status, await head.read()) == (200, b"")
    assert HEADERS.items() <= dict(head.headers).items()
    assert head.headers["Content-Type"] == page.headers["Content-Type"]


async def test_a_fragment_is_a_block_of_the_page_and_is_sent_again_only_if_it_changed(own_browser):
    whole, part = await own_browser.open("/ui/"), await own_browser.open("/ui/", X_Fragment="live")
    assert part.body in whole.body
    same = await own_browser.open("/ui/", X_Fragment="live", If_None_Match=part.headers["ETag"], status=304)
    assert same.body == ""


@pytest.mark.fault("SE73")
async def test_a_fragment_that_the_page_does_not_have_is_not_found(browser):
    job_id = await browser.submit()
    blocks = ("main", "page", "heading", "live", "dialog", "lines", "other", "")
    paths = ("submit", "settings", f"jobs/{job_id}", f"jobs/{job_id}/log", "stop?queue=default", "system")
    for block, path in product(blocks, paths):
        own = "dialog" if path.startswith("stop") else "" if path in {"submit", "settings"} else "live"
        if block != own or not own:
            assert NOT_FOUND in (await browser.open(f"/ui/{path}", X_Fragment=block, status=404)).text


async def test_everything_that_does_not_exist_has_the_same_page(browser):
    job_id = await browser.submit()
    paths = ["stop?queue=none", f"stop/results/{UNKNOWN}", "queues/none", "resources/none", "static/0123/console.js"]
    paths += [f"jobs/{job_id}{part}/children" for part in ("", ":0", "/nodes/0")]
    paths += [f"definitions/{text}" for text in ("none", "none:1", "simple:2", "simple:x", "simple:1?with=9")]
    paths += [f"jobs/{text}" for text in (UNKNOWN, f"{UNKNOWN}:3", f"{UNKNOWN}/nodes/1", "0" * 64, "8f2c51a7")]
    paths += [f"jobs/{UNKNOWN}/{text}" for text in ("hold", "release", "pause", "resume", "stop", "log", "log/text")]
    paths += [f"jobs/{UNKNOWN}/nodes/0/{text}" for text in ("log", "log/text")]
    paths += [f"rerun?job={UNKNOWN}", f"submit?like={UNKNOWN}"]
    unknown = await browser.open("/ui/nothing", status=404)
    assert NOT_FOUND in unknown.text
    for path in paths:
        assert (await browser.open(f"/ui/{path}", status=404)).body == unknown.body, path


async def test_a_page_without_content_says_what_it_would_show(own_browser):
    sentences = {
        "definitions": "There is no job definition that you may use.",
        "find?q=": "the first 8 digits",
        "queues/default": "No job waits for capacity in this queue.",
        "environments": "No job runs here.",
        "resources": "There is no consumable resource.",
        "accounts": "There are no users.",
        "audit?user=unknown": "No record matches.",
        "events": "There are no events yet.",
        "events?queue=other": "No event matches.",
        "jobs?name=none": "No job matches. All jobs that you may see were searched.",
        "jobs?queue=nothing": "JobQueue nothing not found.",
    }
    for path, sentence in sentences.items():
        assert sentence in (await own_browser.open(f"/ui/{path}")).text, path


async def test_an_invalid_query_is_refused_with_the_name_of_its_member(browser):
    sentences = {
        "definitions?after=zzz": "'after' is not NAME:REVISION.",
        "jobs?from=yesterday": "'from'",
        "jobs?state=DONE": "state",
        "jobs?more=1": "more",
        "live?after=-1": "after",
        "live?after=x": "after",
        "live?other=1": "other",
        "audit?since=soon": "since",
        "audit?page=x": "",
        "rerun": "No jobs are selected.",
        # An order that ignored its filter would stop more jobs.
        "stop": "No jobs are selected",
        "stop?kind=TERMINATE": "No jobs are selected",
        "stop?job=x": "is not the id of a job",
        "stop?state=PAUSED": "state",
        "stop?definitions=simple": "definitions",
        "stop?name=a&kind=PAUSE": "kind",
    }
    for path, sentence in sentences.items():
        assert sentence in (await browser.open(f"/ui/{path}", status=400)).text, path


async def test_a_page_follows_the_saved_settings(browser):
    saved = await browser.post("/ui/settings", CHOSEN)
    assert saved.headers["Location"] == "/ui/settings"
    cookies = "; ".join(text.split(";")[0] for text in saved.headers.getall("Set-Cookie"))
    page = await browser.open("/ui/settings", Cookie=cookies)
    assert '<html lang="en" data-theme="dark">' in page.body
    for name, value in CHOSEN.items():
        assert f'name="{name}" value="{value}" checked' in page.body


async def test_the_settings_that_the_script_reads_are_kept_for_a_year_below_ui(browser):
    cookies = (await browser.post("/ui/settings", CHOSEN)).headers.getall("Set-Cookie")
    assert [cookie.split(";")[0] for cookie in cookies] == ["theme=dark", "times=utc", "shortcuts=off"]
    assert all("Max-Age=31536000; Path=/ui; SameSite=Lax" in cookie and "HttpOnly" not in cookie for cookie in cookies)


async def test_without_settings_the_theme_is_that_of_the_system(browser):
    page = await browser.open("/ui/settings")
    assert '<html lang="en">' in page.body
    assert 'name="theme" value="system" checked' in page.body


async def test_an_unknown_theme_in_a_cookie_is_ignored(browser):
    page = await browser.open("/ui/", Cookie='theme="x y"; times=utc')
    assert '<html lang="en">' in page.body


async def test_an_unknown_setting_is_refused(browser):
    await browser.post("/ui/settings", CHOSEN | {"theme": "pink"}, status=400)


async def test_the_list_of_shortcuts_is_a_page_and_a_dialog(browser):
    whole, part = await browser.open("/ui/keys"), await browser.open("/ui/keys", X_Fragment="dialog")
    assert part.body in whole.body
    assert "Pause or resume live updates" in part.text


@pytest.mark.parametrize("name", ["console.js", "console.css", "plots.css"])
def test_the_script_and_the_style_sheet_are_small(name):
    assert len((STATIC / name).read_bytes()) <= MAX_BYTES


def test_the_script_is_short():
    assert len((STATIC / "console.js").read_text().splitlines()) <= MAX_LINES


def test_no_template_has_anything_inline():
    texts = {template.name: template.read_text() for template in TEMPLATES}
    assert [(template, name) for template, text in texts.items() for name in INLINE if INLINE[name].search(text)] == []


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


async def test_static_files_may_be_kept_for_ever(browser):
    style = next(part for part in (await browser.open("/ui/")).body.split('"') if part.endswith(".css"))
    assert (await browser.open(style)).headers["Cache-Control"] == "public, max-age=31536000, immutable"
