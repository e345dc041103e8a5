"""The SageMaker dialect of a real server, called by boto3 with botocore's model and waiters."""

import json
import urllib.error
import urllib.request
from itertools import count

import pytest
from botocore.exceptions import ClientError

from batchq.compute.simulated.script import Script, script_variable
from tests.service import waiting
from tests.support.service import serving_forked

_numbers = count(1)
ROLE = "arn:aws:iam::123456789012:role/a-role"
QUICKLY = {"Delay": 1, "MaxAttempts": 60}
METRICS = [{"Name": "validation:loss", "Regex": "loss=([0-9.]+)"}, {"Name": "never", "Regex": "never=([0-9]+)"}]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    data, least = tmp_path_factory.mktemp("sagemaker") / "data", ("--min-timeout", "2")
    with serving_forked(data, "--runtime", "simulated", *least) as service:
        yield service
        assert service.blocked_by() == []


@pytest.fixture(scope="module")
def sagemaker(service):
    return service.client("sagemaker")


@pytest.fixture
def create(sagemaker):
    """Create a training job that runs `script`; returns its name."""

    def create(script=Script(seconds=0.1), *, name=None, algorithm=(), **members):  # noqa: B008 - a value
        name = name or f"job-{next(_numbers)}"
        variable, value = script_variable(script)
        request = {
            "TrainingJobName": name,
            "AlgorithmSpecification": {"TrainingImage": "an-image", "TrainingInputMode": "File", **dict(algorithm)},
            "RoleArn": ROLE,
            "OutputDataConfig": {"S3OutputPath": "s3://bucket/key"},
            "ResourceConfig": {"InstanceType": "batchq.cpu.0.1u0.0625g", "InstanceCount": 1, "VolumeSizeInGB": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
            "Environment": {variable: value},
        }
        assert sagemaker.create_training_job(**request | members)["TrainingJobArn"].endswith(f":training-job/{name}")
        return name

    return create


@pytest.fixture
def ended(sagemaker):
    def ended(name):
        waiter = sagemaker.get_waiter("training_job_completed_or_stopped")
        waiter.wait(TrainingJobName=name, WaiterConfig=QUICKLY)
        return sagemaker.describe_training_job(TrainingJobName=name)

    return ended


def until(sagemaker, name, status):
    def described():
        return sagemaker.describe_training_job(TrainingJobName=name)

    waiting.until(lambda: described()["SecondaryStatus"] == status, described)
    return described()


def error(call, **fields):
    with pytest.raises(ClientError) as why:
        call(**fields)
    return why.value.response["Error"]["Code"], why.value.response["Error"]["Message"]


def test_a_training_job_completes_with_its_times_metrics_and_statuses(sagemaker, create, ended):
    script = Script(seconds=0.2, output=("epoch=1 loss=0.5", "epoch=2 loss=0.25"))
    metrics, tags = {"MetricDefinitions": METRICS}, [{"Key": "team", "Value": "a"}]
    name = create(script, algorithm=metrics, HyperParameters={"lr": "0.1"}, Tags=tags)

    job = ended(name)

    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Completed", "Completed")
    assert job["CreationTime"] <= job["TrainingStartTime"] <= job["TrainingEndTime"]
    assert (job["TrainingTimeInSeconds"], job["BillableTimeInSeconds"]) == (1, 1)
    assert (job["HyperParameters"], job["RoleArn"]) == ({"lr": "0.1"}, ROLE)
    assert job["StoppingCondition"] == {"MaxRuntimeInSeconds": 600}
    assert [(metric["MetricName"], metric["Value"]) for metric in job["FinalMetricDataList"]] == [
        ("validation:loss", 0.25)
    ]
    steps = [transition["Status"] for transition in job["SecondaryStatusTransitions"]]
    assert steps == ["Pending", "Downloading", "Training", "Completed"]
    assert all(transition["EndTime"] >= transition["StartTime"] for transition in job["SecondaryStatusTransitions"])


def test_a_stopped_job_is_stopping_until_its_container_has_ended(sagemaker, create, ended):
    name = create(Script(seconds=None, on_term=0, term_delay=1))
    until(sagemaker, name, "Training")

    sagemaker.stop_training_job(TrainingJobName=name)
    during = sagemaker.describe_training_job(TrainingJobName=name)
    again = error(sagemaker.stop_training_job, TrainingJobName=name)
    job = ended(name)

    assert (during["TrainingJobStatus"], during["SecondaryStatus"]) == ("Stopping", "Stopping")
    refused = "The request was rejected because the training job is in status Stopping."
    assert again == ("ValidationException", refused)
    assert (job["TrainingJobStatus"], job["SecondaryStatus"]) == ("Stopped", "Stopped")
    assert [transition["Status"] for transition in job["SecondaryStatusTransitions"]][-3:] == [
        "Training",
        "Stopping",
        "Stopped",
    ]
    assert error(sagemaker.stop_training_job, TrainingJobName=name)[1].endswith("in status Stopped.")


def test_the_container_has_120_seconds_between_sigterm_and_sigkill(service, create):
    name = create()

    (row,) = service.native("listjobs", {"jobNames": [name]})[1]["jobs"]

    assert service.native(f"jobs/{row['jobId']}")[1]["job"]["stopGraceSeconds"] == 120


def test_a_failed_algorithm_is_not_retried(sagemaker, create):
    name = create(Script(seconds=0.1, exit_code=3), RetryStrategy={"MaximumRetryAttempts": 5})

    job = until(sagemaker, name, "Failed")

    assert (job["TrainingJobStatus"], job["FailureReason"].partition(":")[0]) == ("Failed", "AlgorithmError")
    assert job["FailureReason"].endswith("exit code: 3")
    assert job["TrainingTimeInSeconds"] == 1


def test_the_failure_reason_is_what_the_algorithm_wrote(sagemaker, create):
    text = "Traceback: the loss is not a number\n"
    named, long = [create(Script(seconds=0.1, exit_code=1, failure=failure)) for failure in (text, "x" * 3000)]

    short, cut = [until(sagemaker, name, "Failed")["FailureReason"] for name in (named, long)]

    assert short == f"AlgorithmError: {text.strip()}, exit code: 1"
    assert (len(cut), cut[:17], cut[-14:]) == (1024, "AlgorithmError: x", ", exit code: 1")


def test_a_failure_that_an_algorithm_states_is_not_taken_for_one_of_the_server(service, sagemaker, create):
    name = create(Script(seconds=0.1, exit_code=1, failure="OutOfMemoryError: Container killed due to memory usage"))
    until(sagemaker, name, "Failed")
    (row,) = service.native("listjobs", {"jobNames": [name]})[1]["jobs"]

    (job,) = service.client().describe_jobs(jobs=[row["jobId"]])["jobs"]
    why = service.native(f"jobs/{row['jobId']}/why")[1]

    assert job["container"]["reason"].startswith("AlgorithmError: OutOfMemoryError")
    assert why["code"] == "EXIT_CODE"


def test_a_job_that_runs_too_long_is_stopped_with_its_reason(sagemaker, create):
    name = create(Script(seconds=None, on_term=0), StoppingCondition={"MaxRuntimeInSeconds": 2})

    job = until(sagemaker, name, "MaxRuntimeExceeded")

    assert job["TrainingJobStatus"] == "Stopped"
    assert [transition["Status"] for transition in job["SecondaryStatusTransitions"]][-2:] == [
        "Stopping",
        "MaxRuntimeExceeded",
    ]
    assert job["TrainingTimeInSeconds"] >= 2


def test_names_are_unique_until_the_job_is_deleted(sagemaker, create, ended):
    name = create(Script(seconds=None, on_term=0))

    assert error(create, name=name)[0] == "ResourceInUse"
    assert error(sagemaker.delete_training_job, TrainingJobName=name)[0] == "ResourceInUse"
    until(sagemaker, name, "Training")
    sagemaker.stop_training_job(TrainingJobName=name)
    ended(name)
    assert error(create, name=name)[0] == "ResourceInUse"

    sagemaker.delete_training_job(TrainingJobName=name)

    missing = ("ValidationException", "Requested resource not found.")
    assert error(sagemaker.describe_training_job, TrainingJobName=name) == missing
    assert error(sagemaker.delete_training_job, TrainingJobName=name)[0] == "ResourceNotFound"
    assert sagemaker.list_training_jobs(NameContains=name)["TrainingJobSummaries"] == []
    create(name=name)
    assert ended(name)["TrainingJobStatus"] == "Completed"


def test_a_create_that_the_sdk_repeats_creates_one_job(service, sagemaker, create):
    """The reply to the first request is lost: botocore sends the same request with the same invocation id."""
    repeated = []

    def twice(request, **_):
        if not repeated:
            repeated.append(request.headers["amz-sdk-invocation-id"])
            urllib.request.urlopen(
                urllib.request.Request(request.url, data=request.body, headers=texts(request.headers))
            ).close()

    sagemaker.meta.events.register_last("before-send.sagemaker.CreateTrainingJob", twice)
    try:
        name = create()
    finally:
        sagemaker.meta.events.unregister("before-send.sagemaker.CreateTrainingJob", twice)

    assert repeated
    assert len(service.native("listjobs", {"jobNames": [name]})[1]["jobs"]) == 1


def texts(headers):
    return {name: content.decode() if isinstance(content, bytes) else content for name, content in headers.items()}


def test_jobs_are_listed_by_name_status_and_time_a_page_at_a_time(sagemaker, create, ended):
    names = [create(name=f"Listed-{number}") for number in range(5)]
    for name in names:
        ended(name)
    pages = sagemaker.get_paginator("list_training_jobs").paginate(
        NameContains="Listed", StatusEquals="Completed", PaginationConfig={"PageSize": 2}
    )

    found = [summary["TrainingJobName"] for page in pages for summary in page["TrainingJobSummaries"]]

    assert found == names[::-1]
    assert sagemaker.list_training_jobs(NameContains="listed")["TrainingJobSummaries"] == []
    assert sagemaker.list_training_jobs(NameContains="Listed", StatusEquals="Failed")["TrainingJobSummaries"] == []
    third = sagemaker.describe_training_job(TrainingJobName=names[2])["CreationTime"]
    later = sagemaker.list_training_jobs(NameContains="Listed", CreationTimeAfter=third)["TrainingJobSummaries"]
    assert names[2] not in [job["TrainingJobName"] for job in later]
    assert names[4] in [job["TrainingJobName"] for job in later]


FILE_SYSTEM = {
    "FileSystemId": "fs-12345678901",
    "FileSystemAccessMode": "ro",
    "FileSystemType": "EFS",
    "DirectoryPath": "/x",
}
RESOURCES = {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1}
NAMED = {
    "encrypted output": "OutputDataConfig.KmsKeyId",
    "a pipe": "AlgorithmSpecification.TrainingInputMode Pipe",
    "another checkpoint path": "CheckpointConfig.LocalPath",
    "a warm pool": "'ResourceConfig.KeepAlivePeriodInSeconds'",
    "an encrypted volume": "'ResourceConfig.VolumeKmsKeyId'",
    "instance groups": "'ResourceConfig.InstanceGroups'",
    "a bad name": "'TrainingJobName' is not valid: String should match pattern",
}
"""The beginnings of error texts, which name the members."""
S3 = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/key"}}
REFUSED = {
    "an unknown type": {"ResourceConfig": {"InstanceType": "ml.z9.huge", "InstanceCount": 1, "VolumeSizeInGB": 1}},
    "inputs without --s3-root": {"InputDataConfig": [{"ChannelName": "train", "DataSource": S3}]},
    "inputs of a file system": {
        "InputDataConfig": [{"ChannelName": "train", "DataSource": {"FileSystemDataSource": FILE_SYSTEM}}]
    },
    "encrypted output": {"OutputDataConfig": {"S3OutputPath": "s3://bucket/key", "KmsKeyId": "a-key"}},
    "a pipe": {"algorithm": {"TrainingInputMode": "Pipe"}},
    "a warm pool": {"ResourceConfig": RESOURCES | {"KeepAlivePeriodInSeconds": 60}},
    "an encrypted volume": {"ResourceConfig": RESOURCES | {"VolumeKmsKeyId": "a-key"}},
    "instance groups": {
        "ResourceConfig": RESOURCES
        | {"InstanceGroups": [{"InstanceGroupName": "a", "InstanceType": "ml.m5.large", "InstanceCount": 1}]}
    },
    "isolation": {"EnableNetworkIsolation": True},
    "encryption": {"EnableInterContainerTrafficEncryption": True},
    "a network": {"VpcConfig": {"SecurityGroupIds": ["sg"], "Subnets": ["subnet"]}},
    "another checkpoint path": {"CheckpointConfig": {"S3Uri": "s3://b/k", "LocalPath": "/other"}},
    "a reserved variable": {"Environment": {"AWS_BATCH_JOB_ID": "x"}},
    "a variable that is no name": {"Environment": {"a-b": "x"}},
    "a short runtime": {"StoppingCondition": {"MaxRuntimeInSeconds": 1}},
    "an unknown queue": {"Tags": [{"Key": "batchq:queue", "Value": "nowhere"}]},
    "49 tags": {"Tags": [{"Key": f"k{number}", "Value": "v"} for number in range(49)]},
    "a bad tag": {"Tags": [{"Key": "batchq:checkpoint-timeout", "Value": "soon"}]},
    "two equal metrics": {"algorithm": {"MetricDefinitions": [METRICS[0], METRICS[0]]}},
    "a bad regex": {"algorithm": {"MetricDefinitions": [{"Name": "m", "Regex": "("}]}},
    "an image with spaces": {"algorithm": {"TrainingImage": "an image"}},
    "an algorithm": {"algorithm": {"AlgorithmName": "xgboost"}},
    "a large request": {"HyperParameters": {f"k{number}": "v" * 2500 for number in range(13)}},
    "a bad name": {"name": "a--b-"},
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_that_cannot_be_carried_out_creates_nothing(service, sagemaker, create, case):
    before = len(service.native("listjobs", {"maxResults": 1000})[1]["jobs"])

    code, text = error(create, **REFUSED[case])

    assert code == "ValidationException"
    assert text.startswith(NAMED.get(case, ""))
    assert len(service.native("listjobs", {"maxResults": 1000})[1]["jobs"]) == before


@pytest.mark.parametrize("case", [{"SortBy": "Name"}, {"SortOrder": "Ascending"}, {"NextToken": "x"}])
def test_an_unsupported_list_is_refused(sagemaker, case):
    assert error(sagemaker.list_training_jobs, **case)[0] == "ValidationException"


def test_another_operation_is_unknown(sagemaker):
    assert error(sagemaker.list_endpoints)[0] == "UnknownOperationException"


def test_malformed_json_is_a_serialization_error(service):
    headers = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "SageMaker.CreateTrainingJob"}
    with pytest.raises(urllib.error.HTTPError) as why:
        urllib.request.urlopen(urllib.request.Request(service.url, data=b"{", headers=headers))

    assert (why.value.code, json.loads(why.value.read())["__type"]) == (400, "SerializationException")


GROUP = "/aws/sagemaker/TrainingJobs"


def test_the_log_of_a_job_is_read_by_sagemakers_names(service, create, ended):
    logs = service.client("logs")
    name = create(Script(seconds=0.1, output=("one", "two")))
    ended(name)

    (stream,) = logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=f"{name}/")["logStreams"]
    alias = stream["logStreamName"]
    events = logs.get_log_events(logGroupName=GROUP, logStreamName=alias, startFromHead=True)["events"]
    selections = ({"logStreamNamePrefix": f"{name}/", "filterPattern": "two"}, {"logStreamNames": [alias]})
    by_prefix, by_name = (logs.filter_log_events(logGroupName=GROUP, **selection)["events"] for selection in selections)

    assert alias.startswith(f"{name}/algo-1-")
    assert stream["arn"].endswith(f":log-group:{GROUP}:log-stream:{alias}")
    assert [event["message"] for event in events] == ["one", "two"]
    assert [(stream["logStreamName"], stream["message"]) for stream in by_prefix] == [(alias, "two")]
    assert [event["message"] for event in by_name] == ["one", "two"]


