"""The container engine freezes, goes, and comes back; batchq serves all the while, and then goes on. faults.md 6.3."""

import time

import pytest

from tests.service.waiting import reaches, register
from tests.support.second_engine import second_engine
from tests.support.service import serving

pytestmark = [pytest.mark.docker, pytest.mark.slow]

PATIENCE = 30.0  # seconds
QUICK = 0.25  # seconds, for an answer that needs no engine


@pytest.fixture
def engine():
    with second_engine() as second:
        yield second


@pytest.fixture
def service(tmp_path, engine, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    with serving(tmp_path / "data", "--stop-grace", "2") as running:
        batch = running.client()
        register(batch, "short", "sleep", "1")
        register(batch, "long", "sleep", "100")
        yield running


def submit(service, name, attempts=1):
    asked = {"jobName": name, "jobQueue": "default", "jobDefinition": name, "retryStrategy": {"attempts": attempts}}
    return service.client().submit_job(**asked)["jobId"]


def comes_to(service, status):
    end = time.monotonic() + PATIENCE
    while service.health()["status"] != status:
        assert time.monotonic() < end, service.health()
        time.sleep(0.1)


def test_while_it_is_frozen_requests_are_answered_and_afterwards_carried_out(service, engine):
    batch = service.client()
    running = submit(service, "long", attempts=2)
    reaches(batch, running, "RUNNING")
    engine.freeze()

    began = time.monotonic()
    batch.terminate_job(jobId=running, reason="while it was frozen")
    waiting = submit(service, "short")
    batch.describe_jobs(jobs=[running, waiting])
    took = time.monotonic() - began
    engine.thaw()

    assert took < QUICK * 4
    done = reaches(batch, running, "FAILED")
    assert (done["statusReason"], len(done["attempts"])) == ("while it was frozen", 1)
    assert len(reaches(batch, waiting, "SUCCEEDED")["attempts"]) == 1


def test_while_it_is_gone_jobs_wait_and_when_it_is_back_they_run(service, engine):
    batch = service.client()
    engine.stop()
    comes_to(service, "degraded")

    waiting = submit(service, "short")
    assert reaches(batch, waiting, "RUNNABLE")["attempts"] == []
    engine.start()

    comes_to(service, "ok")
    assert len(reaches(batch, waiting, "SUCCEEDED")["attempts"]) == 1


def test_what_it_killed_at_its_end_is_an_attempt_that_failed(service, engine):
    batch = service.client()
    running = submit(service, "long", attempts=2)
    reaches(batch, running, "RUNNING")
    engine.kill()
    comes_to(service, "degraded")

    engine.start()

    comes_to(service, "ok")
    again = reaches(batch, running, "RUNNING", "STARTING")
    while not again["attempts"]:
        time.sleep(0.1)
        again = reaches(batch, running, "RUNNING", "STARTING", "RUNNABLE")
    assert len(again["attempts"]) == 1
    batch.terminate_job(jobId=running, reason="seen enough")
    assert len(reaches(batch, running, "FAILED")["attempts"]) == 2
