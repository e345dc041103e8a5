"""`batchq serve` that cannot continue reports the reason in one line, and ends."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from batchq.engine.store_monitor import CHECK_INTERVAL
from tests.service.test_serve import refused
from tests.service.waiting import PATIENCE, reaches, register
from tests.support.service import Service, serving

NOTICED_WITHIN = 10.0  # seconds

# batchq, in a process with a thread that a call holds for ever.
HELD = """
import sys, threading
threading.Thread(target=threading.Event().wait).start()
from batchq.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def doomed(tmp_path):
    """A server that is expected to end by itself."""
    service = Service(tmp_path / "data", "--runtime", "simulated").start()
    yield service
    service.process.kill()
    service.process.wait()
    service.process.stdout.close()


def last_line(service):
    return [line for line in service.log.read_text().splitlines() if line.startswith("batchq:")][-1]


@pytest.mark.fault("DB08")
def test_a_server_whose_database_is_removed_ends_with_the_reason(doomed):
    (doomed.data / "batchq.db").unlink()

    status = doomed.process.wait(PATIENCE)

    assert status == 1
    assert CHECK_INTERVAL < NOTICED_WITHIN
    assert "batchq.db was removed or replaced while in use" in last_line(doomed)
    assert "Traceback" not in doomed.log.read_text()


@pytest.mark.fault("DB08")
def test_a_server_whose_database_is_replaced_ends_and_does_not_change_the_new_one(doomed):
    database = doomed.data / "batchq.db"
    other = doomed.data.parent / "other"
    with serving(other, "--runtime", "simulated"):
        pass
    content = (other / "batchq.db").read_bytes()

    shutil.move(other / "batchq.db", database)
    status = doomed.process.wait(PATIENCE)

    assert status == 1
    assert database.read_bytes() == content


@pytest.mark.docker
@pytest.mark.fault("DB08")
def test_containers_survive_a_lost_database_and_are_attached_again(tmp_path):
    with serving(tmp_path / "data", "--stop-grace", "1") as service:
        batch = service.client()
        register(batch, "long", "sleep", "600")
        job = batch.submit_job(jobName="long", jobQueue="default", jobDefinition="long")["jobId"]
        reaches(batch, job, "RUNNING")
        before = [container["Id"] for container in service.containers()]
        aside = tmp_path / "aside"
        aside.mkdir()

        for file in service.data.glob("batchq.db*"):
            file.rename(aside / file.name)
        status = service.process.wait(PATIENCE)
        service.process.stdout.close()
        meanwhile = [container["Id"] for container in service.containers() if container["State"] == "running"]
        for file in aside.iterdir():
            file.rename(service.data / file.name)
        service.start()

        assert (status, meanwhile) == (1, before)
        assert len(reaches(service.client(), job, "RUNNING")["attempts"]) == 0
        service.client().terminate_job(jobId=job, reason="seen enough")
        reaches(service.client(), job, "FAILED")
    service.remove_containers()


@pytest.fixture
def unreadable(tmp_path):
    """Data that fails a start after the database was opened."""
    data = tmp_path / "data"
    with serving(data, "--runtime", "simulated"):
        pass
    with closing(sqlite3.connect(data / "batchq.db", isolation_level=None)) as left:
        left.execute("UPDATE catalog_resources SET value = '{' WHERE kind = 'JobQueue'")
    return data


@pytest.mark.fault("LC07")
def test_a_failure_after_the_database_was_opened_ends_the_process(unreadable):
    status, line = refused("--data", unreadable, "--port", 0, "--runtime", "simulated")

    assert status == 1
    assert "JobQueue 'default'" in line


@pytest.mark.fault("LC07")
def test_a_hanging_thread_does_not_delay_the_end_of_a_failed_start(unreadable):
    arguments = ["serve", "--data", str(unreadable), "--port", "0", "--runtime", "simulated"]

    done = subprocess.run(
        [sys.executable, "-c", HELD, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if line.startswith("batchq:")] != []
