"""redun's own functions for AWS Batch: definitions found again or made, single jobs, arrays, statuses, log lines."""

import json
import sys

from redun.executors import aws_batch

REGION = "eu-central-1"


def submit(script, **choices):
    arguments = {"containerOverrides": {"command": ["sh", "-c", script]}}
    settings = {"job_name": "by-redun", "memory": 0.0625, "role": "none", "aws_region": REGION, "timeout": 600}
    return aws_batch.batch_submit(arguments, "default", sys.argv[1], **settings, **choices)["jobId"]


def ended(*ids):
    statuses = {}
    while not all(statuses.get(identifier) in ("SUCCEEDED", "FAILED") for identifier in ids):
        statuses = {
            job["jobId"]: job["status"] for job in aws_batch.iter_batch_job_status(list(ids), aws_region=REGION)
        }
    return [statuses[identifier] for identifier in ids]


good, bad = submit("echo seen by redun", batch_tags={"a": "b"}), submit("exit 5", retries=2)
statuses = ended(good, bad)
(failed,) = aws_batch.aws_describe_jobs([bad], aws_region=REGION)
outcome = {
    "statuses": statuses,
    "attempts": [attempt["container"]["exitCode"] for attempt in failed["attempts"]],
    "lines": list(aws_batch.iter_batch_job_log_lines(good, aws_region=REGION)),
    "definition": failed["jobDefinition"],
    "definitions": len({job["jobDefinition"] for job in aws_batch.aws_describe_jobs([good, bad], aws_region=REGION)}),
}
if "array" in sys.argv:
    parent = submit("exit $AWS_BATCH_JOB_ARRAY_INDEX", array_size=2)
    children = [f"{parent}:{index}" for index in range(2)]
    outcome["array"] = ended(parent, *children)
print(json.dumps(outcome))
