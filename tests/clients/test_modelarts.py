"""The vendor's SDK for ModelArts, signed, on real containers: create, watch, terminate, and every refused state."""

import json

import pytest

PROJECT = "7c1e5d20b9a34f6e8d20aa41c3f09b55"
IMAGE = "batchq-test:latest"
SIZE = {"cpu_core_num": 0.25, "mem_size": 0.0625}
TERMINATE = {"action_type": "terminate"}
ID = {"training_job_id": "$id"}
STOP = ["stop_training_job", ID | {"body": TERMINATE}]
SHOW = ["show_training_job_details", ID]
NAMED = [{"key": "name", "operator": "in", "value": ["terminated"]}]
NOT_TERMINABLE = (409, "ModelArts.2796", "The job cannot be terminated.")


def creation(name, command="sleep 600", *, image=IMAGE, pool=None, resource=None, **algorithm):
    """A CreateTrainingJob call."""
    engine = {"image_url": image} if image else {}
    size = resource or {"main_container_customized_flavor": SIZE, "node_count": 1}
    body = {
        "metadata": {"name": name, "description": "a test", "annotations": {"job_template": "Template DL"}},
        "algorithm": {"command": command, "engine": engine, **algorithm},
        "spec": {"resource": size | ({"pool_id": pool} if pool else {})},
    }
    return ["create_training_job", {"body": body}]


def reason(outcome):
    error = outcome["error"]
    return error["status_code"], error["error_code"], error["error_msg"]


@pytest.fixture
def sdk(client):
    """Makes the calls by the SDK, and returns their outcomes."""

    def calls(*calls, **variables):
        return client.result_of("modelarts_jobs", stdin=json.dumps(calls), MODELARTS_PROJECT=PROJECT, **variables)

    return calls


def test_a_job_is_created_runs_and_is_terminated(sdk):
    trap = "trap 'echo saved; exit 0' TERM; echo \"$SEED of $MA_NUM_HOSTS: $*\"; while :; do sleep 0.1; done"
    script = f"set -- epochs; {trap}"

    created, running, listed, log, stopped, again, ended, events, stages = sdk(
        creation("terminated", script, environments={"SEED": "7"}),
        ["until", ["Running"]],
        ["list_training_jobs", {"body": {"offset": 0, "limit": 5, "filters": NAMED}}],
        ["log", "worker-0"],
        STOP,
        STOP,
        ["until", ["Terminated"]],
        ["list_training_job_events", ID | {"level": "Warning", "order": "asc"}],
        ["list_training_job_stages", ID],
    )

    answer = created["answer"]
    assert created["status"] == 201
    assert answer["kind"] == "job"
    assert answer["metadata"]["description"] == "a test"
    assert answer["metadata"]["annotations"] == {"job_template": "Template DL"}
    assert answer["algorithm"]["command"] == script
    assert answer["status"]["tasks"] == ["worker-0"]
    assert ["Running", "Running"] in running["seen"]
    assert running["answer"]["status"]["start_time"] > 0
    assert [pod["metadata"]["name"] for pod in listed["answer"]["items"]] == ["terminated"]
    assert log["answer"]["content"].splitlines()[:1] == ["7 of 1: epochs"]
    assert (stopped["status"], stopped["answer"]["status"]["phase"]) == (202, "Terminating")
    assert reason(again) == NOT_TERMINABLE
    assert ended["seen"][-1] == ["Terminated", "Terminated"]
    assert ended["answer"]["status"]["duration"] > 0
    assert "Terminated by" in events["answer"]["events"][0]["message"]
    names = [stage["name"] for stage in stages["answer"]["running_records"][0]["stages"]]
    assert names == ["scheduling", "preparing", "running", "end"]


def test_a_waiting_job_is_terminated_at_once(sdk):
    created, stopped, again, shown = sdk(
        creation("waiting", resource={"main_container_customized_flavor": SIZE | {"cpu_core_num": 9999}}),
        STOP,
        STOP,
        SHOW,
    )

    assert created["answer"]["status"]["phase"] in {"Creating", "Pending"}
    assert (stopped["status"], stopped["answer"]["status"]["phase"]) == (202, "Terminated")
    assert reason(again) == NOT_TERMINABLE
    assert shown["answer"]["status"]["duration"] == 0


