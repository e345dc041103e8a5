"""ModelArts training jobs: show, terminate, delete, describe, search and events, and the phases of any job."""

import asyncio
import json
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from batchq.api.training.common.training_jobs import BucketFolders
from batchq.api.training.modelarts import flavors, job_document, lists, operations
from batchq.api.training.modelarts.job_document import FAILURES, phases
from batchq.api.training.modelarts.wire import TrainingEventsQuery
from batchq.domain.enums import Status, StopKind, StopProgress
from batchq.domain.stop_values import StopStep
from batchq.domain.training_jobs import TrainingFailure, TrainingJobView
from batchq.ports.history import HistoryEntry
from tests.api.modelarts import JOBS, PROJECT, SEARCHES, UNKNOWN, creation
from tests.support.builders import NOON, attempt, job, job_id, stop

TERMINATE = {"action_type": "terminate"}


@pytest.fixture
async def create(default_queue, http):
    """Create a job; returns its id."""

    async def create(name="resnet", *, at=JOBS, **members):
        status, _, answer = await http.send("POST", at, data=json.dumps(creation(name, **members)))
        assert status == 201, answer
        return answer["metadata"]["id"]

    return create


@pytest.fixture
def send(http):
    """Send a request for a job; returns status and answer."""

    async def send(method, job, part="", body=None):
        status, _, answer = await http.send(
            method, f"{JOBS}/{job}{part}", data=None if body is None else json.dumps(body)
        )
        return status, answer

    return send


@pytest.fixture
def search(http):
    """Search for jobs; returns the answer."""

    async def search(*filters, at=SEARCHES, **body):
        body |= {"filters": [dict(zip(("key", "operator", "value"), condition, strict=True)) for condition in filters]}
        status, _, answer = await http.send("POST", at, data=json.dumps(body))
        return answer if status == 200 else answer["error_code"]

    return search


def names(answer):
    return [pod["metadata"]["name"] for pod in answer["items"]]


async def test_a_running_job_is_terminated_once(server, create, send):
    job = await create()
    await server.runs(job)

    first, second = [await send("POST", job, "/actions", TERMINATE) for _ in range(2)]
    await server.ends(job)
    third = await send("POST", job, "/actions", TERMINATE)
    _, shown = await send("GET", job)

    assert (first[0], first[1]["status"]["phase"]) == (202, "Terminating")
    assert [(status, answer["error_code"], answer["error_msg"]) for status, answer in (second, third)] == [
        (409, "ModelArts.2796", "The job cannot be terminated.")
    ] * 2
    assert shown["status"]["phase"] == "Terminated"
    assert shown["status"]["task_statuses"][0]["exit_code"] == 0


async def test_a_job_that_ends_before_it_is_terminated_has_changed(server, create, send):
    job = await create()
    await server.runs(job)
    server.engine.reached.clear()
    server.engine.gate.clear()
    termination = asyncio.create_task(send("POST", job, "/actions", TERMINATE))
    await server.engine.reached.wait()

    await server.ends(job)
    server.engine.gate.set()

    status, answer = await termination
    assert (status, answer["error_code"], answer["error_msg"]) == (409, "ModelArts.2878", "Job status changed")
    server.changed_by_errors.clear()  # the end of the job was the change


@pytest.mark.parametrize(
    ("body", "code"),
    [({}, "2788"), ({"action_type": "pause"}, "2812"), ({"action_type": 1}, "2788"), ({"action_type": ""}, "2812")],
)
async def test_an_action_other_than_terminate_is_refused(create, send, body, code):
    status, answer = await send("POST", await create(), "/actions", body)

    assert (status, answer["error_code"]) == (400, f"ModelArts.{code}")


CALLS = (
    ("GET", "", None),
    ("POST", "/actions", TERMINATE),
    ("PUT", "", {"description": ""}),
    ("DELETE", "", None),
    ("GET", "/events", None),
    ("GET", "/stages", None),
    ("GET", "/tasks/worker-0/logs/preview", None),
)


