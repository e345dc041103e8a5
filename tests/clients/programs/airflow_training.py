"""Airflow's SageMakerTrainingOperator: one job that completes, and one that fails. Prints their outcomes."""

import json
import sys

from airflow.providers.amazon.aws.operators.sagemaker import SageMakerTrainingOperator

CONFIG = {
    "RoleArn": "arn:aws:iam::123456789012:role/airflow",
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/key"},
    "ResourceConfig": {"InstanceType": "batchq.cpu.0.1u0.0625g", "InstanceCount": 1, "VolumeSizeInGB": 1},
    "StoppingCondition": {"MaxRuntimeInSeconds": 600},
}


def train(name, script, **choices):
    algorithm = {"TrainingImage": sys.argv[1], "TrainingInputMode": "File", "ContainerEntrypoint": ["sh", "-c", script]}
    operator = SageMakerTrainingOperator(
        task_id=name, config={"TrainingJobName": name, "AlgorithmSpecification": algorithm, **CONFIG},
        aws_conn_id=None, region_name="eu-central-1", check_interval=1, action_if_job_exists="fail", **choices,
    )  # fmt: skip
    try:
        return operator.execute({})["Training"]["TrainingJobStatus"]
    except Exception as why:  # noqa: BLE001 - which one it is differs between Airflow's versions
        return f"{type(why).__name__}: {why}"


logged = train("airflow-logged", "echo seen by airflow")
failed = train("airflow-failed", "exit 4", print_log=False)
again = train("airflow-logged", "true", print_log=False)
print(json.dumps({"logged": logged, "failed": failed, "again": again}))
