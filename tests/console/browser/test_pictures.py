"""The pictures of jobs, arrays, definitions, capacity and costs in Chromium, on a screen and on a phone."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.console.browser.visitor import WIDE

PHONE = {"width": 390, "height": 800}
#: A page, and what its picture has at least once.
PICTURES = {
    "/ui/": "section:has(#longest) .gantt .shape-RUNNING",
    "/ui/jobs/{large-1}": ".gantt li:nth-child(2) .shape-FAILED",
    "/ui/jobs/{report-1}": "section:has(#critical-path) .gantt li:nth-child(2)",
    "/ui/jobs/{sweep-1}": ".cells .grid .shape-FAILED",
    "/ui/jobs/{stopped-1}": ".gantt .shape-STOPPED",
    "/ui/definitions/fails:1": ".plot a .shape-FAILED",
    "/ui/environments": "section:has(#name-train) .plot svg",
    "/ui/queues/train": "section:has(#memory-used) .plot svg",
    "/ui/cost": "#no-cost",
}


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["screen", "phone"])
def test_pictures_are_accessible_and_fit(visit, world, size):
    visitor = visit(viewport=size)
    for path, picture in PICTURES.items():
        page = visitor.open(path.format_map(world.jobs))
        page.wait_for_load_state("load")

        assert page.locator(picture).count() > 0, path
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            findings = Axe().run(page)
            assert findings.violations_count == 0, f"{path}, {scheme}: {findings.generate_report()}"
        assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"], path
        page.close()
