"""A server with the training program in containers on Docker, and requests to it in the training dialect."""

import json
import re
import subprocess
import sys
import urllib.error
import urllib.request

from tests.service.waiting import stored_lines, until
from tests.support.service import Service
from tests.trainer.image import TRAINER

TIMEOUT = 90.0  # seconds
STEP = re.compile(r"step=(\d+) loss=([0-9.]+)")


class Runs:
    """Training jobs of one server, whose checkpoints are in `checkpoints`."""

    def __init__(self, service: Service, checkpoints, *, image: str):
        self.service = service
        self._image = image
        self._checkpoints = checkpoints

    def create(self, **environment):
        """A job that runs the training program; its id, once it has made some steps."""
        body = {
            "name": "fit-a-line",
            "image": self._image,
            "environment": {name: str(value) for name, value in environment.items()},
            "infrastructure": {"vcpus": 0.25, "memory": "64MB"},
            "checkpoints": {"signal": "USR1", "timeoutSeconds": 30},
        }
        job_id = self.call("POST", "", body)["jobId"]
        self.wait(job_id, lambda job: job["status"] == "running")
        self.until(lambda: len(self.losses(job_id)) > 5)
        return job_id

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.service.url}/v2/training/jobs{path}", data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refused:
            raise AssertionError(refused.read().decode()) from None

    def show(self, job_id):
        return self.call("GET", f"/{job_id}")

    def wait(self, job_id, holds):
        """The job as shown once the condition holds."""
        self.until(lambda: holds(self.show(job_id)))
        return self.show(job_id)

    def until(self, holds):
        until(holds, lambda: self.service.log.read_text()[-2000:], patience=TIMEOUT)

    def stop_orders(self, job_id):
        """All orders to cancel or stop the job."""
        return self.service.native(f"jobs/{job_id}")[1]["job"].get("stopOrders", [])

    def names(self, job_id):
        """The names of what is in the checkpoint directory."""
        folder = self._checkpoints / job_id
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def output(self, job_id):
        """All lines of all attempts, in order."""
        (job,) = self.service.client().describe_jobs(jobs=[job_id])["jobs"]
        present = job["container"].get("logStreamName")
        streams = dict.fromkeys([*(attempt["container"].get("logStreamName") for attempt in job["attempts"]), present])
        return [line for stream in streams if stream for line in stored_lines(self.service, stream)]

    def losses(self, job_id):
        """The step and the loss of each line."""
        return losses_in(self.output(job_id))


def losses_in(lines):
    return [(int(found[1]), found[2]) for line in lines if (found := STEP.search(line))]


def uninterrupted(folder, steps):
    """The losses of a run without interruption, by this machine's Python."""
    environment = {"BATCHQ_CHECKPOINT_DIR": str(folder), "STEPS": str(steps), "SECONDS_PER_STEP": "0"}
    done = subprocess.run([sys.executable, TRAINER], env=environment, capture_output=True, text=True, check=True)
    return losses_in(done.stdout.splitlines())