async def test_an_unknown_job_is_not_found(default_queue, send):
    for missing, (method, *others) in product([UNKNOWN, "x", f"{UNKNOWN}:0", f"{UNKNOWN}%230", "%00"], CALLS):
        status, answer = await send(method, missing, *others)

        assert (status, answer["error_code"]) == (400, "ModelArts.2775"), (missing, method, others)


async def test_a_job_of_aws_batch_is_shown_and_terminated_in_every_project(submit, send, search):
    job = await submit("by-boto3", containerOverrides={"environment": [{"name": "A", "value": "1"}]})

    _, shown = await send("GET", job)
    stopped, _ = await send("POST", job, "/actions", TERMINATE)

    assert shown["metadata"]["name"] == "by-boto3"
    assert shown["algorithm"] == {
        "command": "sleep 1",
        "engine": {"image_url": "batchq-test:latest"},
        "environments": {"A": "1"},
    }
    assert stopped == 202
    assert (await search())["total"] == 0


@pytest.mark.parametrize("call", CALLS)
async def test_a_job_is_found_below_its_own_project_only(server, create, http, call):
    (method, part, body), job = call, await create()

    for project, expected in (("another", (400, "ModelArts.2775")), (PROJECT[:-1], (400, "ModelArts.2775"))):
        at = f"/v2/{project}/training-jobs/{job}{part}"
        status, _, answer = await http.send(method, at, data=None if body is None else json.dumps(body))
        assert (status, answer["error_code"]) == expected
    assert (await server.engine.job(job)).status is not Status.FAILED


@pytest.mark.parametrize(
    ("exit_code", "expected"), [(0, ("", None)), (3, ("The task exited with code 3.", "worker-0"))]
)
async def test_the_message_of_a_task_is_an_error(server, create, send, exit_code, expected):
    message, task = expected
    job = await create()
    await server.runs(job)
    await server.ends(job, exit_code=exit_code)

    status = (await send("GET", job))[1]["status"]

    assert status["task_statuses"] == [{"task": "worker-0", "exit_code": exit_code, "message": message}]
    (record,) = status["running_records"]
    assert (record["start_type"], record.get("end_related_task")) == ("init_or_rescheduled", task)


async def test_a_terminate_is_the_failure_of_no_task(server, create, send):
    job = await create()
    await server.runs(job)
    await send("POST", job, "/actions", TERMINATE)
    await server.ends(job, exit_code=137)

    status = (await send("GET", job))[1]["status"]

    assert status["task_statuses"] == [{"task": "worker-0", "exit_code": 137, "message": ""}]
    assert "end_related_task" not in status["running_records"][0]


def structs():
    modules = (flavors, job_document, lists, operations)
    found = {
        var for module in modules for var in vars(module).values() if isinstance(var, type) and issubclass(var, Struct)
    }
    return {kind.__name__: kind for kind in found if kind.__module__.startswith("batchq.api.training.modelarts.")}


def test_a_member_with_a_value_is_never_left_out_of_an_answer():
    for name, shape in structs().items():
        omitted = [field.name for field in fields(shape) if field.default not in {NODEFAULT, None}]

        assert not (shape.__struct_config__.omit_defaults and omitted), name


async def test_a_page_of_a_search_has_its_ai_project(create, search):
    await create()

    assert (await search())["ai_project"] == "default-ai-project"


async def test_a_finished_job_is_deleted_and_an_unfinished_one_is_not(server, create, send, search):
    job = await create()
    refused, why = await send("DELETE", job)
    await server.runs(job)
    await server.ends(job)

    deleted, _ = await send("DELETE", job)
    shown, _ = await send("GET", job)

    assert (refused, why["error_code"]) == (409, "ModelArts.2796")
    assert (deleted, shown) == (202, 400)
    assert (await search())["total"] == 0


