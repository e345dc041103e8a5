"""DescribeJobs and ListJobs of arrays, of jobs of several containers, and of jobs of several nodes and their nodes."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.api.batch.arns import BatchArns
from batchq.api.batch.describe_jobs import job_detail
from batchq.domain import events as on
from batchq.domain.enums import AttemptContainerState, Status
from batchq.domain.ids import JobId, Tag, child_id
from batchq.domain.job import ArrayChild, ArrayState, AttemptContainer
from batchq.domain.lifecycle import views
from batchq.domain.task import Task, TaskContainer
from batchq.ports.jobs import Changes
from batchq.services.job_views import JobView
from tests.api.conftest import ARN, CONTAINER
from tests.api.several import DUO, GANG
from tests.support import builders
from tests.support.builders import NOON

MS = 1795262400000  # noon
EXITED = "Essential container in task exited"
LISTS = {"environment": [], "mountPoints": [], "secrets": [], "ulimits": [], "volumes": []}


def part(key, **changes):
    return AttemptContainer(**{"key": key, "state": AttemptContainerState.RUNNING, "started_at": NOON} | changes)


def over(key, exit_code, **changes):
    ended = {"state": AttemptContainerState.ENDED, "exit_code": exit_code, "stopped_at": NOON + timedelta(seconds=90)}
    return part(key, **ended | changes)


def stream(job_id, part, name="gang"):
    tag = Tag(job_id=JobId(job_id), attempt=1, container_key=part)
    return f"{name}/{tag.container}/{tag.task_id}"


@pytest.fixture
async def several(submit, boto):
    """Submit a job of `duo` or of `gang`; returns its id."""
    await boto.register_job_definition(**DUO)
    await boto.register_job_definition(**GANG)
    return submit


@pytest.fixture
def becomes(server):
    """A job as the engine would have made it."""

    async def becomes(job_id, **changes):
        await server.engine.save(replace(await server.engine.job(JobId(job_id)), **changes))

    return becomes


@pytest.fixture
def runs(becomes):
    """A job whose attempt has these containers."""

    async def runs(job_id, *parts):
        attempt = builders.attempt(containers=parts, started_at=NOON)
        await becomes(job_id, status=Status.RUNNING, attempt=attempt, started_at=NOON)

    return runs


@pytest.fixture
def ends(becomes):
    """A job whose only attempt was these containers, and was decided by the first."""

    async def ends(job_id, *parts, status=Status.SUCCEEDED):
        first = parts[0]
        attempt = builders.attempt(
            containers=parts,
            started_at=first.started_at,
            stopped_at=first.stopped_at,
            exit_code=first.exit_code,
            status_reason=EXITED,
            decided_by=first.key,
        )
        await becomes(
            job_id, status=status, status_reason=EXITED, attempt=None, attempts=(attempt,), stopped_at=first.stopped_at
        )

    return ends


@pytest.fixture
async def array(server, submit, becomes):
    """An array of three: one child SUCCEEDED, one RUNNING, one not spawned yet."""
    job_id = await submit("many", arrayProperties={"size": 3}, retryStrategy={"attempts": 2}, tags={"a": "b"})
    counts = ((Status.RUNNING, 1), (Status.SUCCEEDED, 1))
    await becomes(job_id, status=Status.PENDING, array_state=ArrayState(spawned=2, counts=counts, counted_at=NOON))
    parent = await server.engine.job(JobId(job_id))
    done = builders.attempt(started_at=NOON, stopped_at=NOON, exit_code=0, status_reason=EXITED)
    children = [
        {"status": Status.SUCCEEDED, "attempts": (done,), "status_reason": EXITED, "stopped_at": NOON},
        {"status": Status.RUNNING, "attempt": builders.attempt(started_at=NOON)},
    ]
    made = tuple(
        replace(
            parent,
            id=child_id(parent.id, n),
            sequence=parent.sequence + 1 + n,
            created_at=NOON,
            started_at=NOON,
            child=ArrayChild(parent=parent.id, index=n),
            array_state=None,
            tags=(),
            **changes,
        )
        for n, changes in enumerate(children)
    )
    await server.store.commit(Changes(inserted=made))
    return job_id


async def test_a_child_that_is_not_spawned_yet_is_shown_and_explained_but_not_by_describe_jobs(array, http):
    _, _, shown = await http.send("GET", f"/v1/batchq/jobs/{array}:2")
    _, _, why = await http.send("GET", f"/v1/batchq/jobs/{array}:2/why")
    _, _, history = await http.send("GET", f"/v1/batchq/jobs/{array}:2/history")
    others = [(await http.send("GET", f"/v1/batchq/jobs/{array}:{text}"))[0] for text in ("1", "3", "02")]
    no_history = [(await http.send("GET", f"/v1/batchq/jobs/{array}:{text}/history"))[0] for text in ("3", "02")]
    _, _, by_aws = await http.post("DescribeJobs", {"jobs": [f"{array}:2"]})

    job = shown["job"]
    assert (job["status"], job["arrayIndex"], job["parentId"], job["attempts"]) == ("PENDING", 2, array, [])
    assert (why["code"], why["facts"]["ahead"], why["facts"]["array"]["code"]) == ("NOT_CREATED", 0, "CHILDREN")
    assert history == {"jobId": f"{array}:2", "history": []}
    assert (others, no_history) == ([200, 404, 404], [404, 404])
    assert by_aws["jobs"] == []


async def test_an_array_has_its_size_and_status_summary(array, submit, described):
    job = await described(array)
    new = (await described(await submit(arrayProperties={"size": 2})))["arrayProperties"]

    assert (job["status"], job["attempts"]) == ("PENDING", [])
    assert job["container"]["image"] == CONTAINER["image"]
    assert "taskArn" not in job["container"]
    assert job["arrayProperties"] == {
        "size": 3,
        "statusSummary": dict.fromkeys(map(str, Status), 0) | {"RUNNING": 1, "SUCCEEDED": 1},
        "statusSummaryLastUpdatedAt": MS,
    }
    assert set(new["statusSummary"].values()) == {0}
    assert "statusSummaryLastUpdatedAt" not in new


async def test_a_queue_lists_arrays_and_an_array_its_children(array, boto):
    queue = await boto.list_jobs(jobQueue="default", jobStatus="PENDING")
    ignored = [{"name": "JOB_NAME", "values": ["other"]}]
    running = await boto.list_jobs(arrayJobId=array, filters=ignored)
    done = await boto.list_jobs(arrayJobId=f"{ARN}job/{array}", jobStatus="SUCCEEDED")

    (parent,) = queue["jobSummaryList"]
    assert (parent["jobId"], parent["arrayProperties"]["size"]) == (array, 3)
    assert "capacityUsage" not in parent
    assert [job["jobId"] for job in running["jobSummaryList"]] == [f"{array}:1"]
    assert [summary["arrayProperties"] for summary in done["jobSummaryList"]] == [{"index": 0}]


@pytest.mark.parametrize("name", ["garbage", "5d1f6c1e-0000-4000-8000-000000000000", "arn:aws:batch:x"])
@pytest.mark.parametrize("selector", ["arrayJobId", "multiNodeJobId"])
async def test_a_single_job_lists_no_children_and_no_nodes(default_queue, boto, selector, name):
    assert (await boto.list_jobs(**{selector: name}))["jobSummaryList"] == []


async def test_children_come_in_pages(server, array, boto):
    first = await server.engine.job(child_id(JobId(array), 0))
    await server.engine.save(replace(first, status=Status.RUNNING, attempts=(), attempt=builders.attempt()))

    pages = await boto.pages("list_jobs", arrayJobId=array, PaginationConfig={"PageSize": 1})

    assert sorted(job["jobId"] for page in pages for job in page["jobSummaryList"]) == [f"{array}:0", f"{array}:1"]
    assert "nextToken" not in pages[-1]


@pytest.mark.parametrize("selector", ["arrayJobId", "multiNodeJobId"])
async def test_a_token_of_one_listing_is_refused_by_another(array, submit, boto, selector):
    for _ in range(2):
        await submit()
    token = (await boto.list_jobs(jobQueue="default", jobStatus="SUBMITTED", maxResults=1))["nextToken"]

    with pytest.raises(boto.exceptions.ClientException, match="nextToken is not valid"):
        await boto.list_jobs(**{selector: array}, jobStatus="SUBMITTED", nextToken=token)


async def test_a_queued_task_has_its_containers(several, described):
    needs = {"consumableResourceList": [{"consumableResource": "licence", "quantity": 2}]}
    members = {"jobDefinition": "duo", "parameters": {"port": "80"}, "consumableResourcePropertiesOverride": needs}
    job = await described(await several(**members))

    (task,) = job["ecsProperties"]["taskProperties"]
    assert job["consumableResourceProperties"] == {
        "consumableResourceList": [{"consumableResource": ARN + "consumable-resource/licence", "quantity": 2}]
    }
    assert not {"arrayProperties", "nodeProperties", "nodeDetails"} & job.keys()
    assert job["container"] == {}
    assert [container["command"] for container in task["containers"]] == [["serve", "80"], ["run", "80"]]
    assert task["containers"][1]["dependsOn"] == [{"containerName": "side", "condition": "START"}]
    assert not {"taskArn", "containerInstanceArn"} & task.keys()
    assert not {"exitCode", "logStreamName", "reason"} & task["containers"][0].keys()


async def test_a_created_host_path_is_shown_with_its_container(server, several, described):
    job_id = await several(jobDefinition="duo")
    made = on.ContainerCreated(attempt=1, container_key="0/side", container_id="x", created_host_paths=("/a", "/b"))
    await server.engine.happens(JobId(job_id), on.DependenciesMet(), on.Placed(environment="local"), made)

    job = await described(job_id)

    side, _ = job["ecsProperties"]["taskProperties"][0]["containers"]
    assert {job["statusReason"], side["reason"]} == {"Host paths that did not exist were created: '/a', '/b'."}


async def test_a_task_has_the_log_stream_and_the_outcome_of_each_container(several, runs, ends, described):
    job_id = await several(jobDefinition="duo")
    await runs(job_id, part("0/side"), part("0/work", state=AttemptContainerState.STARTING, started_at=None))
    (running,) = (await described(job_id))["ecsProperties"]["taskProperties"]
    await ends(job_id, over("0/work", 3, reason="why"), over("0/side", 143), status=Status.FAILED)

    job = await described(job_id)

    streams = [container.get("logStreamName") for container in running["containers"]]
    assert streams == [stream(job_id, "0/side", "duo"), None]
    assert running["taskArn"].endswith(Tag(job_id=JobId(job_id), attempt=1, container_key="0/work").task_id)
    (task,) = job["ecsProperties"]["taskProperties"]
    (attempt,) = job["attempts"]
    assert [
        (container["name"], container["exitCode"], container.get("reason")) for container in task["containers"]
    ] == [("side", 143, None), ("work", 3, "why")]
    assert (attempt["container"]["exitCode"], attempt["startedAt"], attempt["stoppedAt"]) == (3, MS, MS + 90000)
    assert attempt["container"]["logStreamName"] == stream(job_id, "0/work", "duo")
    (ended_task,) = attempt["taskProperties"]
    assert ended_task["taskArn"] == task["taskArn"]
    assert ended_task["containers"][0] == {
        "name": "work",
        "exitCode": 3,
        "reason": "why",
        "logStreamName": stream(job_id, "0/work", "duo"),
        "networkInterfaces": [],
    }


async def test_a_gang_has_node_properties_and_no_container(several, described):
    over = {"command": ["x"], "environment": [{"name": "A", "value": "1"}]}
    job = await described(
        await several(
            jobDefinition="gang",
            parameters={"port": "80"},
            nodeOverrides={"numNodes": 5, "nodePropertyOverrides": [{"targetNodes": "0:", "containerOverrides": over}]},
        )
    )

    properties = job["nodeProperties"]
    first, second = properties["nodeRangeProperties"]
    assert "container" not in job
    assert (properties["numNodes"], properties["mainNode"]) == (5, 0)
    assert first == {"targetNodes": "0:", "container": LISTS | CONTAINER | over}
    assert second["targetNodes"] == "2:3"
    (task,) = second["ecsProperties"]["taskProperties"]
    assert [container["command"] for container in task["containers"]] == [["serve", "80"], ["run", "80"]]


async def test_a_finished_gang_has_the_outcome_of_its_main_node(several, ends, described):
    job_id = await several(jobDefinition="gang")
    await ends(job_id, over("0/default", 4), over("1/default", 0), status=Status.FAILED)

    (attempt,) = (await described(job_id))["attempts"]

    assert attempt["container"]["exitCode"] == 4
    assert attempt["container"]["logStreamName"] == stream(job_id, "0/default")


async def test_each_node_is_described_as_a_job(several, runs, boto):
    job_id = await several(jobDefinition="gang")
    address = part("0/default", address="10.1.0.2")
    await runs(job_id, address, over("1/default", 9), part("2/side"), part("2/work"))

    ids = [f"{job_id}#{n}" for n in (0, 1, 2, 4)] + [f"{ARN}job/{job_id}#3", f"{job_id}#03"]
    main, failed, several_, waiting = (await boto.describe_jobs(jobs=ids))["jobs"]

    assert [job["nodeDetails"] for job in (main, failed)] == [
        {"nodeIndex": 0, "isMainNode": True},
        {"nodeIndex": 1, "isMainNode": False},
    ]
    assert (main["jobArn"], main["status"]) == (f"{ARN}job/{job_id}#0", "RUNNING")
    assert main["container"]["networkInterfaces"] == [{"privateIpv4Address": "10.1.0.2"}]
    assert main["container"]["logStreamName"] == stream(job_id, "0/default")
    assert "nodeProperties" not in main
    assert (failed["status"], failed["container"]["exitCode"], failed["stoppedAt"]) == ("FAILED", 9, MS + 90000)
    assert failed["attempts"][0]["container"]["exitCode"] == 9
    assert several_["container"] == {}
    assert [container["name"] for container in several_["ecsProperties"]["taskProperties"][0]["containers"]] == [
        "side",
        "work",
    ]
    assert (waiting["jobId"], waiting["status"]) == (f"{job_id}#3", "STARTING")


async def test_a_gang_lists_its_nodes(several, runs, boto, accepted):
    job_id = await several("the-gang", jobDefinition="gang")
    await runs(job_id, part("0/default"), over("1/default", 0), part("2/work"), part("3/work"))

    running = await boto.list_jobs(multiNodeJobId=job_id)
    done = await boto.list_jobs(multiNodeJobId=f"{ARN}job/{job_id}", jobStatus="SUCCEEDED")

    assert [job["nodeProperties"] for job in running["jobSummaryList"]] == [
        {"isMainNode": True, "numNodes": 4, "nodeIndex": 0},
        {"isMainNode": False, "numNodes": 4, "nodeIndex": 2},
        {"isMainNode": False, "numNodes": 4, "nodeIndex": 3},
    ]
    assert [summary["capacityUsage"][0]["quantity"] for summary in running["jobSummaryList"]] == [1, 1.25, 1.25]
    listed = await accepted("ListJobs", {"multiNodeJobId": job_id})
    assert repr(listed["jobSummaryList"][0]["capacityUsage"][0]["quantity"]) == "1"
    assert ".0" not in repr(await accepted("DescribeJobs", {"jobs": [f"{job_id}#0", job_id]}))
    (one,) = done["jobSummaryList"]
    assert (one["jobId"], one["jobName"], one["container"]) == (f"{job_id}#1", "the-gang", {"exitCode": 0})


async def test_nodes_come_in_pages_and_a_queue_lists_a_gang_as_one_job(several, boto):
    job_id = await several(jobDefinition="gang")

    pages = await boto.pages(
        "list_jobs", multiNodeJobId=job_id, jobStatus="SUBMITTED", PaginationConfig={"PageSize": 3}
    )

    described = [[job["nodeProperties"]["nodeIndex"] for job in page["jobSummaryList"]] for page in pages]
    (whole,) = (await boto.list_jobs(jobQueue="default", jobStatus="SUBMITTED"))["jobSummaryList"]
    assert described == [[0, 1, 2], [3]]
    assert whole["nodeProperties"] == {"numNodes": 4}
    assert whole["capacityUsage"] == [{"capacityUnit": "VCPU", "quantity": 4.5}]


async def test_pages_of_nodes_continue_after_the_last_node_while_nodes_end(several, runs, boto):
    job_id = await several(jobDefinition="gang")
    await runs(job_id, *(part(f"{n}/default") for n in range(2)), part("2/work"), part("3/work"))
    first = await boto.list_jobs(multiNodeJobId=job_id, maxResults=2)
    await runs(job_id, part("0/default"), over("1/default", 0), part("2/work"), part("3/work"))

    rest = await boto.list_jobs(multiNodeJobId=job_id, maxResults=2, nextToken=first["nextToken"])

    assert [job["nodeProperties"]["nodeIndex"] for job in rest["jobSummaryList"]] == [2, 3]


def test_a_job_without_a_stored_definition_has_its_images():
    arns = BatchArns(account="123456789012", region="eu-central-1")
    task = Task(containers=(TaskContainer(name="work", spec=builders.container(image="busybox")),))
    gang = builders.gang(2, each=task)

    of_task = job_detail(JobView(job=builders.job(task=task)), arns)
    of_gang = job_detail(JobView(job=builders.job(nodes=gang)), arns)
    of_node = job_detail(JobView(job=views.node_view(builders.job(nodes=gang), 1)), arns)

    described = [of_task, of_gang["nodeProperties"]["nodeRangeProperties"][0], of_node]
    containers = [job["ecsProperties"]["taskProperties"][0]["containers"] for job in described]
    assert [(container["name"], container["image"]) for (container,) in containers] == [("work", "busybox")] * 3
    assert of_gang["nodeProperties"]["numNodes"] == 2


@pytest.mark.fault("LC06")
@pytest.mark.parametrize("definition", ["duo", "gang"])
async def test_a_job_whose_specification_is_damaged_is_described(several, runs, server, described, definition):
    job_id = await several(jobDefinition=definition)
    await runs(job_id, part("0/work"), part("0/side"))
    server.store.connection.execute("UPDATE job_specs SET spec = '{'")

    job = await described(job_id)

    assert (job["jobName"], job["container"]["image"]) == ("a-job", "")
