"""ListEvents as a stream of server-sent events, from a whole server with simulated containers."""

import asyncio
import json
from contextlib import AsyncExitStack

import aiohttp
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from batchq.accounts.files import AccessKeyFile, AccountsFile, new_key
from batchq.api.native import long_polls
from batchq.api.native.long_polls import EncodedEvents
from batchq.domain.access.accounts import Directory, Owner, User, UserName, Visibility
from batchq.domain.enums import Status
from batchq.domain.ids import JobId, QueueName
from batchq.ports.history import FeedEntry, FeedFilter, FeedPage, HistoryEntry
from batchq.server.bootstrap import serving
from batchq.settings import Auth, Runtime, Settings
from batchq.system.clock import wall_time
from tests.api.conftest import CONTAINER
from tests.support.builders import NOON

PATH = "/v1/batchq/events"
ACCEPT = {"Accept": "text/event-stream"}
ADA = Owner(user=UserName("ada"))


class Client:
    def __init__(self, url, session, server):
        self._url = url
        self.session = session
        self.server = server

    async def submit(self):
        job = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "true"}
        async with self.session.post(f"{self._url}/v1/submitjob", json=job) as answer:
            return (await answer.json())["jobId"]

    def stream(self, query="", **headers):
        sent = ACCEPT | {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.get(f"{self._url}{PATH}?{query}", headers=sent)


@pytest.fixture
async def client(tmp_path):
    definition = {"jobDefinitionName": "true", "type": "container", "containerProperties": CONTAINER}
    async with aiohttp.ClientSession() as session, AsyncExitStack() as server:
        settings = Settings(data=tmp_path / "data", port=0, runtime=Runtime.SIMULATED)
        url = (await server.enter_async_context(serving(settings))).urls[0]
        async with session.post(f"{url}/v1/registerjobdefinition", json=definition) as answer:
            assert answer.ok
        yield Client(url, session, server)


async def blocks(answer, number):
    """The next `number` events of a stream, each as a mapping of its fields. Comments are left out."""
    found, fields = [], {}
    async with asyncio.timeout(20):
        async for line in answer.content:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name and line != b":\n":
                fields[name] = value
            elif not name and fields:
                found.append(fields)
                fields = {}
            if len(found) == number:
                break
    return found


async def test_a_stream_has_all_events_in_order_and_continues_after_the_last_one_that_a_client_saw(client):
    job = await client.submit()
    async with client.stream("after=0") as answer:
        assert answer.content_type == "text/event-stream"
        first = await blocks(answer, 2)
    async with client.stream("after=0", Last_Event_ID=first[-1]["id"]) as answer:
        rest = await blocks(answer, 1)
    seen = [json.loads(event["data"]) for event in (*first, *rest)]
    assert {job["jobId"] for job in seen} == {job}
    numbers = [event["number"] for event in seen]
    assert numbers == sorted(set(numbers))
    assert [event["id"] for event in (*first, *rest)] == [str(number) for number in numbers]


async def test_a_stream_has_events_that_occur_after_its_beginning(client):
    async with client.stream("jobStatuses=RUNNING") as answer:
        job = await client.submit()
        (event,) = await blocks(answer, 1)
    assert (json.loads(event["data"])["jobId"], json.loads(event["data"])["status"]) == (job, "RUNNING")


@pytest.mark.fault("SE74")
@pytest.mark.parametrize("number", ["", "-1", "x", "²", str(2**64), "1" * 5000], ids=len)
async def test_a_last_event_id_that_is_not_a_number_is_refused(client, number):
    async with client.stream(Last_Event_ID=number) as answer:
        assert answer.status == 400
        assert "Last-Event-ID is not the number of an event." in await answer.text()


async def test_the_end_of_a_server_ends_its_streams(client):
    async with client.stream() as answer:
        await client.server.aclose()
        assert await blocks(answer, 1) == [{"event": "bye", "data": "{}"}]


async def test_a_stream_ends_when_the_key_of_its_caller_is_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(long_polls, "CHECK_INTERVAL", 0.05)
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    keys, key = AccessKeyFile(data), new_key("ada", wall_time())
    AccountsFile(data).change(lambda _: Directory(users={"ada": User(name="ada")}))
    keys.add(key)
    settings = Settings(data=data, port=0, runtime=Runtime.SIMULATED, auth=Auth.SIGV4)
    async with serving(settings) as ready, aiohttp.ClientSession() as session:
        request = AWSRequest("GET", ready.urls[0] + PATH)
        SigV4Auth(Credentials(key.id, key.secret), "batch", "us-east-1").add_auth(request)
        async with session.get(request.url, headers=ACCEPT | dict(request.headers.items())) as answer:
            assert await answer.content.readany() == long_polls.COMMENT
            keys.delete(key.id)
            async with asyncio.timeout(20):
                assert long_polls.BYE not in await answer.content.read()


def test_readers_who_see_different_jobs_do_not_share_parts_of_streams():
    encoded = EncodedEvents()
    ada = FeedFilter(visibility=Visibility(user=UserName("ada"), accounts=frozenset()))
    hers, all_jobs = (FeedPage(entries=entries, next=2, gap=False) for entries in ((entry(2),), (entry(1), entry(2))))
    assert encoded.frame(FeedFilter(), 0, all_jobs).startswith(b"id: 1\n")
    assert encoded.frame(ada, 0, hers).startswith(b"id: 2\n")


def entry(number):
    happened = HistoryEntry(job_id=JobId(f"job-{number}"), at=NOON, status=Status.RUNNING, reason=None, attempt=1)
    return FeedEntry(
        number=number, entry=happened, job_name="a-job", queue=QueueName("default"), owner=Owner(user=UserName("ada"))
    )
