"""Each page of the console in Chromium: accessibility, layout, size, and errors."""

from collections import Counter

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.console.browser.visitor import NARROW, WIDE

MAX_REQUESTS, MAX_BYTES = 6, 60_000  # of a first load, style sheet and module included
MAX_LAYOUT_SHIFT = 0.05
WIDTHS = (320, 767, 769, 1280)  # of a phone, around the width where tables become cards, and of a screen
#: Options of axe by colour scheme. The schemes differ in colours only.
SCHEMES = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}

#: {name}: the id of the job in the world.
PAGES = {
    "overview": "/ui/",
    "jobs": "/ui/jobs",
    "jobs of a filter": "/ui/jobs?state=FAILED&state=RUNNING&queue=train&name=*-1&by=ended",
    "jobs by name": "/ui/jobs?group=name",
    "no such jobs": "/ui/jobs?name=nothing-like-this",
    "running job": "/ui/jobs/{model-7}",
    "hostile job": "/ui/jobs/{hostile-1}",
    "failed job": "/ui/jobs/{large-1}",
    "stopped job": "/ui/jobs/{stopped-1}",
    "job that waits": "/ui/jobs/{waits-3}",
    "job with dependencies": "/ui/jobs/{align-2}",
    "array": "/ui/jobs/{sweep-1}",
    "child": "/ui/jobs/{sweep-1}:3",
    "node": "/ui/jobs/{gang-1}/nodes/1",
    "found by name": "/ui/find?q=waits",
    "not found": "/ui/find?q=nothing-like-this",
    "queues": "/ui/queues",
    "queue": "/ui/queues/gpu",
    "definitions": "/ui/definitions",
    "definition": "/ui/definitions/model",
    "revision": "/ui/definitions/model:2",
    "submit": "/ui/submit",
    "submit a definition": "/ui/submit?definition=model",
    "submit like a job": "/ui/submit?like={hostile-1}",
    "deregister": "/ui/definitions/model:1/deregister",
    "hold": "/ui/jobs/{waits-3}/hold",
    "pause": "/ui/jobs/{model-7}/pause",
    "stop": "/ui/jobs/{model-7}/stop",
    "log": "/ui/jobs/{model-7}/log",
    "log with times": "/ui/jobs/{model-7}/log?times=since&wrap=on",
    "search in a log": "/ui/jobs/{model-7}/log?q=epoch",
    "no log yet": "/ui/jobs/{never-1}/log",
    "line of a log": "/ui/jobs/{model-7}/log?attempt=1&at=0&times=local",
    "log of an array": "/ui/jobs/{sweep-1}/log",
    "environments": "/ui/environments",
    "resources": "/ui/resources",
    "accounts": "/ui/people",
    "audit": "/ui/audit",
    "no such records": "/ui/audit?user=nothing-like-this",
    "events": "/ui/events",
    "events of a filter": "/ui/events?state=FAILED&queue=train",
    "system": "/ui/system",
    "settings": "/ui/settings",
    "keys": "/ui/keys",
    "force-fail": "/ui/jobs/{model-7}/force-fail",
    "stop of several": "/ui/stop?job={model-7}&job={align-1}&kind=TERMINATE",
    "stop of all that match": "/ui/stop?queue=gpu&kind=CANCEL",
    "rerun": "/ui/rerun?job={large-1}",
    "stop of an array": "/ui/jobs/{sweep-1}/stop",
}

TRANSFERS = """() => {
  const navigation = performance.getEntriesByType("navigation"), resources = performance.getEntriesByType("resource");
  return [...navigation, ...resources].map(it => it.transferSize);
}"""
IDS = "() => [...document.querySelectorAll('[id]')].map(it => it.id)"


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_accessible_and_fits(visit, world, name, size):
    page = visit(viewport=size).open(PAGES[name].format_map(world.jobs))
    page.wait_for_load_state("load")

    transfers = page.evaluate(TRANSFERS)
    layout_shift = page.evaluate("() => window.layoutShift")

    for scheme, rules in SCHEMES.items():
        page.emulate_media(color_scheme=scheme)
        findings = Axe().run(page, options=rules)
        assert findings.violations_count == 0, f"{scheme}: {findings.generate_report()}"
    assert layout_shift <= MAX_LAYOUT_SHIFT
    assert len(transfers) <= MAX_REQUESTS
    assert sum(transfers) <= MAX_BYTES, transfers
    for width in WIDTHS:
        page.set_viewport_size(size | {"width": width})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert [it for it, count in Counter(page.evaluate(IDS)).items() if count > 1] == []
