"""The answers of each dialect, the output of each command, and stored jobs, for one day of jobs on a real server.

What differs from run to run is masked: ids in the order of their first appearance, times, durations, addresses.
"""

import json
import sqlite3
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from batchq.compute.simulated.script import Script, script_variable
from batchq.store.database import NAME
from tests.golden.commands import outputs
from tests.golden.masks import Masks
from tests.support.service import PATIENCE, Service, serving_forked

PROJECT = "7c1e5d20b9a34f6e8d20aa41c3f09b55"
ONE_CPU = [{"type": "VCPU", "value": "1"}, {"type": "MEMORY", "value": "64"}]
FINAL = {"SUCCEEDED", "FAILED"}

Answer = dict[str, Any]


class Day:
    """The requests of one day. Each answer is recorded under its dialect."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.answers: dict[str, list[Answer]] = {}

    def ask(self, dialect: str, method: str, path: str, body: object = None, **headers: str) -> Any:
        """Send a request, record its answer, and return the answer's JSON."""
        status, content = self._send(method, path, body, headers)
        entry = {"request": f"{method} {path}", "body": body, "headers": headers or None, "status": status}
        self.answers.setdefault(dialect, []).append({**entry, "answer": content})
        return content

    def aws(self, operation: str, **members: object) -> Any:
        """An operation of AWS Batch."""
        return self.ask("batch", "POST", f"/v1/{operation}", members)

    def target(self, dialect: str, target: str, **members: object) -> Any:
        """An operation that the header X-Amz-Target selects."""
        return self.ask(dialect, "POST", "/", members, **{"X-Amz-Target": target})

    def ended(self, job_id: str) -> None:
        """Wait until the job has ended."""
        self._await(job_id, lambda job: job["status"] in FINAL)

    def reached(self, job_id: str, status: str) -> None:
        """Wait until the job has the status."""
        self._await(job_id, lambda job: job["status"] == status)

    def _await(self, job_id: str, holds: Callable[[Mapping[str, Any]], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            _, answer = self._send("POST", "/v1/describejobs", {"jobs": [job_id]}, {})
            if holds(answer["jobs"][0]):
                return
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)

    def _send(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        media = "application/x-amz-json-1.1" if "X-Amz-Target" in headers else "application/json"
        sent = {"Content-Type": media, **headers} if data is not None else dict(headers)
        request = urllib.request.Request(f"{self._service.url}{path}", data, sent, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.code, _parsed(refused.read())


def _parsed(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content.decode()


def files() -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--runtime", "simulated", "--min-timeout", "1")
        with serving_forked(Path(folder) / "data", *flags) as service:
            day = Day(service)
            names = _requests(day)
            commands = dict(outputs(service, Path(folder), names))
            stored = dict(_stored(Path(folder) / "data" / NAME, names))
            metrics = _metric_families(service)
        masks = Masks(service.url.removeprefix("http://"), folder=folder)
    answers = {f"answers/{dialect}.json": _text(masks.json(found)) for dialect, found in sorted(day.answers.items())}
    commands = {f"commands/{name}.txt": masks.text(text) for name, text in commands.items()}
    answers["answers/metrics.txt"] = metrics
    return answers | commands | {f"stored/{name}.json": _text(masks.json(job)) for name, job in stored.items()}


def _metric_families(service: Service) -> str:
    """The names, types and descriptions of the metrics. Their values depend on the time."""
    with urllib.request.urlopen(f"{service.url}/metrics", timeout=PATIENCE) as answer:
        lines = answer.read().decode().splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith("#"))


def _text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _variables(script: Script) -> list[dict[str, str]]:
    name, value = script_variable(script)
    return [{"name": name, "value": value}]


def _requests(day: Day) -> dict[str, str]:
    """Run the day. Returns the ids of its jobs by name."""
    _register(day)
    jobs = _batch_jobs(day)
    _batch_reads(day, jobs)
    _refusals(day)
    jobs |= _training(day)
    _modelarts(day)
    _sagemaker(day)
    _logs(day, jobs)
    _native(day, jobs)
    return jobs


def _register(day: Day) -> None:
    day.aws("updatecomputeenvironment", computeEnvironment="local", computeResources={"maxvCpus": 2})
    plain = {"image": "busybox", "command": ["train", "Ref::rate"], "resourceRequirements": ONE_CPU}
    day.aws(
        "registerjobdefinition",
        jobDefinitionName="plain",
        type="container",
        parameters={"rate": "1"},
        containerProperties=plain,
        retryStrategy={"attempts": 2},
        tags={"team": "a"},
    )
    # The main container and the main node end last, so that each run takes the same course.
    scripts = {"main": _variables(Script(seconds=0.5)), "side": _variables(Script(seconds=0))}
    image = {"image": "busybox", "resourceRequirements": ONE_CPU}
    containers = [
        {**image, "name": name, "essential": name == "main", "environment": script} for name, script in scripts.items()
    ]
    task = {"taskProperties": [{"containers": containers}]}
    day.aws("registerjobdefinition", jobDefinitionName="task", type="container", ecsProperties=task)
    ranges = [
        {"targetNodes": nodes, "container": {**image, "environment": scripts[name]}}
        for nodes, name in (("0:0", "main"), ("1:1", "side"))
    ]
    nodes = {"numNodes": 2, "mainNode": 0, "nodeRangeProperties": ranges}
    day.aws("registerjobdefinition", jobDefinitionName="nodes", type="multinode", nodeProperties=nodes)


def _batch_jobs(day: Day) -> dict[str, str]:
    def submit(name: str, definition: str = "plain", script: Script = Script(seconds=0), **members: object) -> str:  # noqa: B008
        if definition == "plain":
            members = {"containerOverrides": {"environment": _variables(script)}, **members}
        answer = day.aws("submitjob", jobName=name, jobQueue="default", jobDefinition=definition, **members)
        return str(answer["jobId"])

    failing = Script(seconds=0, exit_code=3, output=("loss=1.5", "out of data"))
    lasting = Script(seconds=None, on_term=143)
    jobs = {"good": submit("good", script=Script(seconds=0, output=("first line", "second line")))}
    jobs["bad"] = submit("bad", script=failing, retryStrategy={"attempts": 1})
    jobs["again"] = submit("again", script=failing)
    day.ended(jobs["again"])  # lists of failed jobs are in the order of their ends
    jobs["killed"] = submit(
        "killed", script=Script(seconds=0, exit_code=137, out_of_memory=True), retryStrategy={"attempts": 1}
    )
    jobs["array"] = submit("array", arrayProperties={"size": 2})
    jobs["after"] = submit("after", dependsOn=[{"jobId": jobs["good"]}])
    jobs["task"] = submit("task", "task")
    jobs["nodes"] = submit("nodes", "nodes")
    for job_id in jobs.values():
        day.ended(job_id)
    jobs["stopped"] = submit("stopped", script=lasting)
    day.reached(jobs["stopped"], "RUNNING")
    jobs["cancelled"] = submit("cancelled", dependsOn=[{"jobId": jobs["stopped"]}])
    day.aws("canceljob", jobId=jobs["cancelled"], reason="not needed")
    day.aws("terminatejob", jobId=jobs["stopped"], reason="enough")
    day.ended(jobs["stopped"])
    jobs["running"] = submit("running", script=lasting)
    day.reached(jobs["running"], "RUNNING")
    jobs["waiting"] = submit("waiting", dependsOn=[{"jobId": jobs["running"]}])
    jobs["too-large"] = submit(
        "too-large", containerOverrides={"resourceRequirements": [{"type": "VCPU", "value": "64"}]}
    )
    return jobs


def _batch_reads(day: Day, jobs: Mapping[str, str]) -> None:
    for job_id in jobs.values():
        day.aws("describejobs", jobs=[job_id])
    day.aws("describejobs", jobs=[f"{jobs['array']}:1", f"{jobs['nodes']}#1"])
    day.aws("listjobs", jobQueue="default", jobStatus="SUCCEEDED")
    day.aws("listjobs", jobQueue="default", filters=[{"name": "JOB_NAME", "values": ["s*"]}])
    day.aws("listjobs", arrayJobId=jobs["array"], jobStatus="SUCCEEDED")
    day.aws("listjobs", multiNodeJobId=jobs["nodes"])
    for operation in ("describejobdefinitions", "describejobqueues", "describecomputeenvironments"):
        day.aws(operation)
    day.aws("listschedulingpolicies")
    day.aws("listconsumableresources")
    day.aws("getjobqueuesnapshot", jobQueue="default")


def _refusals(day: Day) -> None:
    day.aws("submitjob", jobName="a b", jobQueue="default", jobDefinition="plain")
    day.aws("submitjob", jobName="a", jobQueue="none", jobDefinition="plain")
    day.aws("terminatejob", jobId="unknown", reason="r")
    day.aws("describejobs", jobs="text")
    day.ask("batch", "GET", "/v1/unknown")


def _training(day: Day) -> dict[str, str]:
    name, value = script_variable(Script(seconds=0, output=("loss=0.5",)))
    request = {
        "name": "rest",
        "image": "busybox",
        "command": ["train"],
        "infrastructure": {"vcpus": 1, "memory": "64MB"},
        "environment": {name: value},
    }
    created = day.ask("training", "POST", "/v2/training/jobs", request)
    jobs = {"rest": str(created["jobId"])}
    day.ended(jobs["rest"])
    for path in ("", "/checkpoints"):
        day.ask("training", "GET", f"/v2/training/jobs/{jobs['rest']}{path}")
    day.ask("training", "GET", "/v2/training/jobs")
    day.ask("training", "GET", "/v2/training/jobs/unknown")
    day.ask("training", "POST", "/v2/training/jobs", {"name": "rest"})
    return jobs


def _modelarts(day: Day) -> None:
    name, value = script_variable(Script(seconds=0))
    request = {
        "kind": "job",
        "metadata": {"name": "resnet"},
        "algorithm": {"command": "python train.py", "engine": {"image_url": "busybox"}, "environments": {name: value}},
        "spec": {"resource": {"flavor_id": "batchq.cpu.1u1g", "node_count": 1}},
    }
    created = day.ask("modelarts", "POST", f"/v2/{PROJECT}/training-jobs", request)
    job = created["metadata"]["id"]
    day.ended(job)
    for path in (
        f"training-jobs/{job}",
        f"training-jobs/{job}/events",
        f"training-jobs/{job}/stages",
        "training-job-engines",
    ):
        day.ask("modelarts", "GET", f"/v2/{PROJECT}/{path}")
    day.ask("modelarts", "POST", f"/v2/{PROJECT}/training-job-searches", {"limit": 10})
    day.ask("modelarts", "GET", f"/v2/{PROJECT}/training-jobs/unknown")
    day.ask("modelarts", "POST", f"/v2/{PROJECT}/training-jobs", {"kind": "job"})


def _sagemaker(day: Day) -> None:
    name, value = script_variable(Script(seconds=0))
    request = {
        "TrainingJobName": "sage",
        "AlgorithmSpecification": {"TrainingImage": "busybox", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/a-role",
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/key"},
        "ResourceConfig": {"InstanceType": "batchq.cpu.0.1u0.0625g", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        "Environment": {name: value},
    }
    day.target("sagemaker", "SageMaker.CreateTrainingJob", **request)
    _, found = day._send("POST", "/v1/batchq/listjobs", {"jobNames": ["sage"]}, {})
    for job in found.get("jobs", ()):
        day.ended(job["jobId"])
    day.target("sagemaker", "SageMaker.DescribeTrainingJob", TrainingJobName="sage")
    day.target("sagemaker", "SageMaker.ListTrainingJobs")
    day.target("sagemaker", "SageMaker.DescribeTrainingJob", TrainingJobName="unknown")
    day.target("sagemaker", "SageMaker.StopTrainingJob", TrainingJobName="sage")
    day.target("sagemaker", "SageMaker.CreateTrainingJob", TrainingJobName="bad name")


def _logs(day: Day, jobs: Mapping[str, str]) -> None:
    group = "/aws/batch/job"
    stream = f"plain/default/{jobs['good']}"
    day.target("logs", "Logs_20140328.DescribeLogGroups")
    day.target("logs", "Logs_20140328.DescribeLogStreams", logGroupName=group, logStreamNamePrefix=stream)
    day.target("logs", "Logs_20140328.GetLogEvents", logGroupName=group, logStreamName=stream, startFromHead=True)
    day.target("logs", "Logs_20140328.FilterLogEvents", logGroupName=group, filterPattern="second")
    day.target("logs", "Logs_20140328.GetLogEvents", logGroupName=group, logStreamName="none")


def _native(day: Day, jobs: Mapping[str, str]) -> None:
    for name in ("good", "again", "stopped", "waiting", "too-large", "task", "nodes", "array"):
        for view in ("", "/why", "/history", "/cost", "/metrics", "/checkpoints", "/log"):
            day.ask("native", "GET", f"/v1/batchq/jobs/{jobs[name]}{view}")
    for operation, body in (
        ("listjobs", {"jobNames": ["good"]}),
        ("listjobs", {"jobStatuses": ["FAILED"]}),
        ("overview", {}),
        ("listmachines", {"computeEnvironment": "local"}),
        ("costreport", {}),
        ("listbudgets", {}),
        ("listjobs", {"unknown": 1}),
    ):
        day.ask("native", "POST", f"/v1/batchq/{operation}", body)
    day.ask("native", "GET", "/v1/batchq/jobs/unknown")


def _stored(database: Path, jobs: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """The stored state of jobs with one container, with several, and with several nodes."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for name in ("again", "task", "nodes", "array", "stopped"):
            (state,) = connection.execute("SELECT state FROM jobs WHERE id = ?", (jobs[name],)).fetchone()
            yield name, json.loads(state)
