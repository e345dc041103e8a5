"""The operations of the training dialect beside CancelTrainingJob."""

from decimal import Decimal

import pytest

from batchq.compute.simulated.script import script_variable
from batchq.domain.enums import Status
from batchq.domain.prices import Prices
from tests.support.scripts import IMAGE, LASTING, Script, command, lasting

PRICES = Prices(currency="EUR", vcpu_hour=Decimal(36000), gib_hour=Decimal(0))
SIGNAL = {"batchq:checkpoints": "true", "batchq:checkpoint-signal": "USR1"}
NOWHERE = "00000000-0000-4000-8000-000000000000"
SMALL = {"vcpus": 0.25, "memory": "64MB"}


def request(*scripts, name="resnet-7", **members):
    """A job whose attempts execute these scripts, the last one also all further ones."""
    environment = dict([script_variable(*scripts)])
    return {
        "name": name,
        "image": IMAGE,
        "command": list(command(*scripts)),
        "environment": environment,
        "infrastructure": SMALL,
    } | members


async def create(training, *scripts, **members):
    answer = await training.ask("POST", "", request(*scripts, **members))
    assert answer.status == 201, answer
    return answer["jobId"]


async def test_a_created_job_runs_with_its_hyperparameters(world, training):
    script = Script(seconds=0, prints_environment=("BATCHQ_HP_LR", "BATCHQ_HP_BATCH_SIZE"))
    hyperparameters = {"lr": 0.001, "batch-size": 32}

    job = await create(training, script, hyperparameters=hyperparameters, maxDuration="6h", tags=["nlp", "team=vision"])

    await world.wait_for(job, Status.SUCCEEDED)
    shown = await training.show(job, "?includeLogs=true")
    assert (shown["name"], shown["status"], shown["logs"]) == ("resnet-7", "completed", ["0.001", "32"])
    assert shown["configuration"]["hyperparameters"] == hyperparameters
    assert shown["configuration"]["maxDuration"] == "6h 00m"
    assert shown["configuration"]["environment"].keys() == {"BATCHQ_SIMULATED"}
    assert shown["tags"] == ["nlp", "team=vision"]


async def test_the_hyperparameters_are_a_file_of_the_container(world, training):
    if world.virtual:
        pytest.skip("simulated containers have no files")
    members = {"command": ["cat", "/opt/ml/input/config/hyperparameters.json"], "hyperparameters": {"lr": 0.001}}

    job = await create(training, Script(), **members)

    await world.wait_for(job, Status.SUCCEEDED)
    assert (await training.show(job, "?includeLogs=true"))["logs"] == ['{"lr":0.001}']


async def test_a_program_without_a_signal_handler_ends_with_the_stop_signal(world, training):
    if world.virtual:
        pytest.skip("simulated containers have no init process")
    job = await create(training, Script(), command=["sleep", "600"])
    await world.wait_for(job, Status.RUNNING)

    await training.cancel(job)

    assert (await world.wait_for(job, Status.FAILED)).attempts[0].exit_code == 143


async def test_members_that_the_server_does_not_read_are_shown_as_they_were_sent(world, training):
    kept = {"framework": "pytorch", "modelConfig": {"modelType": "custom", "x": [1, None]}, "datasetConfig": {"a": 1}}

    job = await create(training, Script(seconds=0), description="a try", **kept)

    shown = await training.show(job)
    assert {member: shown["configuration"][member] for member in kept} == kept
    assert shown["description"] == "a try"


async def test_jobs_with_the_same_image_and_size_share_a_definition(world, training):
    jobs = [
        await create(training, Script(seconds=0), name=f"run-{index}", hyperparameters={"lr": index})
        for index in range(2)
    ]

    definitions = {(await world.wait_for(job, Status.SUCCEEDED)).spec.definition for job in jobs}

    assert len(definitions) == 1


async def test_a_repeated_create_with_the_same_key_makes_one_job(world, training):
    body = request(Script(seconds=0))
    first, again = [await training.ask("POST", "", body, Idempotency_Key="one") for _ in range(2)]
    other = await training.ask("POST", "", body, Idempotency_Key="another")

    different = await training.ask("POST", "", body | {"name": "resnet-8"}, Idempotency_Key="one")

    assert first["jobId"] == again["jobId"] != other["jobId"]
    assert (different.status, different["error"]) == (422, "SEMANTIC_ERROR")


