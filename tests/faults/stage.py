"""A real server on an engine, with room for many jobs, which record their start and their end."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.faults.truth import Truth
from tests.service.waiting import reaches
from tests.support.scripts import IMAGE
from tests.support.service import Service, serving

PATIENCE = 60.0  # seconds
ROOM = {"type": "EC2", "minvCpus": 0, "maxvCpus": 64, "subnets": [], "instanceRole": "none"}


class Stage:
    def __init__(self, service: Service, truth: Truth) -> None:
        self.service = service
        self.truth = truth
        self.batch = service.client()
        self._names = count()
        self.batch.create_compute_environment(computeEnvironmentName="wide", type="MANAGED", computeResources=ROOM)
        order = [{"order": 1, "computeEnvironment": "wide"}]
        self.batch.create_job_queue(jobQueueName="wide", priority=1, computeEnvironmentOrder=order)

    def submit(
        self,
        work: str,
        *,
        attempts: int = 1,
        rules: Sequence[dict[str, str]] = (),
        image: str = IMAGE,
        **members: Any,
    ) -> str:
        """The id of a job that runs this shell command between its records of start and end."""
        name = f"work-{next(self._names)}"
        properties = self.truth.container(work) | {"image": image}
        self.batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)
        retry = {"attempts": attempts, **({"evaluateOnExit": list(rules)} if rules else {})}
        return self.batch.submit_job(jobName=name, jobQueue="wide", jobDefinition=name, retryStrategy=retry, **members)[
            "jobId"
        ]

    def then(self, job_id: str, *statuses: str) -> dict[str, Any]:
        return reaches(self.batch, job_id, *statuses)

    def output(self, job_id: str) -> Iterator[str]:
        """The lines that are kept of a job's last attempt, page by page."""
        (job,) = self.batch.describe_jobs(jobs=[job_id])["jobs"]
        stream = {"logGroupName": "/aws/batch/job", "logStreamName": job["container"]["logStreamName"]}
        logs, after = self.service.client("logs"), ""
        page = logs.get_log_events(**stream, startFromHead=True)
        while page["nextForwardToken"] != after:
            yield from (event["message"] for event in page["events"])
            after = page["nextForwardToken"]
            page = logs.get_log_events(**stream, startFromHead=True, nextToken=after)

    def kept(self) -> int:
        """Bytes of output that are kept of all jobs."""
        return sum(it.stat().st_size for it in (self.service.data / "logs").rglob("*") if it.is_file())

    def begins(self, *jobs: str) -> None:
        """Wait until each runs or has ended, by its status and by the records of its container."""
        for job_id in jobs:
            self.then(job_id, "RUNNING", "SUCCEEDED", "FAILED")
        self.until(lambda: {of for of, _ in self.truth.counts("start")} >= set(jobs))

    def health_is(self, status: str) -> None:
        self.until(lambda: self.service.health()["status"] == status)

    def are(self, jobs: Sequence[str], status: str) -> bool:
        return {it["status"] for it in self.batch.describe_jobs(jobs=list(jobs))["jobs"]} == {status}

    def until(self, holds: Callable[[], bool], *, patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
        while not holds():
            assert time.monotonic() < end, self.service.log.read_text()[-3000:]
            time.sleep(0.05)


@contextmanager
def staged(directory: Path, engine_url: str | None = None) -> Iterator[Stage]:
    """None: the engine of DOCKER_HOST, where no container may remain."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("BATCHQ_SURVEY_EVERY", "1")
        if engine_url is not None:
            environment.setenv("DOCKER_HOST", engine_url)
            environment.setenv("BATCHQ_NETWORK", "bridge")  # it dies, and the machine would keep a bridge of its making
        with serving(directory / "data", "--stop-grace", "2", "--min-timeout", "1") as service:
            try:
                yield (stage := Stage(service, Truth(directory / "truth")))
                stage.until(lambda: engine_url is not None or not service.containers())
            finally:
                if engine_url is None:
                    service.stop()
                    service.sweep()


def outcomes(job: dict[str, Any]) -> list[tuple[int | None, str]]:
    """The exit code and the status reason of each attempt of a job."""
    return [(it["container"].get("exitCode"), it["statusReason"]) for it in job["attempts"]]
