"""Nothing in batchq blocks its event loop, measured on a real server under load."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection

import pytest

from tests.service.waiting import reaches, register

CALLERS, EACH = 8, 30


def calls(service, number):
    """Submits and questions, one after the other; the last job's id."""
    with closing(HTTPConnection(service.url.removeprefix("http://"), timeout=60)) as calling:
        for _ in range(number):
            members = {"jobName": "j", "jobQueue": "default", "jobDefinition": "busy"}
            job = post(calling, "submitjob", members)["jobId"]
            post(calling, "describejobs", {"jobs": [job]})
            post(calling, "listjobs", {"jobQueue": "default", "jobStatus": "RUNNABLE"})
    return job


def post(calling, operation, members):
    calling.request("POST", f"/v1/{operation}", json.dumps(members), {"Content-Type": "application/json"})
    return json.loads(calling.getresponse().read())


@pytest.mark.exhaustive
@pytest.mark.fault("LC10")
def test_under_load_and_with_a_large_array_the_event_loop_is_not_blocked(simulated):
    batch = simulated.client()
    register(batch, "busy", "true")
    array = {"jobName": "wide", "jobQueue": "default", "jobDefinition": "busy", "arrayProperties": {"size": 10_000}}
    wide = batch.submit_job(**array)["jobId"]

    with ThreadPoolExecutor(CALLERS) as callers:
        jobs = [*callers.map(lambda _: calls(simulated, EACH), range(CALLERS))]
    batch.terminate_job(jobId=wide, reason="seen")
    reaches(batch, wide, "FAILED")

    assert len(set(jobs)) == CALLERS
    assert simulated.blocked_by() == []
    assert simulated.health()["loops"]["event loop"] == "ok"
