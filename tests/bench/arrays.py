"""What an array of ten thousand costs: to accept against one job, to end against a hundred jobs."""

from time import monotonic

from tests.support.service import Service

SIZE = 10_000
SINGLE = {"jobName": "single", "jobQueue": "waiting", "jobDefinition": "true"}


def accepted(service: Service, **asked: object) -> float:
    """Milliseconds that one SubmitJob takes. The jobs of the array are ended again before this returns."""
    batch = service.client()
    began = monotonic()
    job = batch.submit_job(**SINGLE, **asked)["jobId"]
    took = (monotonic() - began) * 1000
    ended(service, job)
    return took


def ended(service: Service, *jobs: str) -> float:
    """Milliseconds from the first CancelJob until all of them are FAILED."""
    batch = service.client()
    began = monotonic()
    for job in jobs:
        batch.cancel_job(jobId=job, reason="measured")
    waiting = set(jobs)
    while waiting:
        told = batch.describe_jobs(jobs=sorted(waiting)[:100])["jobs"]
        waiting -= {job["jobId"] for job in told if job["status"] == "FAILED"}
    return (monotonic() - began) * 1000


def array_cancelled(service: Service) -> float:
    """Milliseconds until ten thousand waiting children and their parent are FAILED."""
    batch = service.client()
    job = batch.submit_job(**SINGLE, arrayProperties={"size": SIZE})["jobId"]
    while _spawned(service, job) < SIZE:
        pass
    return ended(service, job)


def singles_cancelled(service: Service, count: int = 100) -> float:
    batch = service.client()
    return ended(service, *[batch.submit_job(**SINGLE)["jobId"] for _ in range(count)])


def _spawned(service: Service, job: str) -> int:
    [told] = service.client().describe_jobs(jobs=[job])["jobs"]
    return sum(told["arrayProperties"]["statusSummary"].values())
