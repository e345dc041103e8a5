"""The mixed load: arrays, retries, terminated and paused jobs, a writer of 1 MB/s, and what each must end as.

The engine restarts with live-restore. It may then lose an attempt whose start is under way (decision 0102): that
attempt, and no other, ends with AWS's reason of a terminated host. All other attempts end as without a restart, with
all lines of their output.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from batchq.domain.status_reasons import HOST_TERMINATED
from tests.faults.job_server import JobServer
from tests.service.waiting import container

OVER = {"SUCCEEDED", "FAILED"}
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
    #: How often the engine has restarted meanwhile.
    restarts: int = 0


class Load:
    """Submits jobs, steers those of `then`, and compares each end with that of its kind."""

    def __init__(self, server: JobServer) -> None:
        self._server = server
        self._batch = server.batch
        self.outstanding: dict[str, Sent] = {}
        #: The writers that have ended and whose output is not compared yet.
        self.unread: list[str] = []
        self.submitted = 0
        self.ended = 0
        self.lines = 0
        #: Jobs that ended after a restart of the engine, and writers among them that were read as a whole.
        self.disturbed = 0
        self.disturbed_writers = 0
        #: Attempts that were lost in their start.
        self.lost = 0
        self.wrong: list[str] = []
        for kind in (*KINDS, WRITING):
            self._batch.register_job_definition(
                jobDefinitionName=kind.name,
                type="container",
                containerProperties=container("sh", "-c", kind.shell, memory=16),
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
        for job_id in [job_id for job_id in self.outstanding if job_id not in jobs]:
            self.wrong.append(f"lost: {job_id}, {self.outstanding.pop(job_id)}")
        for job_id, job in jobs.items():
            if job["status"] in OVER:
                sent = self.outstanding.pop(job_id)
                self.ended += 1
                self.disturbed += bool(sent.restarts)
                self._check(sent, job)
            elif self.outstanding[job_id].kind.then:
                self._next_step(job_id, job, self.outstanding[job_id])
        self._read_writers()

    def disturb(self) -> None:
        """Record that the engine has restarted under the outstanding jobs."""
        for sent in self.outstanding.values():
            sent.restarts += 1

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

    def _check(self, sent: Sent, job: Mapping[str, Any]) -> None:
        """Compare the end of a job, or of each child of an array, with that of its kind."""
        kind = sent.kind
        ids = [job["jobId"]] if kind.size is None else [f"{job['jobId']}:{index}" for index in range(kind.size)]
        ends = [job] if kind.size is None else list(self._described(ids).values())
        lost = [sum(attempt["statusReason"] == HOST_TERMINATED for attempt in end["attempts"]) for end in ends]
        self.lost += sum(lost)
        if len(ends) != len(ids) or not all(map(is_right, [sent] * len(ends), ends, lost)):
            reasons = [[attempt["statusReason"] for attempt in end["attempts"]] for end in ends]
            text = f"{job['status']} {job.get('statusReason')} {reasons}"
            self.wrong.append(f"{kind.name} {job['jobId']}, {sent.restarts} restarts: {text}")
        if kind is WRITING and job["status"] == kind.status:
            self.unread.append(job["jobId"])
            self.disturbed_writers += bool(sent.restarts)

    def _read_writers(self) -> None:
        """Count the lines of the writers whose containers are removed: until then their output may be incomplete."""
        if not self.unread:
            return
        existing = {container["Labels"]["io.batchq.job"] for container in self._server.service.containers()}
        for job_id in [job_id for job_id in self.unread if job_id not in existing]:
            self.unread.remove(job_id)
            lines = sum(len(line) == LINE for line in self._server.stored_output(job_id))
            self.lines += lines
            if lines != WRITER_SECONDS * LINES_PER_SECOND:
                self.wrong.append(f"writer {job_id}: {lines} lines of {WRITER_SECONDS * LINES_PER_SECOND}")


def is_right(sent: Sent, job: Mapping[str, Any], lost: int) -> bool:
    """Whether a job, or the child of an array, ended as its kind must, apart from attempts that were lost.

    At most one attempt is lost with a restart. A lost attempt may be one that would have failed by itself, and a job
    without attempts left ends as lost.
    """
    kind, tried = sent.kind, len(job["attempts"])
    if lost > sent.restarts:
        return False
    if lost and job["status"] == "FAILED" and job["statusReason"] == HOST_TERMINATED:
        return tried == kind.attempts
    return job["status"] == kind.status and kind.tried <= tried + lost and tried - lost <= kind.tried