async def test_the_description_can_be_changed_and_nothing_else(create, send):
    job = await create(metadata={"description": "before"})

    changed, _ = await send("PUT", job, "", {"description": "after"})
    refused, why = await send("PUT", job, "", {"description": "x", "spec": {"schedule_policy": {"priority": 1}}})
    _, shown = await send("GET", job)

    assert (changed, refused, why["error_code"]) == (200, 400, "ModelArts.2858")
    assert shown["metadata"]["description"] == "after"


async def test_a_project_in_the_header_other_than_in_the_path_is_refused(default_queue, http):
    for project, expected in (("another", (404, "ModelArts.2786")), (PROJECT, (400, "ModelArts.2775"))):
        status, _, answer = await http.send("GET", f"{JOBS}/{UNKNOWN}", X_Project_Id=project)
        assert (status, answer["error_code"]) == expected


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", f"/v2/{PROJECT}/algorithms", (400, "ModelArts.2858")),
        ("POST", "/v2/a_b/training-jobs", (400, "ModelArts.2858")),
        ("PATCH", JOBS, (405, "ModelArts.2803")),
    ],
)
async def test_another_operation_is_refused_in_the_vendors_shape(http, method, path, expected):
    status, headers, answer = await http.send(method, path, data="{}")

    assert (status, answer["error_code"]) == expected
    assert headers["X-Request-Id"]


async def test_pages_are_numbered_and_count_all_matches(create, search):
    for name in "abcde":
        await create(name)

    pages = [await search(limit=2, offset=index) for index in range(4)]

    assert [names(page) for page in pages] == [["e", "d"], ["c", "b"], ["a"], []]
    assert {page["total"] for page in pages} == {5}
    assert names(await search(limit=3, order="asc")) == ["a", "b", "c"]


async def test_filters_of_a_search(server, create, search):
    first = await create("resnet-1", algorithm={"name": "resnet"})
    await create("bert-1")
    await create("elsewhere", at="/v2/another/training-jobs")
    await server.runs(first)
    at = int((await server.engine.job(first)).created_at.timestamp() * 1000)

    assert names(await search()) == ["bert-1", "resnet-1"]
    assert names(await search(("name", "like", ["net"]))) == ["resnet-1"]
    assert names(await search(("name", "in", ["bert-1", "x"]))) == ["bert-1"]
    assert names(await search(("name", "in", ["BERT-1"]))) == []
    assert names(await search(("name", "not", ["bert-1"]))) == ["resnet-1"]
    assert names(await search(("phase", "in", ["Running"]))) == ["resnet-1"]
    assert names(await search(("phase", "not", ["Running"]))) == ["bert-1"]
    assert names(await search(("algorithm_name", "in", ["resnet"]))) == ["resnet-1"]
    assert names(await search(("kind", "in", ["job"]))) == ["bert-1", "resnet-1"]
    assert names(await search(("user_id", "not", ["unknown"]))) == ["bert-1", "resnet-1"]
    assert names(await search(("create_time", "between", [str(at), str(at)]))) == ["resnet-1"]
    assert names(await search(("name", "like", [""]), ("phase", "in", []))) == ["bert-1", "resnet-1"]
    assert names(await search(workspace_id="1")) == []
    assert names(await search(at="/v2/another/training-job-searches")) == ["elsewhere"]
    assert names(await search(at="/v2/anoth/training-job-searches")) == []


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        (("shoe_size", "in", ["9"]), "2807"),
        (("name", "between", ["a", "b"]), "2808"),
        (("name", None, ["a"]), "2808"),
        (("create_time", "in", ["1"]), "2808"),
        (("create_time", "between", ["yesterday"]), "2809"),
        (("create_time", "between", ["1", "2", "3"]), "2809"),
        (("phase", "in", ["Sleeping"]), "2809"),
    ],
)
async def test_an_unsupported_filter_is_refused(default_queue, search, condition, code):
    assert await search(condition) == f"ModelArts.{code}"


