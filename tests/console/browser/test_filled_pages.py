"""Pages that need a server of their own in Chromium: costs, metrics and a large group."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe

from batchq.compute.simulated.script import Script
from tests.console.browser.test_pages import PHONE, SCHEMES
from tests.console.browser.visitor import WIDE
from tests.console.world import Submitter
from tests.support.service import serving_forked

pytestmark = pytest.mark.timeout(300)

LARGE = 401  # jobs: one more than have a cell of their own
PRICES = 'currency = "EUR"\nvcpu_hour = 1000000.0\n'
#: What each page has at least once.
SHOWN = {
    "cost": ".plot svg",
    "plot": "section:has(#plot) .plot svg",
    "large group": "section:has(#grid) svg",
    "filter by group": ".filters li",
    "stop of a group": "#count",
    "30 days": "a[aria-current][href='?hours=720']",
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A server with costs, a group with metrics and a large group; the URL and the path of each page."""
    folder = tmp_path_factory.mktemp("filled")
    (folder / "prices.toml").write_text(PRICES)
    flags = ("--runtime", "simulated", "--prices", str(folder / "prices.toml"))
    with serving_forked(folder / "data", *flags) as service:
        world = Submitter(service.client())
        world.add_queue("train", vcpus=4)
        service.native("setbudget", {"jobQueue": "train", "hard": 1e9, "period": "MONTH"})
        for at in range(3):
            tags = {"batchq:group": "fit", "batchq:metric:loss": "loss ([0-9.]+)"}
            play = Script(seconds=0, output=(f"loss {at}.5",))
            world.submit(f"fit{at}-1", play, tags=tags, parameters={"lr": f"0.{at}"})
        for at in range(3):
            world.reach(f"fit{at}-1", "SUCCEEDED")
        world.submit("wide-0", tags={"batchq:group": "wide"})
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda at: world.submit(f"wide-{at}", tags={"batchq:group": "wide"}), range(1, LARGE)))
        groups = {group["groupName"]: group["groupId"] for group in service.native("listgroups", {})[1]["groups"]}
        yield (
            service.url,
            {
                "cost": "/ui/cost",
                "plot": f"/ui/groups/{groups['fit']}?metric=loss&over=lr",
                "large group": f"/ui/groups/{groups['wide']}",
                "filter by group": f"/ui/jobs?group={groups['wide']}",
                "stop of a group": f"/ui/stop?group={groups['wide']}",
                "30 days": "/ui/queues/train?hours=720",
            },
        )


@pytest.mark.parametrize(
    ("name", "size"),
    list(product(SHOWN, (WIDE, PHONE))),
    ids=lambda value: value if isinstance(value, str) else str(value["width"]),
)
def test_a_filled_page_is_accessible_and_fits(visit, filled, name, size):
    url, paths = filled
    page = visit(url, viewport=size).open(paths[name])
    page.wait_for_load_state("load")

    assert page.locator(SHOWN[name]).count() > 0
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        findings = Axe().run(page)
        assert findings.violations_count == 0, f"{scheme}: {findings.generate_report()}"
    assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]
