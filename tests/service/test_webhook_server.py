"""Webhooks of a real server that is killed in a loop: a receiver gets each event at least once, in order."""

import asyncio
import threading
import time

import pytest

from batchq.compute.simulated.script import Script
from tests.service.job_queue import playing, submit_script
from tests.service.waiting import PATIENCE
from tests.support.service import serving_forked
from tests.webhooks.receiver import receiving, verified

SHORT = Script(seconds=0.2)


class Thread(threading.Thread):
    """A receiver of webhooks in a thread of its own."""

    def __init__(self):
        super().__init__()
        self.started = threading.Event()
        self.start()
        assert self.started.wait(PATIENCE)

    def run(self):
        asyncio.run(self._receive())

    async def _receive(self):
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        async with receiving() as self.receiver:
            self.started.set()
            await self._over.wait()

    def messages(self, secret):
        return [verified(headers, body, secret) for _, _, headers, body in tuple(self.receiver.requests)]

    def end(self):
        self._loop.call_soon_threadsafe(self._over.set)
        self.join()


@pytest.fixture
def receiver():
    thread = Thread()
    yield thread
    thread.end()


@pytest.mark.fault("SE83")
def test_a_killed_server_delivers_each_event_at_least_once_and_in_order(tmp_path, receiver):
    flags = ("--runtime", "simulated", "--webhook-hosts", receiver.receiver.host)
    with serving_forked(tmp_path / "data", *flags) as service:
        request = {"webhookName": "all", "url": receiver.receiver.url, "eventKinds": ["RUNNING", "SUCCEEDED", "FAILED"]}
        status, created = service.native("createwebhook", request)
        assert status == 200, created
        jobs = []
        for _ in range(3):
            jobs += [submit_script(service, SHORT) for _ in range(10)]
            service.kill()
            service.start()
        missing = wait_for_ends(receiver, created["secret"], jobs)
        expected = stored_numbers(service)

    assert missing == set()
    numbers = [each["data"]["number"] for each in receiver.messages(created["secret"])]
    assert set(numbers) == set(expected)
    first_times = list(dict.fromkeys(numbers))
    assert first_times == sorted(first_times)
    ids = {
        (headers["webhook-id"], verified(headers, body, created["secret"])["data"]["number"])
        for _, _, headers, body in receiver.receiver.requests
    }
    assert len(ids) == len(expected)


def wait_for_ends(receiver, secret, jobs):
    """The jobs of which the receiver did not get the end in time."""
    end = time.monotonic() + PATIENCE
    while missing := set(jobs) - {
        each["data"]["jobId"] for each in receiver.messages(secret) if each["type"] in {"job.succeeded", "job.failed"}
    }:
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    return missing


def stored_numbers(service):
    status, page = service.native("events?after=0&limit=1000&jobStatuses=RUNNING,SUCCEEDED,FAILED")
    assert status == 200, page
    return [event["number"] for event in page["events"]]


def test_the_webhook_of_notify_gets_the_end_of_the_job_and_an_unknown_one_is_refused(
    tmp_path, receiver, connect, batchq
):
    flags = ("--runtime", "simulated", "--webhook-hosts", receiver.receiver.host)
    with serving_forked(tmp_path / "data", *flags) as service:
        connect(service)
        definition = "short"
        service.client().register_job_definition(
            jobDefinitionName=definition, type="container", containerProperties=playing(SHORT)
        )
        words = ("submit", "-d", definition, "--notify", "chat")

        _, error = batchq(*words, status=1, errors=True)
        assert "you have no webhook chat" in error
        assert batchq("list", "--all") == ""

        secret = batchq("webhook", "create", "chat", receiver.receiver.url, "--kind", "none").strip()
        batchq("submit", "-d", definition)
        job = batchq(*words, "--wait").strip()
        wait_for_ends(receiver, secret, [job])
        shown = batchq("webhook", "show", "chat")

    (message,) = receiver.messages(secret)
    assert (message["type"], message["data"]["jobId"]) == ("job.succeeded", job)
    assert f"endpoint      http://{receiver.receiver.host} (standard)" in shown.splitlines()
