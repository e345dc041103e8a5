"""Concurrent requests: queues and definitions change while jobs are submitted."""

import asyncio
from itertools import chain

import pytest

from batchq.services import submissions
from tests.api.conftest import CONTAINER
from tests.api.several import GANG

REQUEST = {"jobName": "a-job", "jobQueue": "default", "jobDefinition": "sleeper"}


async def outcomes(requests):
    """The statuses and ids of requests that are sent together."""
    answers = await asyncio.gather(*requests)
    return {status for status, _, _ in answers}, [answer["jobId"] for _, _, answer in answers if "jobId" in answer]


def mixed(http, change):
    """Ten submissions, the change, and ten more."""
    operation, members = change
    submissions = [http.post("SubmitJob", REQUEST) for _ in range(20)]
    return chain(submissions[:10], [http.post(operation, members)], submissions[10:])


CHANGES = [
    ("DeregisterJobDefinition", {"jobDefinition": "sleeper:1"}),
    ("UpdateJobQueue", {"jobQueue": "default", "state": "DISABLED"}),
]


@pytest.mark.fault("IN25")
@pytest.mark.parametrize("change", CHANGES, ids=str)
async def test_a_definition_or_queue_that_goes_during_submission_gives_a_complete_job_or_an_error(
    server, sleeper, http, boto, change
):
    statuses, made = await outcomes(mixed(http, change))

    assert statuses <= {200, 400}
    assert len((await boto.describe_jobs(jobs=made))["jobs"]) == len(made) == len(server.store.all_jobs())


@pytest.mark.fault("IN25")
async def test_a_definition_of_a_new_kind_during_a_submission_is_used_before_or_after_the_change(sleeper, http, boto):
    members = GANG | {"jobDefinitionName": "sleeper"}

    statuses, made = await outcomes(mixed(http, ("RegisterJobDefinition", members)))

    assert statuses == {200}
    jobs = (await boto.describe_jobs(jobs=made))["jobs"]
    kinds = {job["jobDefinition"].rpartition(":")[2]: "nodeProperties" in job for job in jobs}
    assert kinds.items() <= {"1": False, "2": True}.items()


@pytest.mark.fault("IN25")
async def test_overrides_of_one_revision_are_never_applied_to_another(sleeper, http, boto):
    """An override is validated with the revision that the job uses."""
    bigger = CONTAINER | {"resourceRequirements": [], "vcpus": 2, "memory": 128}
    change = http.post(
        "RegisterJobDefinition", {"jobDefinitionName": "sleeper", "type": "container", "containerProperties": bigger}
    )
    members = REQUEST | {"containerOverrides": {"memory": 256}}

    _, made = await outcomes([change, *(http.post("SubmitJob", members) for _ in range(20))])

    jobs = (await boto.describe_jobs(jobs=made))["jobs"]
    memories = {job["jobDefinition"].rpartition(":")[2]: job["container"].get("memory") for job in jobs}
    assert memories.items() <= {"1": None, "2": 256}.items()


@pytest.mark.fault("SE95")
async def test_expressions_of_many_requests_of_a_user_are_compiled_in_turns_of_the_event_loop(
    sleeper, http, monkeypatch
):
    turn, turns = 0, []

    async def count():
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    monkeypatch.setattr(submissions, "patterns", lambda _: turns.append(turn))
    tags = {f"batchq:metric:m{number}": "loss=(.*)" for number in range(5)}
    counting = asyncio.create_task(count())

    statuses, _ = await outcomes([http.post("SubmitJob", REQUEST | {"tags": tags}) for _ in range(10)])
    counting.cancel()

    assert statuses == {200}
    assert len(turns) == len(set(turns)) == 50
