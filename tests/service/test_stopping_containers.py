"""`batchq cancel` and `batchq terminate` on real Docker."""

from contextlib import closing

import pytest

from tests.service.job_queue import batchq
from tests.service.waiting import reaches, register, wait_for_output
from tests.support.docker_api import docker_api
from tests.support.service import serving_forked

WAITS = "echo ready; while :; do sleep 0.1; done"
HANDLES_SIGTERM = f"trap '' TERM; trap 'exit 3' INT; {WAITS}"
IGNORES_SIGTERM = f"trap '' TERM INT; {WAITS}"
FAILS_WHEN_TOLD = f"trap 'exit 1' USR1; {WAITS}"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A server with room for two jobs. Its default grace period is a day."""
    with serving_forked(tmp_path_factory.mktemp("stops") / "data", "--stop-grace", "86400") as service:
        service.client().update_compute_environment(computeEnvironment="local", computeResources={"maxvCpus": 2})
        yield service
    service.remove_containers()


@pytest.fixture(autouse=True)
def here(service, monkeypatch):
    monkeypatch.setenv("BATCHQ_URL", service.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(service.data))


@pytest.fixture
def batch(service):
    return service.client()


@pytest.fixture
def submit(batch):
    def submit(name, shell, **more):
        register(batch, name, "sh", "-c", shell)
        return batch.submit_job(jobName=name, jobQueue="default", jobDefinition=name, **more)["jobId"]

    return submit


@pytest.fixture
def ready(service, submit):
    """The id of a job that runs and has printed a line."""

    def ready(name, shell, **more):
        job_id = submit(name, shell, **more)
        wait_for_output(service, job_id, "ready")
        return job_id

    return ready


@pytest.mark.docker
def test_a_terminate_signals_and_kills_active_jobs_and_ends_queued_ones(batch, submit, ready):
    handles, hanging = ready("stop-handles", HANDLES_SIGTERM), ready("stop-hanging", IGNORES_SIGTERM)
    waits = submit("stop-waits", WAITS)

    done = batchq("terminate", "-n", "stop-*", "--signal", "int", "--grace", "5", "--reason", "enough")

    assert (done.status, done.err) == (0, "")
    assert set(done.out[:3]) == {
        f"{handles}  stopping  stop-handles (RUNNING)",
        f"{hanging}  stopping  stop-hanging (RUNNING)",
        f"{waits}  terminated  stop-waits (RUNNABLE)",
    }
    ended = [reaches(batch, job_id, "FAILED") for job_id in (handles, hanging, waits)]
    assert [job["statusReason"] for job in ended] == ["enough"] * 3
    assert [[one["container"]["exitCode"] for one in job["attempts"]] for job in ended] == [[3], [137], []]


@pytest.mark.docker
def test_a_cancel_prevents_the_next_attempt_only(service, batch, submit, ready):
    runs = ready("cancel-runs", FAILS_WHEN_TOLD, retryStrategy={"attempts": 3})
    blocks, waits = ready("stays", WAITS), submit("cancel-waits", WAITS)

    done = batchq("cancel", "-n", "cancel-*", "-t", "all")

    assert done.status == 0
    assert set(done.out[:2]) == {
        f"{runs}  running on, not retried  cancel-runs (RUNNING)",
        f"{waits}  cancelled  cancel-waits (RUNNABLE)",
    }
    fail(service, runs)
    ended = [reaches(batch, job_id, "FAILED") for job_id in (runs, waits)]
    assert [(job["isCancelled"], len(job["attempts"])) for job in ended] == [(True, 1), (True, 0)]
    assert batchq("terminate", blocks, "--signal", "KILL").status == 0
    reaches(batch, blocks, "FAILED")


def fail(service, job_id):
    with closing(docker_api()) as engine:
        (one,) = (container for container in service.containers() if container["Labels"]["io.batchq.job"] == job_id)
        engine.kill(one["Id"], "USR1")
