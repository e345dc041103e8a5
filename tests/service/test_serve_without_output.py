"""A server whose output is closed, or whose log disk is full, works."""

import os
import signal
import subprocess
import time
from contextlib import closing, suppress
from socket import create_server
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from batchq.store.lock import lock_holder
from tests.service.waiting import PATIENCE, reaches, register
from tests.support.service import BATCHQ, Service

VOICELESS = {
    "all goes to a pipe without a reader": "2>&1 | true",
    "the disk of the log is full": "2>/dev/full",
    "all disks are full": ">/dev/full 2>/dev/full",
    "all is closed": "<&- >&- 2>&-",
}


class Quiet(Service):
    """Started by a shell that redirects its output; it does not report its URL."""

    def __init__(self, data, output):
        super().__init__(data)
        with closing(create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self._words = ["serve", "--data", data, "--port", port, "--runtime", "simulated"]
        self._output = output

    def start(self):
        # The shell prints the status: the status of a pipeline is that of its last command.
        script = f'{{ "$@"; echo $? > {self.data}.status; }} {self._output}'
        self.process = subprocess.Popen(["sh", "-c", script, "sh", BATCHQ, *map(str, self._words)])
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(URLError):
                urlopen(f"{self.url}/healthz").close()
                return self
            time.sleep(0.05)
        raise AssertionError("it never answered")

    def stop(self):
        _, server = lock_holder(self.data)
        os.kill(server, signal.SIGTERM)
        self.process.wait(PATIENCE)
        return int(self.data.with_name(f"{self.data.name}.status").read_text())


@pytest.mark.fault("LC12")
@pytest.mark.parametrize(
    "output",
    [
        pytest.param(output, id=name, marks=pytest.mark.exhaustive if name == "the disk of the log is full" else ())
        for name, output in VOICELESS.items()
    ],
)
def test_a_server_without_usable_output_works_and_ends_normally(tmp_path, output):
    service = Quiet(tmp_path / "data", output).start()
    batch = service.client()
    register(batch, "runs", "true")

    job = batch.submit_job(jobName="runs", jobQueue="default", jobDefinition="runs")["jobId"]
    done = reaches(batch, job, "SUCCEEDED")
    status = service.stop()

    assert (done["status"], status) == ("SUCCEEDED", 0)
