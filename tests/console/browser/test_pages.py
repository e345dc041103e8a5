"""Each page of the console in Chromium: accessibility, layout, size, and errors."""

from collections import Counter
from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.console.browser.visitor import NARROW, WIDE

PHONE = {"width": 390, "height": 800}

MAX_REQUESTS, MAX_BYTES = 6, 60_000  # of a first load, style sheet and module included
MAX_LAYOUT_SHIFT = 0.05
WIDTHS = (320, 390, 767, 769, 959, 961, 1280)  # of a phone, around the widths where the layout changes, and of a screen
#: Options of axe by colour scheme. The schemes differ in colours only.
SCHEMES = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}

#: {name}: the id of the job in the world.
PAGES = {
    "overview": "/ui/",
    "jobs": "/ui/jobs",
    "jobs by name": "/ui/jobs?grouped=name",
    "running job": "/ui/jobs/{model-7}",
    "failed job": "/ui/jobs/{large-1}",
    "job that waits": "/ui/jobs/{waits-3}",
    "array": "/ui/jobs/{sweep-1}",
    "node": "/ui/jobs/{gang-1}/nodes/1",
    "children": "/ui/jobs/{sweep-1}/children",
    "found by name": "/ui/find?q=waits",
    "queues": "/ui/queues",
    "queue": "/ui/queues/gpu",
    "definitions": "/ui/definitions",
    "definition": "/ui/definitions/model",
    "revision": "/ui/definitions/model:2",
    "submit": "/ui/submit",
    "rerun": "/ui/rerun?job={large-1}",
    "stop": "/ui/jobs/{model-7}/stop",
    "stop of several": "/ui/stop?job={model-7}&job={align-1}&kind=TERMINATE",
    "log": "/ui/jobs/{model-7}/log",
    "search in a log": "/ui/jobs/{model-7}/log?q=epoch",
    "environments": "/ui/environments",
    "resources": "/ui/resources",
    "accounts": "/ui/accounts",
    "audit": "/ui/audit",
    "events": "/ui/events",
    "webhooks": "/ui/webhooks",
    "new webhook": "/ui/webhooks/new",
    "system": "/ui/system",
    "settings": "/ui/settings",
}
#: Other forms of them, which differ in little.
VARIANTS = {
    "jobs of a filter": "/ui/jobs?state=FAILED&state=RUNNING&queue=train&name=*-1&by=ended",
    "no such jobs": "/ui/jobs?name=nothing-like-this",
    "hostile job": "/ui/jobs/{hostile-1}",
    "stopped job": "/ui/jobs/{stopped-1}",
    "job with dependencies": "/ui/jobs/{align-2}",
    "child": "/ui/jobs/{sweep-1}:3",
    "not found": "/ui/find?q=nothing-like-this",
    "submit a definition": "/ui/submit?definition=model",
    "submit like a job": "/ui/submit?like={hostile-1}",
    "deregister": "/ui/definitions/model:1/deregister",
    "hold": "/ui/jobs/{waits-3}/hold",
    "pause": "/ui/jobs/{model-7}/pause",
    "release": "/ui/jobs/{waits-3}/release",
    "resume": "/ui/jobs/{waits-3}/resume",
    "stop of a node": "/ui/jobs/{gang-1}/nodes/1/stop",
    "log of a node": "/ui/jobs/{gang-1}/nodes/1/log",
    "log with times": "/ui/jobs/{model-7}/log?times=since&wrap=on",
    "no log yet": "/ui/jobs/{never-1}/log",
    "line of a log": "/ui/jobs/{model-7}/log?attempt=1&at=0&times=local",
    "log of an array": "/ui/jobs/{sweep-1}/log",
    "no such records": "/ui/audit?user=nothing-like-this",
    "events of a filter": "/ui/events?state=FAILED&queue=train",
    "keys": "/ui/keys",
    "drain": "/ui/queues/train/drain",
    "disable": "/ui/queues/train/disable",
    "force-fail": "/ui/jobs/{model-7}/force-fail",
    "stop of all that match": "/ui/stop?queue=gpu&kind=CANCEL",
    "stop of an array": "/ui/jobs/{sweep-1}/stop",
    "failed children": "/ui/jobs/{sweep-1}/children?state=FAILED",
}
ALL = PAGES | VARIANTS

