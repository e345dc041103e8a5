"""A server's jobs in every state, so that each page of the console has something to show."""

from batchq.compute.simulated.script import Script, script_variable
from tests.service.job_queue import ENDLESS, playing
from tests.service.waiting import container, create_queue, reaches, until
from tests.support.scripts import IMAGE

ARRAY_SIZE = 10_000
#: Markup, quotes, a direction override, a hyperlink and cursor movements of terminals.
HOSTILE = (
    '<script>window.executed = 1</script><img src=x onerror="window.executed = 1">\'"&lt;{{ 7 * 7 }}'
    "\u202edesrever\u202c\u2066isolated\x1b]8;;javascript:window.executed=1\x07link\x1b]8;;\x07\x1b[2J\x1b[H\x1b[31mred"
)


class Submitter:
    """Queues, definitions and jobs of a test. `jobs` has the ids of jobs by name."""

    def __init__(self, batch):
        self.batch = batch
        self.jobs = {}
        self._defined = set()

    def add_queue(self, name, *, vcpus, state="ENABLED"):
        """A queue with a compute environment of the same name."""
        create_queue(self.batch, name, vcpus=vcpus, state=state)

    def submit(self, name, *scripts, queue="train", children=(), environment=(), vcpus=1, attempts=1, **request):
        """The id of a new job. `children` are pairs of an index and its script."""
        plays = [
            script_variable(*(scripts or (ENDLESS,))),
            *(script_variable(script, child=index) for index, script in children),
        ]
        definition = name.rpartition("-")[0] or name
        if definition not in self._defined:
            self.define(definition, (*plays, *environment), vcpus=vcpus, attempts=attempts)
        job = self.batch.submit_job(jobName=name, jobQueue=queue, jobDefinition=definition, **request)["jobId"]
        self.jobs[name] = job
        return job

    def define(self, name, environment=(), *, vcpus=1, attempts=1):
        """Register a job definition, or its next revision."""
        variables = [{"name": key, "value": value} for key, value in environment]
        properties = container(
            "sh", "-c", "train --epochs 3", image=IMAGE, vcpus=vcpus, memory=4, environment=variables
        )
        retries = {"attempts": attempts}
        self.batch.register_job_definition(
            jobDefinitionName=name, type="container", containerProperties=properties, retryStrategy=retries
        )
        self._defined.add(name)

    def reach(self, name, *statuses):
        return reaches(self.batch, self.jobs[name], *statuses)


class World(Submitter):
    """A server with jobs in every state, and hostile content wherever requests can have it."""

    def __init__(self, service):
        super().__init__(service.client())
        self.add_queue("train", vcpus=64)
        self.add_queue("gpu", vcpus=2)
        self.add_queue("night", vcpus=2, state="DISABLED")
        self._run_jobs()
        self._end_jobs()
        self._queue_jobs()
        self._fill_array()

    def _run_jobs(self):
        lines = [f"epoch {number}: loss {1 / (number + 1):.3f}" for number in range(50)]
        self.submit("model-7", Script(seconds=None, on_term=143, output=(*lines, "\x1b[32mgreen\x1b[0m", HOSTILE)))
        self.submit("hostile-1", environment=(("HOSTILE", HOSTILE),), tags={"note": "<b>bold</b>"})
        self.submit("align-1")
        self.submit("align-2", dependsOn=[{"jobId": self.jobs["align-1"]}])
        self.submit("report-1", dependsOn=[{"jobId": self.jobs["align-2"]}])
        self.submit("sim-1", queue="gpu", vcpus=2)
        self._submit_gang()
        for name in ("model-7", "hostile-1", "align-1", "sim-1", "gang-1"):
            self.reach(name, "RUNNING")

    def _submit_gang(self):
        nodes = [{"targetNodes": "0:", "container": playing(ENDLESS)}]
        properties = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": nodes}
        self.batch.register_job_definition(jobDefinitionName="gang", type="multinode", nodeProperties=properties)
        self._defined.add("gang")
        self.submit("gang-1")

    def _end_jobs(self):
        for number in range(3):
            self.submit(f"fails-{number}", Script(seconds=0, exit_code=1, output=("cannot read input.csv",)))
        self.submit("large-1", Script(seconds=0, exit_code=137, out_of_memory=True), attempts=2)
        self.submit("good-1", Script(seconds=0, output=("done",)))
        self.submit("stopped-1")
        self.reach("stopped-1", "RUNNING")
        self.batch.terminate_job(jobId=self.jobs["stopped-1"], reason=HOSTILE)
        for name in ("fails-0", "fails-1", "fails-2", "large-1", "stopped-1"):
            self.reach(name, "FAILED")
        self.reach("good-1", "SUCCEEDED")

    def _queue_jobs(self):
        for number in range(20):
            self.submit(f"waits-{number}", queue="gpu")
        self.submit("never-1", queue="gpu", vcpus=16)
        self.define("model", [("EPOCHS", "5")], vcpus=2)
        self.submit("nightly-1", queue="train", dependsOn=[{"jobId": self.jobs["align-1"]}])

    def _fill_array(self):
        ended = [(index, Script(seconds=0, exit_code=int(index % 4 == 3))) for index in range(32)]
        self.add_queue("sweep", vcpus=8)
        self.submit("sweep-1", children=ended, queue="sweep", arrayProperties={"size": ARRAY_SIZE})
        until(lambda: self._children().get("FAILED") == 8 and self._children().get("RUNNING") == 8)

    def _children(self):
        (job,) = self.batch.describe_jobs(jobs=[self.jobs["sweep-1"]])["jobs"]
        return job["arrayProperties"].get("statusSummary", {})
