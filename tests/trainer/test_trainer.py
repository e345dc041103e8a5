"""A real training program in real containers: final checkpoints, and kills of the server in each phase of a cancel."""

import pytest

from tests.support.proxy import proxy
from tests.support.service import serving
from tests.trainer.image import ensure_image
from tests.trainer.runs import Runs, uninterrupted

pytestmark = pytest.mark.docker
REQUESTED = "checkpoint requested at step="
EVERY = 50  # steps between two checkpoints that the program writes by itself


@pytest.fixture(scope="module")
def engine(docker_engine, tmp_path_factory):
    with proxy(tmp_path_factory.mktemp("engine")) as spec:
        yield spec


@pytest.fixture(scope="module")
def runs(engine, tmp_path_factory):
    image = ensure_image()
    data = tmp_path_factory.mktemp("trainer") / "data"
    with serving(data, "--network", "host", engine_url=engine.url) as service:
        yield Runs(service, data.with_name("data-checkpoints"), image=image)
        service.remove_containers()


def requested(runs, job_id):
    """The steps at which the program got the checkpoint signal."""
    return [int(text.partition(REQUESTED)[2]) for text in runs.output(job_id) if text.startswith(REQUESTED)]


def ends_with_one_final_checkpoint(runs, job_id, *, signals=(1,)):
    """`signals`: the permitted numbers of checkpoint signals.

    A checkpoint that the program writes by itself just before it handles the signal is the final one (decision 0052).
    """
    done = runs.wait(job_id, lambda job: job["status"] == "cancelled")
    details = done["cancellationDetails"]
    assert details["finalCheckpointCreated"], details
    (final,) = [
        checkpoint
        for checkpoint in runs.call("GET", f"/{job_id}/checkpoints")["checkpoints"]
        if checkpoint["type"] == "final"
    ]
    assert final["checkpointId"] == details["finalCheckpointId"]
    requested_steps = requested(runs, job_id)
    assert len(requested_steps) in signals
    assert final["step"] in requested_steps or final["step"] % EVERY == 0
    assert not [name for name in runs.names(job_id) if name.startswith(".")]
    steps = [loss for loss, _ in runs.losses(job_id)]
    assert steps == list(range(1, len(steps) + 1)), "the program was started once"
    return final["step"]


def test_a_cancelled_job_leaves_a_final_checkpoint(runs):
    job_id = runs.create()

    answer = runs.call("POST", f"/{job_id}/cancel", {"reason": "flat loss", "createFinalCheckpoint": True})

    assert answer["status"] == "cancelling"
    ends_with_one_final_checkpoint(runs, job_id)


def test_a_forced_cancel_leaves_only_the_checkpoints_of_before(runs):
    job_id = runs.create(SECONDS_PER_STEP=0.02)
    runs.until(lambda: runs.names(job_id))

    runs.call("POST", f"/{job_id}/cancel", {"force": True})

    done = runs.wait(job_id, lambda job: job["status"] == "cancelled")
    assert done["cancellationDetails"]["forced"]
    assert requested(runs, job_id) == []
    assert runs.names(job_id) != []


def test_a_clean_cancel_leaves_only_the_final_checkpoint(runs):
    job_id = runs.create(SECONDS_PER_STEP=0.02)
    runs.until(lambda: runs.names(job_id))

    runs.call("POST", f"/{job_id}/cancel", {"preserveCheckpoints": False, "createFinalCheckpoint": True})

    step = ends_with_one_final_checkpoint(runs, job_id)
    # Those from before the request are deleted, and those that the program writes after it stay: decision 0066.
    steps = lambda: [int(name.rpartition("step-")[2].removesuffix(".json")) for name in runs.names(job_id)]  # noqa: E731
    runs.until(lambda: min(steps()) == int(step))


def after_the_order(runs, job_id):
    """The server is killed as soon as it has replied."""


def after_the_signal(runs, job_id):
    runs.until(lambda: runs.show(job_id)["cancellationDetails"]["checkpointDeadline"])


def after_the_checkpoint(runs, job_id):
    """The checkpoint is being written, or is less than two seconds old."""
    runs.until(lambda: requested(runs, job_id))


def after_the_stop_signal(runs, job_id):
    runs.until(lambda: any("signalledAt" in order for order in runs.stop_orders(job_id)))


PHASES = [after_the_order, after_the_signal, after_the_checkpoint, after_the_stop_signal]


@pytest.mark.fault("CK01")
@pytest.mark.parametrize("phase", PHASES, ids=lambda value: value.__name__)
def test_a_server_killed_in_a_cancel_completes_it_once(runs, phase):
    job_id = runs.create(SECONDS_PER_STEP=0.3, STOP_SECONDS=3)
    runs.call("POST", f"/{job_id}/cancel", {"createFinalCheckpoint": True})
    phase(runs, job_id)

    runs.service.kill()
    runs.service.start()

    # Killed between the save and the signal: a checkpoint of the program itself may come before the repetition.
    ends_with_one_final_checkpoint(runs, job_id, signals=(0, 1) if phase is after_the_order else (1,))


@pytest.mark.fault("CK01")
def test_a_server_killed_before_it_saved_the_delivery_of_the_checkpoint_signal_sends_it_once(runs, engine):
    job_id = runs.create(SECONDS_PER_STEP=0.3, WRITE_SECONDS=6)
    engine.muted_by = b"signal=SIGUSR1"
    runs.call("POST", f"/{job_id}/cancel", {"createFinalCheckpoint": True})
    runs.until(lambda: requested(runs, job_id))

    runs.service.kill()
    engine.muted_by = None
    runs.service.start()

    ends_with_one_final_checkpoint(runs, job_id)


def test_the_loss_of_a_resumed_job_continues_where_it_stopped(runs, tmp_path):
    """Steps from after the last checkpoint are made again, with the same losses."""
    job_id = runs.create(STEPS=240)

    runs.call("POST", f"/{job_id}/pause", {"reason": "room for others"})
    runs.wait(job_id, lambda job: job["status"] == "paused")
    saved = runs.names(job_id)
    runs.call("POST", f"/{job_id}/resume")
    runs.wait(job_id, lambda other_job: other_job["status"] == "completed")

    assert len(requested(runs, job_id)) == 1
    (resumed,) = [text for text in runs.output(job_id) if text.startswith("resumed from")]
    assert resumed.removeprefix("resumed from ") in saved
    assert set(runs.losses(job_id)) == set(uninterrupted(tmp_path, 240))


def test_a_paused_job_that_is_cancelled_keeps_the_checkpoint_of_its_pause(runs):
    job_id = runs.create(STEPS=400)
    runs.call("POST", f"/{job_id}/pause")
    runs.wait(job_id, lambda job: job["status"] == "paused")
    saved = runs.names(job_id)

    assert runs.call("POST", f"/{job_id}/cancel", {"reason": "no use"})["status"] == "cancelled"

    assert runs.names(job_id) == saved != []