TRANSFERS = """() => {
  const navigation = performance.getEntriesByType("navigation"), resources = performance.getEntriesByType("resource");
  return [...navigation, ...resources].map(resource => resource.transferSize);
}"""
#: What a visitor by keyboard does not see when it has the focus: without an outline, or below the bar at the top.
UNSEEN = """() => {
  const bar = document.querySelector(".top"), unseen = [];
  const focusable = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  for (const element of [...document.querySelectorAll(focusable)].reverse()) {
    if (!element.checkVisibility({visibilityProperty: true}) || element.disabled) continue;
    element.focus();
    const { top, height } = element.getBoundingClientRect();
    const end = getComputedStyle(bar).position === "sticky" ? bar.getBoundingClientRect().bottom : 0;
    const hasOutline = element.matches(":focus-visible") && getComputedStyle(element).outlineStyle !== "none";
    const isCovered = !bar.contains(element) && height < innerHeight / 2 && top < end;
    if (!element.matches(".skip") && (!hasOutline || isCovered)) unseen.push(element.outerHTML.slice(0, 100));
  }
  return unseen;
}"""
IDS = "() => [...document.querySelectorAll('[id]')].map(element => element.id)"


@pytest.mark.parametrize(
    ("name", "size"),
    [*product(PAGES, (WIDE, PHONE)), *product(VARIANTS, (PHONE,))],
    ids=lambda value: value if isinstance(value, str) else str(value["width"]),
)
def test_a_page_is_accessible_and_fits(visit, world, name, size):
    page = visit(viewport=size).open(ALL[name].format_map(world.jobs))
    page.wait_for_load_state("load")

    transfers = page.evaluate(TRANSFERS)
    layout_shift = page.evaluate("() => window.layoutShift")

    for scheme, rules in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        findings = Axe().run(page, options=rules)
        assert findings.violations_count == 0, f"{scheme}: {findings.generate_report()}"
    begins_in_a_form = page.locator("[autofocus]").count() == 1
    page.keyboard.press("Tab")
    assert page.locator(".skip:focus").count() == (0 if begins_in_a_form else 1)
    assert page.evaluate(UNSEEN) == []
    assert layout_shift <= MAX_LAYOUT_SHIFT
    assert len(transfers) <= MAX_REQUESTS
    assert sum(transfers) <= MAX_BYTES, transfers
    for width in WIDTHS:
        page.set_viewport_size(size | {"width": width})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert [key for key, count in Counter(page.evaluate(IDS)).items() if count > 1] == []


@pytest.mark.parametrize(
    ("path", "opener"),
    [
        ("/ui/jobs/{model-7}", "Stop…"),
        ("/ui/jobs/{model-7}", "Pause…"),
        ("/ui/queues/train", "Disable…"),
        ("/ui/queues/train", "Drain…"),
        ("/ui/jobs/{waits-3}", "Hold…"),
        ("/ui/", "Keyboard shortcuts"),
    ],
)
def test_a_dialog_is_accessible_and_fits(visit, world, path, opener):
    page = visit(viewport=NARROW).open(path.format_map(world.jobs))

    page.get_by_role("link", name=opener).click()
    page.get_by_role("dialog").wait_for()
    findings = Axe().run(page)

    assert findings.violations_count == 0, findings.generate_report()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= NARROW["width"]
    assert [key for key, count in Counter(page.evaluate(IDS)).items() if count > 1] == []


#: The words of tables that are broken over two lines; a longer word may be.
BROKEN = r"""() => {
  const broken = [], texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (!text.parentElement.closest("td, th")) continue;
    for (const word of text.data.matchAll(/(?<!\S)[A-Za-z]{1,12}[.,:]?(?!\S)/g)) {
      const range = document.createRange();
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(box => Math.round(box.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}"""


@pytest.mark.parametrize("path", ["/ui/queues", "/ui/queues/gpu", "/ui/jobs", "/ui/events", "/ui/"])
def test_no_short_word_of_a_table_is_broken(visit, world, path):
    page = visit(viewport=WIDE).open(path)

    for width in (1280, 1000, 800, 500):
        page.set_viewport_size(WIDE | {"width": width})
        assert page.evaluate(BROKEN) == [], width
