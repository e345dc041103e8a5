"""A real server on an engine, with resources for many jobs, and records that their containers write."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tests.service.waiting import PATIENCE, container, create_queue, reaches, stored_lines, until
from tests.support.scripts import IMAGE
from tests.support.service import Service, serving

RECORD = "echo {what} $AWS_BATCH_JOB_ID $AWS_BATCH_JOB_ATTEMPT >> /records/log"


class ContainerRecords:
    """Each container appends a line to a file when it starts, and one before it exits."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._log = directory / "log"
        self._log.touch()
        self._directory = directory

    def container(self, work: str) -> dict[str, Any]:
        """containerProperties of a job with records. A stop signal ends it at once, without the record of its end."""
        start, end = (RECORD.format(what=name) for name in ("start", "end"))
        shell = f"trap 'exit 143' TERM; {start}; {work}; code=$?; {end}; exit $code"
        volumes = [{"name": "records", "host": {"sourcePath": str(self._directory)}}]
        mount_points = [{"containerPath": "/records", "sourceVolume": "records"}]
        return container("sh", "-c", shell, memory=16, volumes=volumes, mountPoints=mount_points)

    def create_file(self, name: str) -> None:
        """Create a file of this name, for containers that wait for it."""
        (self._directory / name).touch()

    def counts(self, what: str) -> Counter[tuple[str, int]]:
        """The number of these records of each attempt, by job and number."""
        lines = (line.split() for line in self._log.read_text().splitlines())
        return Counter((job_id, int(attempt)) for kind, job_id, attempt in lines if kind == what)


class JobServer:
    def __init__(self, service: Service, records: ContainerRecords) -> None:
        self.service = service
        self.records = records
        self.batch = service.client()
        self._names = count()
        create_queue(self.batch, "wide", vcpus=64)

    def submit(
        self, work: str, *, attempts: int = 1, rules: Sequence[dict[str, str]] = (), image: str = IMAGE, **members: Any
    ) -> str:
        """The id of a job that runs this shell command between its records of start and end."""
        name = f"work-{next(self._names)}"
        properties = self.records.container(work) | {"image": image}
        self.batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)
        retry = {"attempts": attempts, **({"evaluateOnExit": list(rules)} if rules else {})}
        return self.batch.submit_job(jobName=name, jobQueue="wide", jobDefinition=name, retryStrategy=retry, **members)[
            "jobId"
        ]

    def wait_for(self, job_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until the job has one of these statuses. Returns its description; the failure shows the server's log."""
        try:
            return reaches(self.batch, job_id, *statuses)
        except AssertionError as error:
            error.add_note(f"{self.service.containers()}\n{self.service.log.read_text()[-5000:]}")
            raise

    def stored_output(self, job_id: str) -> Iterator[str]:
        """The stored lines of a job's last attempt, page by page."""
        (job,) = self.batch.describe_jobs(jobs=[job_id])["jobs"]
        return stored_lines(self.service, job["container"]["logStreamName"])

    def stored_log_bytes(self) -> int:
        """The size of the stored output of all jobs."""
        return sum(path.stat().st_size for path in (self.service.data / "logs").rglob("*") if path.is_file())

    def wait_until_started(self, *jobs: str) -> None:
        """Wait until each runs or has ended, by its status and by the records of its container."""
        for job_id in jobs:
            self.wait_for(job_id, "RUNNING", "SUCCEEDED", "FAILED")
        self.until(lambda: {of for of, _ in self.records.counts("start")} >= set(jobs))

    def wait_for_health(self, status: str) -> None:
        self.until(lambda: self.service.health()["status"] == status)

    def have_status(self, jobs: Sequence[str], status: str) -> bool:
        return {job["status"] for job in self.batch.describe_jobs(jobs=list(jobs))["jobs"]} == {status}

    def until(self, holds: Callable[[], bool], *, patience: float = PATIENCE) -> None:
        until(holds, lambda: self.service.log.read_text()[-3000:], patience=patience)


@contextmanager
def job_server(directory: Path, engine_url: str | None = None, *more: str) -> Iterator[JobServer]:
    """None: the engine of DOCKER_HOST, where no container may remain. `more`: further flags of the server."""
    settings = ["BATCHQ_SURVEY_EVERY=1"]
    if engine_url is not None:
        settings.append("BATCHQ_NETWORK=bridge")  # the bridge of a killed engine would remain
    flags, under = ("--stop-grace", "2", "--min-timeout", "1", *more), ("env", *settings)
    with serving(directory / "data", *flags, under=under, engine_url=engine_url) as service:
        try:
            yield (server := JobServer(service, ContainerRecords(directory / "records")))
            server.until(lambda: engine_url is not None or not service.containers())
        finally:
            if engine_url is None:
                service.stop()
                service.remove_containers()


def outcomes(job: dict[str, Any]) -> list[tuple[int | None, str]]:
    """The exit code and the status reason of each attempt of a job."""
    return [(attempt["container"].get("exitCode"), attempt["statusReason"]) for attempt in job["attempts"]]
