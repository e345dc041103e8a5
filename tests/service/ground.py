"""Queues with room of their own on a server that is shared, jobs in them, and the commands that stop these."""

import shlex
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import count
from types import SimpleNamespace

from batchq.cli.main import main
from batchq.compute.simulated.script import Script, write
from tests.service.waiting import PATIENCE
from tests.support.scripts import IMAGE, command

FOR_EVER = Script(seconds=None, on_term=143)
NUMBERS = count(1)


def batchq(*words):
    """A command: its status, and the lines that it says and complains of."""
    with redirect_stdout(StringIO()) as said, redirect_stderr(StringIO()) as complained:
        try:
            status = main([str(it) for it in words])
        except SystemExit as left:
            status = left.code
    return SimpleNamespace(status=status, says=said.getvalue().splitlines(), complains=complained.getvalue())


def did(*words):
    done = batchq(*words)
    assert done.status == 0, done.complains
    return done.says


def key_of(name, data):
    """The id and the secret of a new one, as a shell reads them."""
    (given,) = did("key", "create", "--user", name, "--data", data)
    return [it.partition("=")[2] for it in shlex.split(given)[1:]]


class Ground:
    """A queue and an environment of one name, with room for so many jobs of one vCPU."""

    def __init__(self, service, *, room, key=("any", "any"), name=None):
        self.name = name or f"ground-{next(NUMBERS)}"
        self.service = service
        self.batch = service.client(key=key)
        resources = {"type": "EC2", "minvCpus": 0, "maxvCpus": room, "subnets": [], "instanceRole": "none"}
        self.batch.create_compute_environment(
            computeEnvironmentName=self.name, type="MANAGED", computeResources=resources
        )
        order = [{"order": 1, "computeEnvironment": self.name}]
        self.batch.create_job_queue(jobQueueName=self.name, priority=1, computeEnvironmentOrder=order)

    def submit(self, name="sim", *, script=FOR_EVER, array=None, nodes=None, key=None):
        """The id of a job."""
        batch = self.batch if key is None else self.service.client(key=key)
        kind = {"type": "container", "containerProperties": playing(script)}
        if nodes:
            ranges = [{"targetNodes": "0:", "container": playing(script)}]
            gang = {"numNodes": nodes, "mainNode": 0, "nodeRangeProperties": ranges}
            kind = {"type": "multinode", "nodeProperties": gang}
        definition = f"{name}-{next(NUMBERS)}"
        batch.register_job_definition(jobDefinitionName=definition, **kind)
        asked = {"jobName": name, "jobQueue": self.name, "jobDefinition": definition}
        return batch.submit_job(**asked, **({"arrayProperties": {"size": array}} if array else {}))["jobId"]

    def running(self, name="sim", **how):
        """The id of one that runs."""
        job_id = self.submit(name, **how)
        self.reach(job_id, "RUNNING")
        return job_id

    def reach(self, job_id, *statuses):
        """The job as it is told when it is in one of these statuses."""
        return self._wait(job_id, lambda job: job["status"] in statuses)

    def node_ends(self, node_id):
        return self._wait(node_id, lambda job: job["attempts"] and job["attempts"][-1].get("stoppedAt"))

    def told(self, job_id):
        (job,) = self.batch.describe_jobs(jobs=[job_id])["jobs"]
        return job

    def status(self, job_id):
        return self.told(job_id)["status"]

    def _wait(self, job_id, there):
        """A child may be about to come."""
        end = time.monotonic() + PATIENCE
        while not ((jobs := self.batch.describe_jobs(jobs=[job_id])["jobs"]) and there(jobs[0])):
            assert time.monotonic() < end, f"it does not come to that: {jobs}"
            time.sleep(0.05)
        return jobs[0]


def playing(script):
    """containerProperties of a simulated job."""
    name, value = write(script)
    return {
        "image": IMAGE,
        "command": command(script),
        "environment": [{"name": name, "value": value}],
        "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "4"}],
    }