@pytest.mark.parametrize(
    ("name", "command", "image", "phases"),
    [
        ("completed", "true", IMAGE, ["Completed", "Completed"]),
        ("failed", "exit 3", IMAGE, ["Failed", "Failed"]),
        ("abnormal", "true", "batchq-test:no-such-tag", ["Abnormal", "CreateFailed"]),
    ],
)
def test_an_ended_job_cannot_be_terminated_and_can_be_deleted(sdk, name, command, image, phases):
    _, ended, stopped, deleted, shown, listed = sdk(
        creation(name, command, image=image),
        ["until", ["Completed", "Failed", "Abnormal"]],
        STOP,
        ["delete_training_job", ID],
        SHOW,
        ["list_training_jobs", {"body": {"filters": [{"key": "name", "operator": "in", "value": [name]}]}}],
    )

    assert ended["seen"][-1] == phases
    assert reason(stopped) == NOT_TERMINABLE
    assert deleted["status"] == 202
    assert reason(shown)[:2] == (400, "ModelArts.2775")
    assert listed["answer"]["total"] == 0


def test_each_node_of_a_job_is_a_task_with_its_index(sdk):
    nodes = {"main_container_customized_flavor": SIZE, "node_count": 2}
    script = 'echo "$VC_TASK_INDEX of $VC_WORKER_NUM"; exec sleep 600'
    _, running, first, second, stopped = sdk(
        creation("nodes", script, resource=nodes),
        ["until", ["Running"]],
        ["log", "worker-0"],
        ["log", "worker-1"],
        STOP,
    )

    assert running["answer"]["status"]["tasks"] == ["worker-0", "worker-1"]
    assert [call["answer"]["content"] for call in (first, second)] == ["0 of 2\n", "1 of 2\n"]
    assert stopped["answer"]["status"]["phase"] == "Terminating"


def test_refused_calls_have_the_vendors_codes(sdk):
    unknown = {"training_job_id": "91d0a6b4-3f52-4f0e-b1a7-64c5d2f7e810"}
    calls = [
        ["stop_training_job", unknown | {"body": TERMINATE}],
        creation("refused"),
        creation("refused"),
        ["stop_training_job", ID | {"body": {"action_type": "pause"}}],
        ["stop_training_job", ID | {"body": {}}],
        ["delete_training_job", ID],
        creation("no name"),
        creation("no-command", ""),
        creation("no-image", image=""),
        creation("no-flavor", resource={"node_count": 1}),
        creation("large-flavor", resource={"flavor_id": "batchq.cpu.999u1g"}),
        creation("no-pool", pool="no-such-queue"),
        creation("algorithm", id="x"),
        ["list_training_jobs", {"body": {"filters": [{"key": "shoe_size", "operator": "in", "value": ["9"]}]}}],
        ["list_training_jobs", {"body": {"sort_by": "name"}}],
        ["list_algorithms", {}],
        STOP,
    ]

    outcomes = sdk(*calls)

    assert [reason(outcome)[:2] for outcome in outcomes if "error" in outcome] == [
        (400, "ModelArts.2775"),
        (400, "ModelArts.2751"),
        (400, "ModelArts.2812"),
        (400, "ModelArts.2788"),
        (409, "ModelArts.2796"),
        (400, "ModelArts.2788"),
        (400, "ModelArts.2806"),
        (400, "ModelArts.2806"),
        (400, "ModelArts.2763"),
        (400, "ModelArts.2781"),
        (400, "ModelArts.2788"),
        (400, "ModelArts.2755"),
        (400, "ModelArts.2807"),
        (400, "ModelArts.2790"),
        (400, "ModelArts.2858"),
    ]
    assert all(outcome["error"]["request_id"] for outcome in outcomes if "error" in outcome)


@pytest.mark.parametrize("variable", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
def test_another_key_or_secret_is_refused(sdk, variable):
    (shown,) = sdk(["list_training_jobs", {"body": {}}], **{variable: "AKIDEXAMPLE"})

    assert reason(shown)[:2] == (401, "APIGW.0301")


@pytest.mark.parametrize("change", ["body", "query", "project", "date"])
def test_a_signed_call_that_was_changed_on_its_way_is_refused(sdk, change):
    (answer,) = sdk(
        ["list_training_job_events", {"training_job_id": "91d0a6b4-3f52-4f0e-b1a7-64c5d2f7e810", "limit": 5}]
        if change == "query"
        else ["list_training_jobs", {"body": {"limit": 5}}],
        MODELARTS_TAMPER=change,
    )

    assert reason(answer)[:2] == (401, "APIGW.0301")


def test_the_description_of_a_job_is_changed(sdk):
    _, changed, shown, engines, flavors, _ = sdk(
        creation("described"),
        ["change_training_job_description", ID | {"body": {"description": "another"}}],
        SHOW,
        ["show_training_job_engines", {}],
        ["show_training_job_flavors", {"flavor_type": "CPU"}],
        STOP,
    )

    assert changed["status"] == engines["status"] == flavors["status"] == 200
    assert flavors["answer"]["total_count"] == len(flavors["answer"]["flavors"]) > 0
    assert {flavor["flavor_type"] for flavor in flavors["answer"]["flavors"]} == {"CPU"}
    assert shown["answer"]["metadata"]["description"] == "another"
    assert engines["answer"]["total"] == 0
