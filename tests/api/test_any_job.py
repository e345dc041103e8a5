"""The same of jobs of several containers or nodes, and of arrays: whatever is asked, never an error of ours."""

import asyncio

import pytest
from hypothesis import given, settings

from tests.api.several import DUO, GANG, RANGES, WORKER, with_nodes, with_task, with_worker
from tests.api.test_any_request import Asker, check, play, requests
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
WELL_ASKED = {
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


class Desk(Asker):
    """With the definitions `duo` and `gang`, and a job of each."""

    async def prepare(self):
        await super().prepare()
        for definition in (DUO, GANG):
            await self.ask("RegisterJobDefinition", definition)
            await self.ask("SubmitJob", ARRAY | {"jobDefinition": definition["jobDefinitionName"]})


@pytest.mark.parametrize("what", WELL_ASKED)
async def test_a_request_that_is_well_asked_is_carried_out(what):
    name, asked = WELL_ASKED[what]
    desk = Desk()
    await desk.prepare()

    check(name, await desk.ask(name, asked))


@pytest.mark.hypothesis  # it is given inside
@pytest.mark.parametrize("what", WELL_ASKED)
def test_no_request_breaks_the_server(what):
    name, well_asked = WELL_ASKED[what]

    @settings(max_examples=examples(30), deadline=None)
    @given(requests(well_asked))
    def any_request(asked):
        asyncio.run(play(name, asked, among=Desk))

    any_request()
