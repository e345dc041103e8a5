"""Airflow's BatchOperator with CloudWatch logs on, and its BatchClientHook."""

import json

from tests.service.waiting import register


def test_airflow_runs_fails_and_kills_jobs_and_copies_their_logs(client):
    register(client.service.client(), "small", "sh", "-c", "echo seen by Ref::word")

    done = client.run("python", client.program("airflow_operator"), "small")

    told = json.loads(done.stdout.splitlines()[-1])
    assert told["good"]
    assert "AWS Batch job" in told["bad"]
    assert "'exitCode': 4" in told["bad"]
    assert told["long"] == "Task killed by the user"
    assert told["logs"]["awslogs_group"] == "/aws/batch/job"
    assert told["logs"]["awslogs_stream_name"].startswith("small/default/")
    assert "seen by airflow" in done.stdout
