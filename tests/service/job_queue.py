"""Queues with an environment of their own on a shared server, their jobs, and commands."""

import shlex
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import count
from types import SimpleNamespace

from batchq.cli.main import main
from batchq.compute.simulated.script import Script, script_variable
from tests.service.waiting import container, create_queue, reaches
from tests.support.scripts import IMAGE, command

ENDLESS = Script(seconds=None, on_term=143)
NUMBERS = count(1)


def batchq(*words):
    """Run a command. Returns its status, the lines of stdout, and stderr."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            status = main([str(word) for word in words])
        except SystemExit as raised:
            status = raised.code
    return SimpleNamespace(status=status, out=out.getvalue().splitlines(), err=err.getvalue())


def run(*words):
    """Run a command that must succeed. Returns the lines of stdout."""
    done = batchq(*words)
    assert done.status == 0, done.err
    return done.out


def create_key(user, data):
    """The id and the secret of a new key."""
    (line,) = run("key", "create", "--user", user, "--data", data)
    return [part.partition("=")[2] for part in shlex.split(line)[1:]]


class JobQueue:
    """A queue and an environment of one name, with `room` vCPUs, one for each job."""

    def __init__(self, service, *, room, key=("any", "any"), name=None):
        self.name = name or f"queue-{next(NUMBERS)}"
        self.service = service
        self.batch = service.client(key=key)
        create_queue(self.batch, self.name, vcpus=room)

    def submit(self, name="sim", *, script=ENDLESS, array=None, nodes=None, key=None):
        """The id of a job."""
        batch = self.batch if key is None else self.service.client(key=key)
        kind = {"type": "container", "containerProperties": playing(script)}
        if nodes:
            ranges = [{"targetNodes": "0:", "container": playing(script)}]
            gang = {"numNodes": nodes, "mainNode": 0, "nodeRangeProperties": ranges}
            kind = {"type": "multinode", "nodeProperties": gang}
        definition = f"{name}-{next(NUMBERS)}"
        batch.register_job_definition(jobDefinitionName=definition, **kind)
        request = {"jobName": name, "jobQueue": self.name, "jobDefinition": definition}
        return batch.submit_job(**request, **({"arrayProperties": {"size": array}} if array else {}))["jobId"]

    def running(self, name="sim", **how):
        """The id of a job that is RUNNING."""
        job_id = self.submit(name, **how)
        self.reach(job_id, "RUNNING")
        return job_id

    def reach(self, job_id, *statuses):
        """The description of the job once it has one of these statuses."""
        return reaches(self.batch, job_id, *statuses)

    def describe(self, job_id):
        (job,) = self.batch.describe_jobs(jobs=[job_id])["jobs"]
        return job

    def status(self, job_id):
        return self.describe(job_id)["status"]


def submit_script(service, script, name="script"):
    """Register and submit a job that plays the script. Returns its id."""
    batch = service.client()
    batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=playing(script))
    return batch.submit_job(jobName=name, jobQueue="default", jobDefinition=name)["jobId"]


def playing(script):
    """containerProperties of a simulated job."""
    name, value = script_variable(script)
    return container(*command(script), image=IMAGE, memory=4, environment=[{"name": name, "value": value}])
