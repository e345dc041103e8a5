"""httpx with a bearer token, on real containers: create, pause, resume, and cancel with a checkpoint or by force."""

import json

import pytest

IMAGE = "batchq-test:latest"
#: It counts epochs, writes a checkpoint on USR1, and continues from the newest checkpoint.
TRAINER = r"""
folder=$BATCHQ_CHECKPOINT_DIR
epoch=$(ls "$folder" | sed 's/epoch-//' | sort -n | tail -n 1); epoch=${epoch:-0}
trap 'echo "$epoch" > "$folder/.new"; mv "$folder/.new" "$folder/epoch-$epoch"' USR1
trap 'exit 143' TERM
cat /opt/ml/input/config/hyperparameters.json; echo
while :; do epoch=$((epoch + 1)); echo "epoch=$epoch loss=$BATCHQ_HP_LOSS"; sleep 0.1 & wait $!; done
"""


def creation(name, **members):
    body = {
        "name": name,
        "image": IMAGE,
        "command": ["sh", "-c", TRAINER],
        "hyperparameters": {"loss": 0.25},
        "infrastructure": {"vcpus": 0.25, "memory": "64MB"},
        "checkpoints": {"signal": "USR1"},
        "progress": {"totalEpochs": 100000},
    }
    return ["POST", "", body | members, {"Idempotency-Key": name}]


@pytest.fixture
def training(client):
    """Makes the requests, and returns the responses."""

    def calls(*calls, **variables):
        return client.result_of("training_jobs", stdin=json.dumps(calls), **variables)

    return calls


def test_a_job_is_paused_resumed_and_cancelled_with_a_final_checkpoint(training):
    created, repeated, running, log, pausing, paused, found, resuming, _, cancelled, shown, again = training(
        creation("steps"),
        creation("steps"),
        ["UNTIL", "/$id", "running", {}],
        ["GET", "/$id?includeLogs=true&includeMetrics=true", None, {}],
        ["POST", "/$id/pause", {"reason": "not now"}, {}],
        ["UNTIL", "/$id", "paused", {}],
        ["GET", "/$id/checkpoints", None, {}],
        ["POST", "/$id/resume", None, {}],
        ["UNTIL", "/$id", "running", {}],
        [
            "POST",
            "/$id/cancel",
            {"reason": "flat", "createFinalCheckpoint": True, "preserveCheckpoints": False},
            {"Prefer": "wait=60"},
        ],
        ["GET", "/$id?includeLogs=true&includeMetrics=true", None, {}],
        ["POST", "/$id/cancel", None, {}],
    )

    job = created["content"]["jobId"]
    assert (created["status"], repeated["status"], repeated["content"]["jobId"]) == (201, 201, job)
    assert running["content"]["attempts"] == 1
    assert log["status"] == 200
    assert pausing["content"]["status"] == "pausing"
    assert paused["content"]["statusReason"] == "PAUSED: not now"
    (checkpoint,) = found["content"]["checkpoints"]
    assert resuming["status"] == 200

    details = cancelled["content"]["cancellationDetails"]
    assert (cancelled["status"], cancelled["content"]["status"]) == (200, "cancelled")
    assert (details["reason"], details["finalCheckpointCreated"], details["resourcesReleased"]) == ("flat", True, True)
    assert cancelled["headers"]["preference-applied"] == "wait=60"
    final = cancelled["content"]["finalMetrics"]
    assert (final["finalLoss"], final["finalEpoch"] >= checkpoint["epoch"]) == (0.25, True)

    lines = shown["content"]["logs"]
    assert lines[0] == '{"loss":0.25}'
    assert lines[1] == f"epoch={checkpoint['epoch'] + 1} loss=0.25"
    (kept,) = shown["content"]["checkpoints"]
    assert (kept["checkpointId"], kept["type"]) == (details["finalCheckpointId"], "final")
    assert (again["status"], again["content"]["details"]["current_state"]) == (409, "cancelled")


def test_a_job_that_ignores_its_cancel_is_cancelled_by_force(training):
    hanging = ["sh", "-c", "trap '' TERM; echo ready; sleep 600"]

    _, _, cancelling, forced, _ = training(
        creation("hanging", command=hanging),
        ["UNTIL", "/$id", "running", {}],
        ["POST", "/$id/cancel", {"reason": "flat"}, {}],
        ["POST", "/$id/cancel", {"reason": "now", "force": True}, {"Prefer": "wait=60"}],
        ["DELETE", "/$id", None, {}],
    )

    assert cancelling["content"]["status"] == "cancelling"
    assert forced["content"]["status"] == "cancelled"
    details = forced["content"]["cancellationDetails"]
    assert (details["reason"], details["forced"]) == ("flat", True)


@pytest.mark.parametrize("token", ["none", "AKIDEXAMPLE.secret", "secret"])
def test_a_request_without_a_valid_token_is_refused(training, token):
    (refused,) = training(["GET", "", None, {}], TRAINING_TOKEN=token)

    assert (refused["status"], refused["content"]["error"], refused["content"]["code"]) == (401, "UNAUTHORIZED", 401)
    assert refused["content"]["request_id"] == refused["headers"]["x-request-id"]
