"""The address of the engine has no engine, or an unusable one, when the server starts (EN23)."""

import json
from contextlib import contextmanager

import pytest

from tests.service.waiting import reaches, register
from tests.support.fake_engine import engine, responds
from tests.support.service import serving

TOO_OLD = b'{"message": "client version 1.12 is too old. Minimum supported API version is 1.24"}'


def speaks_an_old_version(handler):
    is_version = handler.path.endswith("/version")
    body = json.dumps({"Version": "1.0", "ApiVersion": "1.12"}).encode() if is_version else TOO_OLD
    responds(200 if is_version else 400, body)(handler)


@contextmanager
def a_folder(folder):
    yield f"unix://{folder}"


def an_old_one(folder):
    return engine(folder, speaks_an_old_version)


def one_that_forbids(folder):
    return engine(folder, responds(403, b'{"message": "permission denied"}', speaks_version=False))


@pytest.mark.fault("EN23")
@pytest.mark.parametrize("place", [pytest.param(a_folder, marks=pytest.mark.exhaustive), an_old_one, one_that_forbids])
def test_the_server_reports_an_unusable_engine_and_jobs_wait(tmp_path, monkeypatch, place):
    (tmp_path / "engine").mkdir()
    with place(tmp_path / "engine") as url:
        monkeypatch.setenv("DOCKER_HOST", url)
        with serving(tmp_path / "data") as service:
            batch = service.client()
            register(batch, "app", "true")

            job = batch.submit_job(jobName="one", jobQueue="default", jobDefinition="app")["jobId"]

            health = service.health()
            assert (health["status"], health["store"]) == ("degraded", "ok")
            assert health["engine"] != "ok"
            assert reaches(batch, job, "RUNNABLE")["attempts"] == []
            assert service.stop() == 0
