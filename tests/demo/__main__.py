"""Start a server, run and stop jobs through boto3, and report each one. Exit status 1 after an unexpected outcome."""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.demo.jobs import ON_TERM, PLAYS, Play
from tests.kubernetes.service import service_kind
from tests.service.waiting import create_queue, output, register, wait_for_output
from tests.support.service import Service, serving

GRACE = 5  # seconds; AWS's 30 would make a long demo
PATIENCE = 100  # seconds for all of it
REASON = "not needed any more"
OVER = {"SUCCEEDED", "FAILED"}


def main(kind: type[Service] = Service) -> int:
    """`kind`: how the server runs."""
    with (
        tempfile.TemporaryDirectory(prefix="batchq-demo-") as directory,
        serving(Path(directory) / "data", "--stop-grace", str(GRACE), kind=kind) as service,
    ):
        print(f"batchq serves at {service.url}; a stopped job has {GRACE} s between SIGTERM and SIGKILL\n")
        holder = stage(service.client())
        wrong = sum(report_outcome(service, *played) for played in play(service))
        service.client().terminate_job(jobId=holder, reason=REASON)
        left = not_removed(service)
    status = service.process.returncode
    print(f"{wrong} unexpected jobs, {left} containers left over, the server ended with status {status}")
    return 1 if wrong or left or status else 0


def not_removed(service: Service) -> int:
    """The number of containers that are not removed in time, after the end of all jobs."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and service.containers():
        time.sleep(0.2)
    return len(service.containers())


def stage(batch: Any) -> str:
    """Create two environments and two queues, and submit a job that fills the queue `narrow`. Returns its id."""
    for name, vcpus in (("demo", 8), ("narrow", 1)):
        create_queue(batch, name, vcpus=vcpus)
    return submit(batch, Play(name="holds-the-narrow-queue", shell=ON_TERM, queue="narrow", **dict.fromkeys(UNCHECKED)))


UNCHECKED = ("status", "reason", "exit_codes", "walk")


def submit(batch: Any, play: Play) -> str:
    register(batch, play.name, "sh", "-c", play.shell)
    job = batch.submit_job(
        jobName=play.name,
        jobQueue=play.queue,
        jobDefinition=play.name,
        retryStrategy={"attempts": play.attempts},
        arrayProperties={} if play.array is None else {"size": play.array},
    )
    return job["jobId"]


def play(service: Service) -> list[tuple[Play, str]]:
    """Submit all jobs, cancel or terminate each in the status of its play, and wait until all have ended."""
    batch = service.client()
    jobs = {submit(batch, other_play): other_play for other_play in PLAYS}
    to_do = {job_id: job_play for job_id, job_play in jobs.items() if job_play.then}
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        statuses = {job["jobId"]: job["status"] for job in batch.describe_jobs(jobs=list(jobs))["jobs"]}
        for job_id in [key for key, job_play in to_do.items() if statuses[key] == job_play.when]:
            job_play = to_do.pop(job_id)
            if job_play.ready:
                wait_for_output(service, job_id, job_play.ready)
            request = batch.cancel_job if job_play.then == "cancel" else batch.terminate_job
            request(jobId=job_id, reason=REASON)
        if set(statuses.values()) <= OVER:
            break
        time.sleep(0.1)
    return [(job_play, job_id) for job_id, job_play in jobs.items()]


def report_outcome(service: Service, job_play: Play, job_id: str) -> bool:
    """Print the history and the end of a job. Returns whether the outcome is unexpected."""
    (job,) = service.client().describe_jobs(jobs=[job_id])["jobs"]
    walk = service.native(f"jobs/{job_id}/history")[1]["history"]
    wrong = job_play.wrong(job, [job["status"] for job in walk if "stopOrder" not in job])
    print(f"{job_play.name}{f' ({job_play.then} requested while {job_play.when})' if job_play.then else ''}")
    print(f"  walk    {steps(walk)}")
    print(f"  end     {job['status']}, {job.get('statusReason')!r}, {flags(job)}")
    for number, attempt in enumerate(job["attempts"], start=1):
        seconds = (attempt["stoppedAt"] - attempt["startedAt"]) / 1000
        code = attempt["container"].get("exitCode")
        wrote = output(service, attempt["container"]["logStreamName"])
        print(f"  try {number}   exit code {code} after {seconds:.2f} s, wrote {wrote}")
    if job_play.array:
        print(f"  children {job['arrayProperties']['statusSummary']}")
    print("  as expected\n" if not wrong else f"  WRONG   {'; '.join(wrong)}\n")
    return bool(wrong)


def steps(walk: list[dict[str, Any]]) -> str:
    """Each status and each step of a stop order, with the seconds since the job was submitted."""
    return " -> ".join(f"{step(entry)} {(entry['at'] - walk[0]['at']) / 1000:.2f}s" for entry in walk)


def step(entry: dict[str, Any]) -> str:
    order = entry.get("stopOrder")
    return entry["status"] if order is None else f"{order['kind']} {order['progress']}".lower()


def flags(job: dict[str, Any]) -> str:
    return (
        " and ".join(name for name in ("isCancelled", "isTerminated") if job.get(name))
        or "neither cancelled nor terminated"
    )


if __name__ == "__main__":
    sys.exit(main(service_kind()))