async def test_a_create_that_is_repeated_after_a_crash_makes_one_job(world, training):
    body = request(Script(seconds=0))
    first = await training.ask("POST", "", body, Idempotency_Key="one")

    await world.restart()

    again = await training.ask("POST", "", body, Idempotency_Key="one")
    assert again["jobId"] == first["jobId"]


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"shoeSize": 42}, "shoeSize"),
        ({"name": "not a name"}, "name"),
        ({"maxDuration": "3 weeks"}, "maxDuration"),
        ({"infrastructure": {"memory": "much"}}, "infrastructure.memory"),
        ({"infrastructure": {"memory": "999999999TB"}}, "infrastructure.memory"),
        ({"infrastructure": {"vcpus": 0.12345}}, "infrastructure.vcpus"),
        ({"environment": {"BATCHQ_HP_X": "1"}}, "environment"),
        ({"hyperparameters": {"a-b": 1, "a_b": 2}}, "hyperparameters"),
        ({"hyperparameters": {"a": "\0"}}, "hyperparameters"),
        ({"metrics": [{"name": "f1", "regex": "("}]}, None),
        ({"checkpoints": {"signal": "KILL"}}, "checkpoints.signal"),
        ({"tags": ["batchq:checkpoints=true"]}, "tags"),
        ({"retries": 10}, "retries"),
        ({"metrics": [{"name": "f1", "regex": "a"}] * 2}, "metrics"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_an_invalid_member_is_named_in_the_error(world, training, members, field):
    answer = await training.ask("POST", "", request(Script()) | members)

    assert (answer.status, answer["error"], answer["code"]) == (400, "VALIDATION_ERROR", 400)
    assert answer["details"].get("field") == field
    assert answer["request_id"] == answer.headers["X-Request-Id"]
    assert (await training.ask("GET", ""))["jobs"] == []
    stored = await world.catalog.definitions.page(name=None, status=None, limit=1, after=None, caller=world.caller)
    assert stored == (), "a refused request registered a definition"


@pytest.mark.parametrize("path", [f"/{NOWHERE}", "/not-an-id", f"/{NOWHERE}/checkpoints", f"/{NOWHERE}/checkpoints/a"])
async def test_an_unknown_job_is_not_found(training, path):
    answer = await training.ask("GET", path)

    assert (answer.status, answer["error"]) == (404, "RESOURCE_NOT_FOUND")
    assert answer["details"] == {"resource": "job", "id": path.split("/")[1]}


async def test_metrics_progress_and_cost_are_shown(world, training):
    world.prices = PRICES
    world.submissions = world.server.submission_service(stop_grace=world.clock.now() - world.clock.now(), prices=PRICES)
    script = lasting(output=("epoch=1 step=50 loss=0.9 f1=0.5", "epoch=1 step=100 loss=0.4 f1=0.7"))
    rules = [{"name": name, "regex": f"{name}=([0-9.]+)"} for name in ("epoch", "step", "loss", "f1")]
    job = await create(training, script, metrics=rules, progress={"totalSteps": 400})
    await world.wait_for_output(job, script.output[1])
    await world.sleep(2)

    shown = await training.show(job, "?includeMetrics=true")
    answer = await training.ask("POST", f"/{job}/cancel", {}, Prefer="wait=60")

    assert shown["metrics"] == {"epoch": 1, "step": 100, "loss": 0.4, "f1": 0.7}
    assert (shown["progress"]["percentComplete"], shown["progress"]["totalSteps"]) == (25.0, 400)
    assert shown["costs"]["currentCost"] > 0
    final = answer["finalMetrics"]
    assert (final["finalStep"], final["finalLoss"], final["finalF1"], final["finalAccuracy"]) == (100, 0.4, 0.7, None)
    cost = answer["costSummary"]
    assert cost["currency"] == "EUR"
    assert cost["totalCost"] == pytest.approx(cost["costBreakdown"]["computeCost"], abs=0.01)
    assert cost["estimatedSavings"] == pytest.approx(3 * cost["totalCost"], abs=0.05)


async def test_the_estimate_of_a_new_job_is_that_of_its_whole_duration(world, training):
    world.submissions = world.server.submission_service(stop_grace=world.clock.now() - world.clock.now(), prices=PRICES)

    answer = await training.ask("POST", "", request(Script(seconds=0), maxDuration="2h"))

    assert answer["estimatedDuration"] == "2h 00m"
    assert answer["estimatedCost"] == {"currency": "EUR", "gpuCost": 0.0, "computeCost": 18000.0, "totalCost": 18000.0}


async def test_jobs_are_listed_newest_first_a_page_at_a_time(world, training):
    jobs = [await create(training, Script(seconds=0), name=f"run-{index}") for index in range(3)]
    array = await world.submit(array_size=2)

    first = await training.ask("GET", "?limit=2&name=RUN-*")
    rest = await training.ask("GET", f"?limit=2&name=RUN-*&cursor={first['nextCursor']}")

    assert [job["jobId"] for job in (*first["jobs"], *rest["jobs"])] == jobs[::-1]
    assert rest["nextCursor"] is None
    for job in (*jobs, array):
        await world.wait_for(job, Status.SUCCEEDED)
    assert {job["jobId"] for job in (await training.ask("GET", "?status=completed"))["jobs"]} == set(jobs)


async def test_a_cursor_of_another_list_is_refused(world, training):
    [await create(training, Script(seconds=0)) for _ in range(2)]
    cursor = (await training.ask("GET", "?limit=1"))["nextCursor"]

    answer = await training.ask("GET", f"?limit=1&status=queued&cursor={cursor}")

    assert (answer.status, answer["details"]["field"]) == (400, "cursor")


async def test_each_status_lists_its_own_jobs(world, training):
    failed = await create(training, Script(seconds=0, exit_code=1))
    await world.wait_for(failed, Status.FAILED)
    holder = await world.start(millicpus=4000)
    queued, paused, cancelled = [await create(training, Script(seconds=0)) for _ in range(3)]
    await training.ask("POST", f"/{paused}/pause")
    await training.cancel(cancelled)

    async def listed(status):
        return [job["jobId"] for job in (await training.ask("GET", f"?status={status}"))["jobs"]]

    expected = {"queued": queued, "paused": paused, "cancelled": cancelled, "failed": failed, "running": holder}
    assert {status: await listed(status) for status in expected} == {key: [job] for key, job in expected.items()}


async def test_a_paused_job_waits_until_it_is_resumed(world, training):
    holder = await world.start(millicpus=4000)
    job = await create(training, Script(seconds=0))

    paused = await training.ask("POST", f"/{job}/pause", {"reason": "not now"})
    again = await training.ask("POST", f"/{job}/pause")

    assert (paused.status, paused.content, again.content) == (200, {"jobId": job, "status": "paused"}, paused.content)
    assert (await training.show(job))["statusReason"] == "PAUSED: not now"
    resumed = await training.ask("POST", f"/{job}/resume")
    assert resumed.content == {"jobId": job, "status": "queued"}
    await world.finish(holder)
    await world.wait_for(job, Status.SUCCEEDED)
    for operation in ("pause", "resume"):
        late = await training.ask("POST", f"/{job}/{operation}")
        assert (late.status, late["details"]["current_state"]) == (409, "completed")


async def test_a_running_job_is_paused_with_a_checkpoint_and_continues_from_it(world, training):
    first = lasting(143, output=("ready",), on_request="epoch-1")
    job = await create(training, first, LASTING, checkpoints={"signal": "USR1"})
    await world.wait_for_output(job, "ready")
    world.runtime.hold("stop")

    answer = await training.ask("POST", f"/{job}/pause", {"reason": "not now"})
    world.runtime.release("stop")

    assert answer.content == {"jobId": job, "status": "pausing"}
    await world.wait_until(job, lambda job: job.held)
    shown = await training.show(job)
    assert (shown["status"], shown["attempts"]) == ("paused", 1)
    assert [checkpoint["name"] for checkpoint in shown["checkpoints"]] == ["epoch-1"]
    await training.ask("POST", f"/{job}/resume")
    await world.wait_until(job, lambda other_job: other_job.attempt is not None and other_job.attempt.number == 2)
    await world.finish(job, Status.SUCCEEDED)


async def test_a_checkpoint_is_requested_listed_and_deleted(world, training):
    script = lasting(output=("ready",), checkpoints=("epoch-1",), on_request="epoch-2", request_delay=1)
    job = await create(training, script, checkpoints={"signal": "USR1"})
    await world.wait_for_output(job, "ready")

    requested = await training.ask("POST", f"/{job}/checkpoints")
    while len((found := await training.ask("GET", f"/{job}/checkpoints?sortBy=epoch"))["checkpoints"]) < 2:
        await world.sleep(0.1)

    assert (requested.status, requested.content) == (202, {"jobId": job, "signal": "USR1"})
    assert [(checkpoint["name"], checkpoint["type"]) for checkpoint in found["checkpoints"]] == [
        ("epoch-2", "manual"),
        ("epoch-1", "automatic"),
    ]
    assert found["totalCount"] == 2
    first = found["checkpoints"][1]["checkpointId"]
    deleted = await training.ask("DELETE", f"/{job}/checkpoints/{first}")
    gone = await training.ask("DELETE", f"/{job}/checkpoints/{first}")
    assert (deleted.status, deleted.content) == (204, None)
    assert (gone.status, gone["details"]) == (404, {"resource": "checkpoint", "id": first})
    await world.finish(job, Status.SUCCEEDED)
    late = await training.ask("POST", f"/{job}/checkpoints")
    assert (late.status, late["details"]["required_state"]) == (409, "running")


async def test_a_job_without_a_checkpoint_signal_makes_no_checkpoint_on_request(world, training):
    job = await create(training, lasting(output=("ready",)), checkpoints={})
    await world.wait_for_output(job, "ready")

    answer = await training.ask("POST", f"/{job}/checkpoints")

    assert (answer.status, answer["error"]) == (422, "SEMANTIC_ERROR")


async def test_operators_list_and_delete_the_checkpoints_of_a_job_whose_record_was_removed(world, training):
    ((await world.checkpoints.prepare(NOWHERE, ended=True)).path / "epoch-1").write_text("x")

    (found,) = (await training.ask("GET", f"/{NOWHERE}/checkpoints"))["checkpoints"]
    path = f"/{NOWHERE}/checkpoints/{found['checkpointId']}"
    shown = await training.ask("GET", path)
    deleted = await training.ask("DELETE", path)

    assert (shown["name"], deleted.status) == ("epoch-1", 204)
    assert (await training.ask("GET", path)).status == 404
    assert (await training.ask("GET", f"/{NOWHERE}")).status == 404
