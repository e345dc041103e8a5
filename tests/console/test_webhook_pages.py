"""The pages of webhooks: create, test, deliver again, disable and delete."""

import re
from contextlib import asynccontextmanager

from aiohttp import web

from tests.console.conftest import console_of, form_in
from tests.console.world import HOSTILE


@asynccontextmanager
async def receiver():
    """The port of an HTTP server on loopback, the bodies that it received, and the status that it answers."""
    bodies, answer = [], {"status": 200}

    async def handle(request):
        bodies.append(await request.json())
        return web.Response(status=answer["status"])

    app = web.Application()
    app.router.add_post("/{rest:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1], bodies, answer
    await runner.cleanup()


async def test_a_webhook_is_created_tested_disabled_and_deleted(tmp_path):
    async with (
        receiver() as (port, bodies, answer),
        console_of(tmp_path / "data", webhook_hosts=(f"127.0.0.1:{port}",)) as browser,
    ):
        form = await browser.form(
            "/ui/webhooks/new", name="ci", url=f"http://127.0.0.1:{port}/secret-path", kind="FAILED"
        )
        created = await browser.post("/ui/webhooks/new", form, status=200)
        secret = re.search(r"whsec_[A-Za-z0-9+/=]+", created.body)[0]
        again = await browser.post("/ui/webhooks/new", form, status=200)
        listed = await browser.open("/ui/webhooks")
        path = next(link for link in listed.page.links if link.startswith("/ui/webhooks/wh-"))
        page = await browser.open(path)

        assert secret in again.body
        assert secret not in page.body
        assert "secret-path" not in created.body + listed.body + page.body
        assert "FAILED" in page.text
        tested = await browser.post(f"{path}/test", {}, status=200)
        assert "Test message: answered 200." in tested.text
        answer["status"] = 500
        assert "Test message: answered 500." in (await browser.post(f"{path}/test", {}, status=200)).text
        assert len(bodies) == 2
        await browser.post(f"{path}/disable", {})
        assert "State DISABLED: disabled by" in (await browser.open(path)).text
        await browser.post(f"{path}/enable", {})
        assert "State ENABLED" in (await browser.open(path)).text
        await browser.post(f"{path}/redeliver", {})
        refused = await browser.post(f"{path}/redeliver", {"number": "77"}, status=400)
        assert "Event 77 not found." in refused.text
        new = await browser.post(f"{path}/rotate", {}, status=200)
        assert re.search(r"whsec_[A-Za-z0-9+/=]+", new.body)[0] != secret
        await browser.open(f"{path}/delete")
        assert (await browser.post(f"{path}/delete", {})).headers["Location"] == "/ui/webhooks"
        assert "There are no webhooks." in (await browser.open("/ui/webhooks")).text
        await browser.open(path, status=404)
        records = await browser.open("/ui/audit")
        assert all(f"{name}Webhook" in records.text for name in ("Create", "Update", "Redeliver", "Delete"))


async def test_a_refused_webhook_keeps_what_was_typed(browser):
    page = await browser.open("/ui/webhooks/new")
    for fields, error in (
        ({"name": HOSTILE[:300], "url": "https://a.example"}, "The name of a webhook has"),
        ({"name": "ci", "url": "https://127.0.0.1/x"}, "127.0.0.1"),
        ({"name": "ci", "url": "https://a.example", "queues": "none"}, "JobQueue none not found."),
        ({"name": "ci", "url": "https://a.example", "users": " ".join(map(str, range(51)))}, "At most 50 names"),
    ):
        refused = await browser.post("/ui/webhooks/new", form_in(page, **fields), status=400)
        assert error in refused.text
        assert f'value="{fields["url"]}"' in refused.body
        assert "<script>window" not in refused.body
    assert "There are no webhooks." in (await browser.open("/ui/webhooks")).text
