"""Metaflow's client of AWS Batch: the requests of a step decorated with @batch. Prints the outcomes of three jobs."""

import json

from metaflow.plugins.aws.batch.batch_client import BatchClient

CHOICES = (
    *("execution_role", "shared_memory", "max_swap", "swappiness", "inferentia", "efa", "memory", "host_volumes"),
    *("efs_volumes", "use_tmpfs", "tmpfs_tempdir", "tmpfs_size", "tmpfs_path", "num_parallel", "ephemeral_storage"),
    *("log_driver", "log_options", "privileged"),
)


def launch(script, **choices):
    job = (
        client.job().job_name("step").job_queue("default").image("batchq-test:latest").iam_role("arn:aws:iam::1:role/r")
    )
    settings = dict.fromkeys(CHOICES) | {"shared_memory": 16, "memory": "64"} | choices
    job.job_def("batchq-test:latest", "arn:aws:iam::1:role/r", "default", **settings)
    job.task_id("control-1").command(["sh", "-c", script]).cpu("1").memory("64").gpu(0).timeout_in_secs(600).attempts(1)
    return job.tag("app", "metaflow").parameter("name", "value").environment_variable("WORD", "hello").execute()


def ended(job):
    while not job.is_done:
        pass
    return [job.status, job.status_code, job.reason, job.status_reason]


client = BatchClient()
good, bad, long = launch("test $WORD = hello"), launch("exit 3"), launch("sleep 600")
while not long.is_running:
    pass
unfinished = [job["jobId"] for job in client.unfinished_jobs()]
long.kill()
again = client.attach_job(good.id)
outcome = {
    "good": ended(again),
    "bad": ended(bad),
    "long": ended(long),
    "unfinished": long.id in unfinished,
    "definitions": sorted({job.info["jobDefinition"] for job in (good, bad, long)}),
}
print(json.dumps(outcome))
