"""Arbitrary requests about jobs with several containers or nodes, and arrays, never cause a server error."""

import asyncio

import pytest
from hypothesis import given, settings

from tests.api.several import DUO, GANG, RANGES, WORKER, with_nodes, with_task, with_worker
from tests.api.test_arbitrary_requests import HandlerClient, check, play, requests
from tests.support.examples import examples

NEEDS = {"consumableResourceList": [{"consumableResource": "licences", "quantity": 2}]}
OVER = {
    "name": "work",
    "command": ["echo", "Ref::port"],
    "environment": [{"name": "A", "value": "1"}],
    "resourceRequirements": [{"type": "MEMORY", "value": "128"}],
}
WHOLE_TASK = with_task(
    volumes=[{"name": "v"}],
    ipcMode="task",
    pidMode="task",
    networkMode="awsvpc",
    platformVersion="LATEST",
    containers=[
        *with_worker()["ecsProperties"]["taskProperties"][0]["containers"],
        WORKER
        | {
            "name": "more",
            "essential": True,
            "startTimeout": 2,
            "stopTimeout": 2,
            "mountPoints": [{"sourceVolume": "v", "containerPath": "/v", "readOnly": True}],
        },
    ],
)
WHOLE_GANG = with_nodes(
    nodeRangeProperties=[
        RANGES[0] | {"instanceTypes": ["c5.large"], "consumableResourceProperties": NEEDS},
        RANGES[1],
    ]
)
ARRAY = {"jobName": "new", "jobQueue": "default", "jobDefinition": "duo"}
VALID_REQUESTS = {
    "a task": ("RegisterJobDefinition", WHOLE_TASK | {"consumableResourceProperties": NEEDS}),
    "a gang": ("RegisterJobDefinition", WHOLE_GANG | {"consumableResourceProperties": NEEDS}),
    "an array of tasks": (
        "SubmitJob",
        ARRAY
        | {
            "arrayProperties": {"size": 2},
            "dependsOn": [{"type": "SEQUENTIAL"}],
            "ecsPropertiesOverride": {"taskProperties": [{"containers": [OVER]}]},
            "consumableResourcePropertiesOverride": NEEDS,
            "parameters": {"port": "80"},
        },
    ),
    "a gang of another size": (
        "SubmitJob",
        ARRAY
        | {
            "jobDefinition": "gang",
            "nodeOverrides": {
                "numNodes": 5,
                "nodePropertyOverrides": [
                    {
                        "targetNodes": "0:",
                        "containerOverrides": {"command": ["x"], "vcpus": 2},
                        "instanceTypes": ["c5.large"],
                        "consumableResourcePropertiesOverride": NEEDS,
                    },
                    {
                        "targetNodes": "2:3",
                        "ecsPropertiesOverride": {"taskProperties": [{"containers": [OVER]}]},
                    },
                ],
            },
        },
    ),
    "the children": ("ListJobs", {"arrayJobId": "x", "jobStatus": "SUBMITTED", "maxResults": 1}),
    "the nodes": ("ListJobs", {"multiNodeJobId": "x", "jobStatus": "SUBMITTED", "maxResults": 1, "nextToken": ""}),
}


class ClientOfAllKinds(HandlerClient):
    """A client with the definitions `duo` and `gang`, and a job of each."""

    async def prepare(self):
        await super().prepare()
        for definition in (DUO, GANG):
            await self.send("RegisterJobDefinition", definition)
            await self.send("SubmitJob", ARRAY | {"jobDefinition": definition["jobDefinitionName"]})


@pytest.mark.parametrize("what", VALID_REQUESTS)
async def test_valid_requests_succeed(what):
    name, members = VALID_REQUESTS[what]
    client = ClientOfAllKinds()
    await client.prepare()

    check(name, await client.send(name, members))


@pytest.mark.parametrize("what", VALID_REQUESTS)
def test_no_request_causes_a_server_error(what):
    name, valid = VALID_REQUESTS[what]

    @settings(max_examples=examples(30), deadline=None)
    @given(requests(valid))
    def any_request(members):
        asyncio.run(play(name, members, among=ClientOfAllKinds))

    any_request()
