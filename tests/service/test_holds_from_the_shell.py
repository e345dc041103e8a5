"""`batchq hold`, `release`, `pause`, `resume`, `drain`, `checkpoints` and `terminate --checkpoint` from the shell."""

import io
import json

import pytest

from batchq.compute.simulated.script import Script, script_variable
from tests.service.waiting import reaches, until
from tests.support.described import difference

TRAINER = Script(seconds=None, on_term=1, output=("epoch 1",), checkpoints=("epoch-1",), on_request="epoch-2")
IGNORES_SIGTERM = Script(seconds=None, on_term=None)
UNKNOWN = "3f2c9a1b-5d0e-4c1f-9a77-0c4e51b0a001"
TAGS = ("--tag", "batchq:checkpoints=true", "--tag", "batchq:checkpoint-signal=USR1")


@pytest.fixture(autouse=True)
def connected(simulated, connect):
    connect(simulated)


@pytest.fixture
def submit(batchq):
    def submit(script, *words):
        variable, value = script_variable(script)
        flags = ("busybox", "--vcpus", "0.1", "--memory", "8m", "-e", f"{variable}={value}")
        return batchq("submit", *flags, *words).strip()

    return submit


def test_a_queued_job_is_held_listed_and_released(simulated, batchq, submit, monkeypatch):
    before = submit(IGNORES_SIGTERM, "--name", "before")
    held = submit(Script(seconds=0), "--name", "train", "--after", before)

    first = batchq("hold", "train", "--reason", "no data yet")
    assert first.startswith(f"{held}  held since ")
    assert first.endswith(", until batchq release  train (PENDING)\n")
    assert batchq("list", "--held", "-o", "ids") == f"{held}\n"
    assert "hold\theld by" in batchq("show", "train")
    assert "no data yet" in batchq("show", "train")
    assert batchq("hold", "train", "--reason", "another")[:80] == first[:80]  # the first hold stands
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{held}\n"))
    assert batchq("hold", "-")[:80] == first[:80]
    assert batchq("release", held[:8]) == f"{held}  released  train (PENDING)\n"
    for command in ("release", "resume"):
        assert batchq(command, held[:8]) == f"{held}  was not held  train (PENDING)\n"
    assert batchq("list", "--held", "-o", "ids") == ""

    refused, error = batchq("hold", before, held, status=1, errors=True)
    assert refused.startswith(f"{held}  held since")
    assert error.startswith(f"batchq: {before}  ")
    batchq("terminate", held, before, "--force", "-Q")
    reaches(simulated.client(), before, "FAILED")


def test_a_trainer_is_paused_with_a_checkpoint_and_resumed(simulated, batchq, submit):
    job = submit(TRAINER, "--name", "trainer", *TAGS)
    batch = simulated.client()
    reaches(batch, job, "RUNNING")

    paused = batchq("pause", "trainer", "--reason", "room for the demo")
    assert paused.startswith(f"{job}  pausing since ")
    assert paused.endswith(": final checkpoint, stop signal, then held until batchq resume  trainer (RUNNING)\n")
    reaches(batch, job, "RUNNABLE")
    until(lambda: "epoch-2" in batchq("checkpoints", job))

    shown = batchq("show", job)
    assert "hold\tpaused by" in shown
    assert "final checkpoint epoch-2" in shown
    walk = batchq("history", job)
    assert "final checkpoint epoch-2" in walk
    rows = [line.split("\t") for line in batchq("checkpoints", job).splitlines()]
    assert [(row[1], row[2], row[4]) for row in rows] == [("epoch-1", "automatic", "1"), ("epoch-2", "final", "2")]

    assert batchq("resume", job[:8]).startswith(f"{job}  resumed  trainer (")
    reaches(batch, job, "RUNNING")
    assert "signal was sent" in batchq("checkpoints", job, "--make")
    assert batchq("checkpoints", job, "--delete", rows[0][0]) == f"{rows[0][0]}  deleted\n"
    assert "epoch-1\t" not in batchq("checkpoints", job)
    _, error = batchq("checkpoints", job, "--delete", rows[0][0], status=1, errors=True)
    assert "not found" in error
    _, error = batchq("checkpoints", job, "--delete", "epoch-9", status=1, errors=True)
    assert f"epoch-9: the job has no such checkpoint; batchq checkpoints {job} lists ids and names" in error
    assert batchq("checkpoints", job, "--delete", "epoch-2") == "epoch-2  deleted\n"
    batchq("terminate", job, "--force")
    reaches(batch, job, "FAILED")


def test_a_terminate_with_a_checkpoint_waits_for_it_and_force_does_not(simulated, batchq, submit):
    trainer, hanging = submit(TRAINER, "--name", "saved", *TAGS), submit(IGNORES_SIGTERM, "--name", "hanging")
    batch = simulated.client()
    reaches(batch, trainer, "RUNNING")
    reaches(batch, hanging, "RUNNING")

    saved = batchq("terminate", trainer, "--checkpoint", "--no-keep-checkpoints", "--reason", "flat loss")
    assert "final checkpoint, SIGTERM, SIGKILL after the grace period" in saved
    reaches(batch, trainer, "FAILED")
    until(lambda: "epoch-1" not in batchq("checkpoints", trainer))
    assert [line.split("\t")[1:3] for line in batchq("checkpoints", trainer).splitlines()] == [["epoch-2", "final"]]

    batchq("terminate", hanging)
    forced = batchq("terminate", hanging, "--force")
    assert "SIGKILL, FAILED whatever the exit code" in forced
    ended = reaches(batch, hanging, "FAILED")
    assert ended["attempts"][0]["container"]["exitCode"] == 137
    assert "forced" in batchq("history", hanging)

    _, error = batchq("terminate", hanging, "--force", "--checkpoint", status=2, errors=True)
    assert "--force kills at once: it cannot be combined with --checkpoint" in error


def test_a_drained_queue_says_so(batchq):
    assert batchq("drain", "default") == "queue default accepts jobs and starts none; running jobs continue\n"
    assert batchq("queue", "list").split("\t")[1] == "ENABLED drained"
    assert batchq("drain", "default", "--off", "--query", "queues[].drained") == "[\n  false\n]\n"
    assert batchq("queue", "list").split("\t")[1] == "ENABLED"
    _, error = batchq("drain", "nowhere", status=1, errors=True)
    assert error == "batchq: nowhere: JobQueue nowhere not found.\n"


@pytest.mark.parametrize("command", ["hold", "release", "pause", "resume"])
def test_a_job_that_does_not_exist_is_refused_in_text_and_json(batchq, command):
    _, error = batchq(command, UNKNOWN, status=1, errors=True)
    assert error == f"batchq: {UNKNOWN}  not found.\n"

    printed = json.loads(batchq(command, UNKNOWN, "-o", "json", status=1))
    assert printed == {"jobs": [], "errors": [{"jobId": UNKNOWN, "error": f"Job {UNKNOWN} not found."}]}


def test_json_conforms_to_the_description_of_the_api(simulated, batchq, submit):
    job = submit(TRAINER, *TAGS, "--after", submit(TRAINER))

    held = json.dumps(json.loads(batchq("hold", job, "-o", "json"))["jobs"][0])
    listed = batchq("checkpoints", job, "-o", "json")

    assert difference(("POST", "/v1/batchq/jobs/{job}/hold", ""), 200, "application/json", held) == ""
    assert difference(("GET", "/v1/batchq/jobs/{job}/checkpoints", ""), 200, "application/json", listed) == ""
    batchq("terminate", "-t", "all", "--force", "-y", "-Q")
