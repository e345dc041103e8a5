"""Pages that need a server of their own in Chromium: costs, metrics, a large group, and a webhook that is rejected.

Together with the other pages that axe visits they are all pages of the console.
"""

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe

from batchq.api.console.pages import UI
from batchq.api.console.routes import TABLES
from batchq.compute.simulated.script import Script
from batchq.domain.access.accounts import NO_OWNER
from batchq.domain.webhooks import DeliveryProgress, EventSelection, UndeliveredEvent, Webhook, WebhookId
from batchq.ports.webhooks import StoredWebhook
from batchq.store.sqlite_store import SqliteStore
from batchq.system.clock import wall_time
from tests.console.browser.test_pages import ALL, BROKEN, PHONE, SCHEMES, UNSEEN
from tests.console.browser.test_pictures import PICTURES
from tests.console.browser.visitor import WIDE
from tests.console.world import Submitter
from tests.service.waiting import until
from tests.support.service import serving_forked

pytestmark = pytest.mark.timeout(300)

LONG_NAME = 128 * "q"  # the longest of a queue; it is in the legend of the costs
LARGE = 401  # jobs: one more than have a cell of their own
PRICES = 'currency = "EUR"\nvcpu_hour = 1000000.0\n'
#: What each page has at least once.
SHOWN = {
    "cost": ".plot svg",
    "plot": "section:has(#plot) .plot svg",
    "large group": "section:has(#grid) svg",
    "filter by group": ".filters li",
    "stop of a group": "#count",
    "hold of a group": "#count",
    "release of a group": "form:has(input[name=before])",
    "resource": "main table",
    "rejected webhook": "section:has(#undelivered) table",
    "delete a webhook": "main form",
    "checkpoints": "section:has(#results) table",
    "webhooks": "main table",
    "30 days": "a[aria-current][href='?hours=720']",
}


AT = wall_time()
HOOK = StoredWebhook(
    webhook=Webhook(
        id=WebhookId("wh-0123456789abcdef0123"),
        name="ci",
        owner=NO_OWNER,
        url="https://hooks.example.com/",
        selection=EventSelection(kinds=()),
        created_at=AT,
    ),
    progress=DeliveryProgress(
        position=7,
        delivered=5,
        delivered_at=AT,
        failing_since=AT,
        failure="answered 400",
        undelivered=tuple(UndeliveredEvent(number=number, at=AT, reason="answered 400") for number in (6, 7)),
    ),
)


async def store_rejected_webhook(data):
    """Store a webhook whose endpoint rejected two events."""
    store = await SqliteStore.open(data)
    await store.put_webhook(HOOK, caller=None)
    await store.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A server with costs, a group with metrics and a large group; the URL and the path of each page."""
    folder = tmp_path_factory.mktemp("filled")
    (folder / "prices.toml").write_text(PRICES)
    flags = ("--runtime", "simulated", "--prices", str(folder / "prices.toml"), "--checkpoints", str(folder / "saved"))
    with ThreadPoolExecutor(1) as thread:  # Playwright has a loop in this one
        thread.submit(lambda: asyncio.run(store_rejected_webhook(folder / "data"))).result()
    with serving_forked(folder / "data", *flags) as service:
        world = Submitter(service.client())
        world.add_queue("train", vcpus=4)
        service.native("setbudget", {"jobQueue": "train", "hard": 1e9, "period": "MONTH"})
        for at in range(3):
            tags = {"batchq:group": "fit", "batchq:metric:loss": "loss ([0-9.]+)"}
            play = Script(seconds=0, output=(f"loss {at}.5",))
            world.submit(f"fit{at}-1", play, tags=tags, parameters={"lr": f"0.{at}", "seed": str(at)})
        for at in range(3):
            world.reach(f"fit{at}-1", "SUCCEEDED")
        licence = {"consumableResourceName": "licence", "totalQuantity": 1}
        service.client().create_consumable_resource(**licence)
        needs = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 1}]}
        world.submit("licensed-1", consumableResourcePropertiesOverride=needs, tags={"batchq:group": "held"})
        world.reach("licensed-1", "RUNNING")
        held = world.submit("licensed-2", consumableResourcePropertiesOverride=needs, tags={"batchq:group": "held"})
        service.native(f"jobs/{held}/hold", {})
        saves = Script(seconds=None, on_term=143, checkpoints=("epoch-1", "epoch-2"))
        saving = world.submit("saves-1", saves, tags={"batchq:checkpoints": "true"})
        until(lambda: service.native(f"jobs/{saving}/checkpoints")[1]["checkpoints"])
        world.add_queue(LONG_NAME, vcpus=1)
        world.submit("long-1", queue=LONG_NAME)
        world.reach("long-1", "RUNNING")
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
                "hold of a group": f"/ui/groups/{groups['wide']}/hold",
                "release of a group": f"/ui/groups/{groups['held']}/release",
                "resource": "/ui/resources/licence",
                "rejected webhook": f"/ui/webhooks/{HOOK.webhook.id}",
                "delete a webhook": f"/ui/webhooks/{HOOK.webhook.id}/delete",
                "checkpoints": f"/ui/jobs/{saving}",
                "webhooks": "/ui/webhooks",
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
    assert name not in {"rejected webhook", "checkpoints", "webhooks"} or page.evaluate(BROKEN) == []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        findings = Axe().run(page)
        assert findings.violations_count == 0, f"{scheme}: {findings.generate_report()}"
    page.keyboard.press("Tab")
    assert page.evaluate(UNSEEN) == []
    for width in (size["width"], 961):  # the least at which the rows of a table are not cards
        page.set_viewport_size(size | {"width": width})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_outcomes_of_orders_are_accessible_and_fit(visit, filled):
    url, paths = filled
    for path, order, outcome in (
        ("/ui/stop?name=licensed-2", "Terminate 1 job", "**/ui/stop/results/*"),
        ("/ui/rerun?matching=name%3Dfit0-1%26name%3Dfit1-1", "Submit 2 jobs again", "**/ui/rerun/results/*"),
    ):
        page = visit(url, viewport=PHONE).open(path)
        if page.locator("#preset").count():
            page.locator("#preset").select_option("wrong input")
        page.get_by_role("button", name=order).click()
        page.wait_for_url(outcome)
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            findings = Axe().run(page)
            assert findings.violations_count == 0, f"{scheme}: {findings.generate_report()}"
        assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    assert paths


#: Pages whose visits are not in a table: those of the test before this one.
VISITED_BY_ORDERS = {"/stop/results/{invocation}", "/rerun/results/{invocation}"}
#: Answers that are no pages: a redirect, a stream and files.
NO_PAGES = {"", "/live", *(f"{path}/log/text" for path in ("/jobs/{job}", "/jobs/{job}/nodes/{node}"))}
NO_PAGES |= {"/groups/{group}/csv", "/jobs/{job}/children/csv"}


def test_axe_visits_each_page(filled):
    routes = {
        re.sub(r":[^{}]*(\{[^{}]*\})?\}", "}", operation.path.removeprefix(UI))
        for table in TABLES
        for operation in table.operations
        if operation.method == "GET"
    }
    paths = (*ALL.values(), *PICTURES, *filled[1].values())
    visited = [re.sub(r"\{[^{}]*\}", "a-job", path.removeprefix(UI)).partition("?")[0] for path in paths]

    unvisited = {
        route
        for route in routes - NO_PAGES - VISITED_BY_ORDERS
        if not any(re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", route), path) for path in visited)
    }

    assert routes >= NO_PAGES | VISITED_BY_ORDERS
    assert unvisited == set()
