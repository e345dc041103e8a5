"""Airflow's BatchOperator, and the hook behind it. Prints the outcomes of three jobs."""

import json
import sys
from datetime import timedelta

from airflow.providers.amazon.aws.hooks.batch_client import BatchClientHook
from airflow.providers.amazon.aws.operators.batch import BatchOperator


class Instance:
    """The part of a task instance that the operator's links use."""

    def xcom_push(self, **_):
        pass


def run(name, definition, **choices):
    operator = BatchOperator(
        task_id=name, job_name=name, job_queue="default", job_definition=definition, aws_conn_id=None,
        region_name="eu-central-1", awslogs_enabled=True, awslogs_fetch_interval=timedelta(seconds=1),
        tags={"who": "airflow"}, **choices,
    )  # fmt: skip
    operator.hook.status_retries = 100
    try:
        returned = operator.execute({"ti": Instance(), "task_instance": Instance()})
    except Exception as why:  # noqa: BLE001 - which one it is differs between Airflow's versions
        returned = f"{type(why).__name__}: {why}"
    return operator.job_id, returned


good, returned = run("good", sys.argv[1], parameters={"word": "airflow"}, poll_interval=1)
bad, why = run("bad", sys.argv[1], container_overrides={"command": ["sh", "-c", "exit 4"]}, poll_interval=1)
hook = BatchClientHook(aws_conn_id=None, region_name="eu-central-1")
long = hook.client.submit_job(
    jobName="long", jobQueue="default", jobDefinition=sys.argv[1], containerOverrides={"command": ["sleep", "600"]}
)["jobId"]
hook.poll_for_job_running(long, delay=1)
hook.terminate_job(long, "Task killed by the user")
hook.poll_for_job_complete(long, delay=1)
outcome = {
    "good": returned == good,
    "bad": why,
    "long": hook.get_job_description(long)["statusReason"],
    "logs": hook.get_job_awslogs_info(good),
}
print(json.dumps(outcome))