def test_several_instances_are_billed_together_and_each_has_a_stream(service, create, ended):
    logs = service.client("logs")
    resources = {"InstanceType": "batchq.cpu.0.1u0.0625g", "InstanceCount": 2, "VolumeSizeInGB": 1}
    name = create(Script(seconds=0.2, output=("hello",)), ResourceConfig=resources)
    job = ended(name)
    pages = logs.get_paginator("describe_log_streams").paginate(
        logGroupName=GROUP, logStreamNamePrefix=f"{name}/", PaginationConfig={"PageSize": 1}
    )

    found = [stream["logStreamName"].rpartition("-")[0] for page in pages for stream in page["logStreams"]]

    assert found == [f"{name}/algo-1", f"{name}/algo-2"]
    assert (job["TrainingJobStatus"], job["BillableTimeInSeconds"]) == ("Completed", 2)


def test_logs_of_unknown_jobs_are_missing(service):
    logs = service.client("logs")
    unknown = {"logGroupName": GROUP, "logStreamName": "nothing/algo-1-1"}

    assert logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix="nothing/")["logStreams"] == []
    assert logs.filter_log_events(logGroupName=GROUP, logStreamNamePrefix="nothing/")["events"] == []
    assert error(logs.get_log_events, **unknown)[0] == "ResourceNotFoundException"
    assert error(logs.describe_log_streams, logGroupName=GROUP)[0] == "InvalidParameterException"
    assert [group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]] == ["/aws/batch/job", GROUP]
