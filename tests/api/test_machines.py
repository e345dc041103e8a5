"""ListMachines: `POST /v1/batchq/listmachines`."""

import pytest

from batchq.domain import events as on
from batchq.domain.container import Resources
from batchq.domain.machines import Machine
from tests.support.builders import NOON

SIZE = Resources(millicpus=8000, memory_mib=2048, gpus=2)


@pytest.fixture
async def machines(http):
    async def machines(*, expected=200, **members):
        status, _, answer = await http.post("batchq/ListMachines", members)
        assert status == expected, answer
        return answer

    return machines


async def test_a_machine_is_listed_with_its_room_and_jobs(server, submit, machines):
    job_id = await submit("train")
    node = Machine(name="n1", resources=SIZE, is_enforced=True, max_nodes=110, environment="local", away_since=NOON)
    server.engine.listed = (node,)
    await server.engine.happens(job_id, on.DependenciesMet(), on.Placed(environment="local", machines=("n1",)))

    answer = await machines()

    (row,) = answer["machines"]
    (listed,) = row.pop("jobs")
    assert row == {
        "machine": "n1",
        "state": "AWAY",
        "awaySince": int(NOON.timestamp() * 1000),
        "computeEnvironment": "local",
        "vcpus": {"limit": 8, "requested": 1},
        "memoryMiB": {"limit": 2048, "requested": 64},
        "gpus": {"limit": 2, "requested": 0},
        "nodes": {"limit": 110, "requested": 1},
        "jobCount": 1,
    }
    assert (listed["jobId"], listed["jobName"], listed["status"]) == (job_id, "train", "STARTING")
    assert (answer["counts"], answer["engine"]["state"]) == ({"AWAY": 1}, "OK")


async def test_pages_continue_by_a_token_of_the_same_list(server, machines, default_queue):
    server.engine.listed = tuple(Machine(name=f"n{number}", resources=SIZE, is_enforced=True) for number in range(3))

    first = await machines(maxResults=2)
    second = await machines(maxResults=2, nextToken=first["nextToken"])

    assert [[machine["machine"] for machine in page["machines"]] for page in (first, second)] == [["n0", "n1"], ["n2"]]
    assert "nextToken" not in second
    await machines(computeEnvironment="local", nextToken=first["nextToken"], expected=400)


async def test_the_machines_of_an_environment_that_does_not_exist_are_not_found(server, machines, default_queue):
    server.arrange_machines()

    refused = await machines(computeEnvironment="nowhere", expected=400)

    assert refused["message"] == "Compute environment nowhere does not exist."
    by_arn = "arn:aws:batch:us-east-1:123456789012:compute-environment/local"
    assert (await machines(computeEnvironment=by_arn))["counts"] == {"READY": 1}


async def test_before_the_first_answer_of_the_engine_its_machines_are_not_known(server, machines):
    server.engine.listed = None

    assert "counts" not in await machines()