@pytest.mark.parametrize(
    ("body", "code"),
    [({"sort_by": "name"}, "2790"), ({"order": "up"}, "2788"), ({"limit": 51}, "2788"), ({"offset": -1}, "2788")],
)
async def test_an_unsupported_page_is_refused(default_queue, search, body, code):
    assert await search(**body) == f"ModelArts.{code}"


async def test_events_are_the_history_of_a_job(server, create, send):
    job = await create()
    await server.runs(job)
    await server.ends(job, exit_code=3)

    _, all_ = await send("GET", job, "/events?order=asc")
    _, page = await send("GET", job, "/events?limit=1&offset=1")
    _, errors = await send("GET", job, "/events?level=Error")
    _, found = await send("GET", job, "/events?pattern=running")
    refused, why = await send("GET", job, "/events?limit=101")

    assert [event["level"] for event in all_["events"]] == ["Info", "Info", "Info", "Info", "Error"]
    assert all_["total"] == 5
    assert page["events"] == [all_["events"][3]]
    assert errors["events"] == all_["events"][4:]
    assert [event["message"] for event in found["events"]] == ["The training job is running."]
    assert (refused, why["error_code"]) == (400, "ModelArts.2788")


async def test_stages_are_those_of_each_attempt(server, create, send):
    job = await create(metadata={"annotations": {"fault-tolerance/job-retry-num": "1"}})
    _, waiting = await send("GET", job, "/stages")
    await server.runs(job)
    await server.ends(job, exit_code=3)
    _, retried = await send("GET", job, "/stages")
    _, shown = await send("GET", job)

    def stages(answer):
        return [[stage["name"] for stage in record["stages"]] for record in answer["running_records"]]

    assert stages(waiting) == [["scheduling"]]
    assert stages(retried) == [["scheduling", "preparing", "running", "end"], ["scheduling"]]
    assert shown["status"]["running_records"][0]["end_recover"] == "job_reschedule"
    assert shown["status"]["duration"] == 90_000


@pytest.mark.parametrize("progress", StopProgress)
def test_each_step_of_a_stop_is_an_event(progress):
    step = StopStep(progress=progress, kind=StopKind.TERMINATE, reason="enough", user="ada", ordered_at=NOON)
    entry = HistoryEntry(job_id=job_id(1), at=NOON, status=Status.RUNNING, reason=None, attempt=1, stop=step)

    (event,) = lists.events_answer([entry], TrainingEventsQuery(), shown=str).events

    assert event.level == "Warning"
    assert event.message.endswith(": terminate by ada: enough")


def test_a_text_names_the_obs_path_and_no_path_of_the_server():
    reason = "CannotCreateContainerError: host path '/srv/obs/lab/in' does not exist"
    failed = job(status=Status.FAILED, attempts=(attempt(reason=reason, stopped_at=NOON),), stopped_at=NOON)
    history = [HistoryEntry(job_id=failed.id, at=NOON, status=Status.FAILED, reason=reason, attempt=1)]
    shown = BucketFolders(Path("/srv/obs"), "obs://").shown

    described = job_document.job_answer(
        TrainingJobView(failed),
        FAILURES[TrainingFailure.NOT_STARTED],
        now=NOON,
        capacity=failed.spec.resources,
        shown=shown,
    )
    (event,) = lists.events_answer(history, TrainingEventsQuery(), shown=shown).events

    assert described.status.task_statuses[0].message == reason.replace("/srv/obs/", "obs://")
    assert event.message.endswith(reason.replace("/srv/obs/", "obs://"))


@pytest.mark.parametrize(("seconds", "secondary"), [(59, "Terminating"), (61, "TerminatedFailed")])
def test_a_stop_has_failed_a_minute_after_the_kill(seconds, secondary):
    killed = job(status=Status.RUNNING, stop_orders=(stop(killed_at=NOON),))

    found = phases(TrainingJobView(killed), engine_answers=True, now=NOON + timedelta(seconds=seconds))

    assert found == ("Terminating", secondary)
