"""Webhooks by the API of a whole server with simulated containers, and a receiver on loopback."""

import asyncio
import logging
from contextlib import AsyncExitStack

import aiohttp
import pytest

from batchq.server.bootstrap import serving
from batchq.services.webhooks import MAX_PER_USER
from batchq.settings import Runtime, Settings
from tests.service.waiting import container
from tests.webhooks.receiver import receiving, verified

DEFINITION = {"jobDefinitionName": "true", "type": "container", "containerProperties": container("true")}


class Server:
    """A server of which tests call operations, with a receiver that its webhooks may reach."""

    def __init__(self, stack, session, receiver, settings):
        self._stack = stack
        self._session = session
        self.receiver = receiver
        self._settings = settings
        self._serving = AsyncExitStack()

    async def start(self):
        self.url = (await self._serving.enter_async_context(serving(self._settings))).urls[0]

    async def restart(self):
        await self._serving.aclose()
        await self.start()

    async def stop(self):
        await self._serving.aclose()

    async def call(self, operation, status=200, **members):
        path = operation if operation.startswith("/") else f"/v1/batchq/{operation}"
        async with self._session.post(f"{self.url}{path}", json=members) as answer:
            content = await answer.json()
            assert answer.status == status, content
            return content

    async def create(self, name="hook", **members):
        created = await self.call("createwebhook", webhookName=name, url=self.receiver.url, **members)
        return created["webhook"], created.get("secret")

    async def submit(self, **members):
        job = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "true"}
        return (await self.call("/v1/submitjob", **job | members))["jobId"]

    async def received(self, count, seconds=20):
        """The first requests of the receiver, as headers and body."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while len(self.receiver.requests) < count:
            assert loop.time() < end
            await asyncio.sleep(0.02)
        assert len(self.receiver.requests) == count
        return [(headers, body) for _, _, headers, body in self.receiver.requests]

    async def show(self, name="hook"):
        return next(each for each in (await self.call("listwebhooks"))["webhooks"] if each["webhookName"] == name)


@pytest.fixture
async def server(tmp_path):
    asyncio.get_running_loop().live_really()
    async with AsyncExitStack() as stack:
        receiver = await stack.enter_async_context(receiving())
        session = await stack.enter_async_context(aiohttp.ClientSession())
        settings = Settings(data=tmp_path / "data", port=0, runtime=Runtime.SIMULATED, webhook_hosts=(receiver.host,))
        server = Server(stack, session, receiver, settings)
        stack.push_async_callback(server.stop)
        await server.start()
        await server.call("/v1/registerjobdefinition", **DEFINITION)
        yield server


async def test_the_end_of_a_job_is_sent_signed_and_no_secret_is_shown_again(server, caplog):
    caplog.set_level(logging.DEBUG)
    webhook, secret = await server.create(token="a-bearer-token")
    job = await server.submit()

    ((headers, body),) = await server.received(1)

    content = verified(headers, body, secret)
    assert (content["type"], content["data"]["jobId"], content["data"]["status"]) == ("job.succeeded", job, "SUCCEEDED")
    assert headers["Authorization"] == "Bearer a-bearer-token"
    assert webhook["endpoint"] == f"http://{server.receiver.host}"
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("batchq")]
    shown = str([webhook, await server.show(), await server.call("listaudit", resource="webhook/hook"), *logged])
    for hidden in (secret, "a-bearer-token", "secret-path"):
        assert hidden not in shown


async def test_changes_of_webhooks_are_in_the_audit_log(server):
    webhook, _ = await server.create()
    await server.call("updatewebhook", webhook=webhook["webhookId"], rotateSecret=True)
    await server.call("deletewebhook", webhook=webhook["webhookId"])

    records = (await server.call("listaudit", resource="webhook/hook"))["records"]
    assert [each["operation"] for each in records] == ["DeleteWebhook", "UpdateWebhook", "CreateWebhook"]


async def test_a_webhook_goes_on_where_it_was_when_the_server_starts_again(server):
    await server.create(eventKinds=["FAILED", "SUCCEEDED"])
    first = await server.submit()
    await server.received(1)
    await server.restart()
    second = await server.submit()

    received = await server.received(2)

    assert [body.decode().count(job) for (_, body), job in zip(received, (first, second), strict=True)] == [1, 1]


async def test_the_end_of_a_group_and_of_a_job_are_sent_to_the_webhook_that_they_name(server):
    await server.create("chat", eventKinds=[])
    await server.create("other", eventKinds=[])
    group = {"batchq:group": "fit", "batchq:group-size": "2", "batchq:notify": "chat"}
    for _ in range(2):
        await server.submit(tags=group)
    await server.submit()
    alone = await server.submit(tags={"batchq:notify": "chat"})

    received = [body.decode() for _, body in await server.received(2)]

    assert sum('"type":"group.ended"' in body for body in received) == 1
    assert sum(alone in body for body in received) == 1
    await server.call(
        "/v1/submitjob", 400, jobName="a", jobQueue="default", jobDefinition="true", tags={"batchq:notify": "a b"}
    )


async def test_a_test_message_is_sent_at_once_and_its_outcome_returned(server):
    webhook, secret = await server.create()

    answer = await server.call("testwebhook", webhook=webhook["webhookId"])

    assert answer == {"verdict": "DELIVERED", "text": "answered 200"}
    ((headers, body),) = await server.received(1)
    assert verified(headers, body, secret)["type"] == "webhook.test"
    assert "delivered" not in await server.show()


async def test_a_disabled_webhook_receives_what_occurred_meanwhile_when_it_is_enabled(server):
    webhook, _ = await server.create()
    disabled = await server.call("updatewebhook", webhook=webhook["webhookId"], enabled=False)
    assert disabled["webhook"]["state"] == "DISABLED"
    await server.create("watch", eventKinds=["SUCCEEDED"])
    await server.submit()
    await server.received(1)

    await server.call("updatewebhook", webhook=webhook["webhookId"], enabled=True)

    await server.received(2)


async def test_an_event_is_delivered_again_with_its_id(server):
    webhook, _ = await server.create()
    await server.submit()
    ((first, body),) = await server.received(1)

    await server.call("redeliverwebhook", webhook=webhook["webhookId"], after=0)

    _, (second, again) = await server.received(2)
    assert (first["webhook-id"], body) == (second["webhook-id"], again)


@pytest.mark.fault("SE86")
async def test_a_url_that_the_operator_does_not_permit_is_refused(server):
    for url in ("http://hooks.example.com/", "https://127.0.0.1/x", "https://[::1]/", "https://a:b@c/"):
        answer = await server.call("createwebhook", 400, webhookName="hook", url=url)

        assert "URL" in answer["message"] or "address" in answer["message"], url
    assert (await server.call("listwebhooks"))["webhooks"] == []


INVALID = (
    {"webhookName": "a b"},
    {"webhookName": ""},
    {"webhookName": "x" * 65},
    {"eventKinds": ["NONE"]},
    {"format": "CARRIER_PIGEON"},
    {"format": "MATRIX"},
    {"format": "MATRIX", "token": "t"},
    {"token": "a\nb"},
    {"token": "a b"},
    {"jobNames": []},
    {"jobNames": ["x"] * 51},
    {"secret": "whsec_mine"},
)


async def test_a_webhook_that_is_not_valid_is_refused_and_nothing_changes(server):
    for members in INVALID:
        await server.call("createwebhook", 400, **{"webhookName": "hook", "url": server.receiver.url} | members)

    assert (await server.call("listwebhooks"))["webhooks"] == []


async def test_a_queue_that_does_not_exist_is_refused(server):
    answer = await server.call(
        "createwebhook", 404, webhookName="hook", url=server.receiver.url, jobQueues=["no-queue"]
    )

    assert answer["message"] == "JobQueue no-queue not found."


@pytest.mark.fault("SE89")
async def test_a_user_has_a_bounded_number_of_webhooks(server):
    answers = [
        await server._session.post(
            f"{server.url}/v1/batchq/createwebhook", json={"webhookName": f"hook-{number}", "url": server.receiver.url}
        )
        for number in range(100)
    ]

    assert [answer.status for answer in answers] == [200] * MAX_PER_USER + [400] * (100 - MAX_PER_USER)
    assert len((await server.call("listwebhooks"))["webhooks"]) == MAX_PER_USER
    await server.submit()
    await server.received(MAX_PER_USER)


async def test_a_name_is_used_once(server):
    await server.create()

    answer = await server.call("createwebhook", 400, webhookName="hook", url=server.receiver.url)

    assert answer["message"] == "Webhook hook exists already."


@pytest.mark.parametrize("operation", ["updatewebhook", "deletewebhook", "testwebhook", "redeliverwebhook"])
async def test_a_webhook_that_does_not_exist_is_not_found(server, operation):
    more = {"enabled": True} if operation == "updatewebhook" else {}

    answer = await server.call(operation, 404, webhook="wh-none", **more)

    assert answer["message"] == "Webhook wh-none not found."


async def test_an_event_that_does_not_exist_is_not_delivered_again(server):
    webhook, _ = await server.create()
    for members in ({"numbers": [5]}, {"numbers": [0]}):
        await server.call("redeliverwebhook", 404, webhook=webhook["webhookId"], **members)
    for members in ({"after": 5}, {"numbers": [1], "after": 0}, {"numbers": [-1]}):
        await server.call("redeliverwebhook", 400, webhook=webhook["webhookId"], **members)
