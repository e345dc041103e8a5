"""The mixed load: arrays, retries, terminated and paused jobs, a writer of 1 MB/s, and what each must end as."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from tests.faults.job_server import JobServer

OVER = {"SUCCEEDED", "FAILED"}
#: The engine restarts with live-restore, so a container ends for its own reasons only.
TRAPPED = "trap 'exit 143' TERM; sleep 3600 & wait $!"
LINE, LINES_PER_SECOND, WRITER_SECONDS = 8191, 122, 50  # characters, without the line feed; 1 MB a second
WRITER = (
    f"line=$(head -c {LINE} /dev/zero | tr '\\0' x); for second in $(seq {WRITER_SECONDS}); do "
    f"for number in $(seq {LINES_PER_SECOND}); do echo $line; done; sleep 0.85; done"
)
PAGE = 100  # jobs of a DescribeJobs


class Kind(Struct, frozen=True):
    """A kind of job, and how each job of the kind must end."""

    name: str
    shell: str
    status: str
    attempts: int = 1
    size: int | None = None
    #: `terminate` or `pause`, which is applied when the job runs; a paused job is resumed, and terminated then.
    then: str = ""
    #: The number of attempts that the job must have had.
    tried: int = 1


KINDS = (
    Kind("single", "true", "SUCCEEDED"),
    Kind("array", "true", "SUCCEEDED", size=3),
    Kind("retried", "[ $AWS_BATCH_JOB_ATTEMPT -gt 1 ]", "SUCCEEDED", attempts=3, tried=2),
    Kind("failing", "exit 3", "FAILED", attempts=2, tried=2),
    Kind("terminated", TRAPPED, "FAILED", then="terminate"),
    Kind("paused", TRAPPED, "FAILED", attempts=3, then="pause", tried=2),
)
WRITING = Kind("writer", WRITER, "SUCCEEDED")


class Sent(Struct):
    """An acknowledged job that has not been seen to end."""

    kind: Kind
    #: `running`, `paused`, `resumed` or `terminated`: the last step of `then` that was requested.
    step: str = ""
    #: Whether the engine restarted meanwhile, which may end a container, or lose its output, even with live-restore.
    disturbed: bool = False


class Load:
    """Submits jobs, steers those of `then`, and compares each end with that of its kind."""

    def __init__(self, server: JobServer) -> None:
        self._server = server
        self._batch = server.batch
        self.outstanding: dict[str, Sent] = {}
        self.submitted = 0
        self.ended = 0
        self.lines = 0
        self.disturbed = 0
        self.wrong: list[str] = []
        for kind in (*KINDS, WRITING):
            self._batch.register_job_definition(
                jobDefinitionName=kind.name,
                type="container",
                containerProperties={
                    "image": "batchq-test:latest",
                    "command": ["sh", "-c", kind.shell],
                    "resourceRequirements": [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "16"}],
                },
                retryStrategy={"attempts": kind.attempts},
            )

    def submit(self, kind: Kind) -> None:
        array = {} if kind.size is None else {"arrayProperties": {"size": kind.size}}
        job = self._batch.submit_job(jobName=kind.name, jobQueue="wide", jobDefinition=kind.name, **array)
        self.outstanding[job["jobId"]] = Sent(kind)
        self.submitted += 1

    def steer(self) -> None:
        """Look at all outstanding jobs once: request the next step of each, and check those that have ended."""
        jobs = self._described(list(self.outstanding))
        for job_id in [it for it in self.outstanding if it not in jobs]:
            self.wrong.append(f"lost: {job_id}, {self.outstanding.pop(job_id)}")
        for job_id, job in jobs.items():
            if job["status"] in OVER:
                sent = self.outstanding.pop(job_id)
                self.ended += 1
                self.disturbed += sent.disturbed
                if not sent.disturbed:
                    self._check(sent.kind, job)
            elif self.outstanding[job_id].kind.then:
                self._next_step(job_id, job, self.outstanding[job_id])

    def disturb(self) -> None:
        """Record that the engine has restarted under the outstanding jobs."""
        for sent in self.outstanding.values():
            sent.disturbed = True

    def _described(self, ids: Sequence[str]) -> Mapping[str, Any]:
        pages = (ids[at : at + PAGE] for at in range(0, len(ids), PAGE))
        return {job["jobId"]: job for page in pages for job in self._batch.describe_jobs(jobs=page)["jobs"]}

    def _next_step(self, job_id: str, job: Mapping[str, Any], sent: Sent) -> None:
        runs = job["status"] == "RUNNING"
        match sent.kind.then, sent.step:
            case ("terminate", "") | ("pause", "resumed") if runs:
                self._batch.terminate_job(jobId=job_id, reason="soak")
                sent.step = "terminated"
            case "pause", "" if runs:
                self._ask(job_id, "pause")
                sent.step = "paused"
            case "pause", "paused" if job["status"] == "RUNNABLE":
                self._ask(job_id, "resume")
                sent.step = "resumed"

    def _ask(self, job_id: str, verb: str) -> None:
        status, answer = self._server.service.native(
            f"jobs/{job_id}/{verb}", {"reason": "soak"} if verb == "pause" else {}
        )
        if status != 200:
            self.wrong.append(f"{verb} of {job_id}: {status} {answer}")

    def _check(self, kind: Kind, job: Mapping[str, Any]) -> None:
        tried = len(job["attempts"]) if kind.size is None else kind.tried
        if (job["status"], tried) != (kind.status, kind.tried):
            reasons = [it["container"].get("reason") for it in job["attempts"]]
            text = f"{job['status']} after {tried}: {job.get('statusReason')} {reasons}"
            self.wrong.append(f"{kind.name} {job['jobId']}: {text}")
        if kind.size is not None and job["arrayProperties"]["statusSummary"].get(kind.status) != kind.size:
            self.wrong.append(f"{kind.name} {job['jobId']}: {job['arrayProperties']['statusSummary']}")
        if kind is WRITING and job["status"] == kind.status:
            lines = sum(len(line) == LINE for line in self._server.stored_output(job["jobId"]))
            self.lines += lines
            if lines != WRITER_SECONDS * LINES_PER_SECOND:
                self.wrong.append(f"writer {job['jobId']}: {lines} lines of {WRITER_SECONDS * LINES_PER_SECOND}")
