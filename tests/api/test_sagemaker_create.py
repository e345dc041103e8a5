"""SageMaker's CreateTrainingJob: S3 URIs as folders, and instance types as resources."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from batchq.api.http.http import HttpRefusal
from batchq.api.training.common.training_jobs import BucketFolders
from batchq.api.training.sagemaker.create_job import input_mounts, instance_resources, requested_sagemaker_job
from batchq.api.training.sagemaker.job_document import described
from batchq.api.training.sagemaker.wire import ChannelShape, SageMakerCreateTrainingJob
from batchq.domain.enums import Status
from batchq.domain.ids import Tag
from batchq.domain.job import AttemptContainer
from batchq.domain.training_jobs import TrainingJobView
from batchq.engine.containers.translation import launch_spec
from tests.support.builders import ADMIN, NOON, attempt, job
from tests.support.parts import LIMITS

ROOT = Path("/srv/s3")
FOLDERS = BucketFolders(ROOT, "s3://")


def channel(uri, name="train"):
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}}
    return ChannelShape.model_validate({"ChannelName": name, "DataSource": source})


@pytest.mark.parametrize("uri", ["s3://", "https://b/k", "/etc", "S3://b/k"])
def test_an_input_that_is_not_an_s3_uri_is_refused(uri):
    with pytest.raises(HttpRefusal):
        input_mounts([channel(uri)], FOLDERS)


@pytest.mark.parametrize("names", [("a", "a"), (".",), ("..",)])
def test_names_of_channels_must_be_unique_folders(names):
    with pytest.raises(HttpRefusal):
        input_mounts([channel("s3://b/k", name) for name in names], FOLDERS)


def test_without_a_root_inputs_are_refused():
    assert input_mounts([], BucketFolders(None, "s3://")) == ()
    with pytest.raises(HttpRefusal):
        input_mounts([channel("s3://b/k")], BucketFolders(None, "s3://"))


def made(s3_root=ROOT, *, instances=1, **members):
    """What a requested job runs."""
    request = {
        "TrainingJobName": "resnet",
        "AlgorithmSpecification": {"TrainingImage": "an-image", "TrainingInputMode": "FastFile"},
        "RoleArn": "arn:aws:iam::123456789012:role/a-role",
        "OutputDataConfig": {"S3OutputPath": "s3://lab/out/"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": instances},
        **members,
    }
    body, limits = SageMakerCreateTrainingJob.model_validate(request), replace(LIMITS, min_timeout=1, s3_root=s3_root)
    return requested_sagemaker_job(body, arn="arn", limits=limits, caller=ADMIN).work


def files_of(container):
    return {Path(path.path).name: json.loads(path.content) for path in container.files}


def test_an_input_must_exist_and_the_folders_of_the_output_are_created():
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://lab/in"}}
    container = made(InputDataConfig=[{"ChannelName": "train", "DataSource": source}]).leading.spec

    assert [(mount.container_path, mount.host_path, mount.create, mount.must_exist) for mount in container.mounts] == [
        ("/opt/ml/input/data/train", "/srv/s3/lab/in", False, True),
        ("/opt/ml/output", None, False, False),
        ("/opt/ml/model", "/srv/s3/lab/out/resnet/output/model", True, False),
        ("/opt/ml/output/data", "/srv/s3/lab/out/resnet/output/data", True, False),
    ]
    channel = {"TrainingInputMode": "FastFile", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}
    assert files_of(container)["inputdataconfig.json"] == {"train": channel}


def test_without_a_root_the_folders_of_the_output_are_those_of_the_container():
    container = made(None).leading.spec

    assert [(mount.container_path, mount.host_path) for mount in container.mounts] == [("/opt/ml/output", None)]
    assert {"/opt/ml/model", "/opt/ml/output/data", "/opt/ml/input/data"} <= set(container.folders)


def test_each_instance_has_its_name_in_its_resource_config():
    nodes = made(instances=11)
    containers = tuple(AttemptContainer(key=f"{node}/default") for node in range(11))
    gang = job(nodes=nodes, status=Status.STARTING, attempt=attempt(containers=containers))

    configs = [
        files_of(launch_spec(gang, Tag(job_id=gang.id, attempt=1, container_key=f"{node}/default")).spec)
        for node in (0, 10)
    ]

    hosts = ["algo-1", "algo-10", "algo-11", *(f"algo-{number}" for number in range(2, 10))]
    assert [config["resourceconfig.json"]["current_host"] for config in configs] == ["algo-1", "algo-11"]
    assert configs[0]["resourceconfig.json"] == {
        "current_host": "algo-1",
        "current_instance_type": "ml.m5.large",
        "current_group_name": "homogeneousCluster",
        "hosts": hosts,
        "instance_groups": [
            {"instance_group_name": "homogeneousCluster", "instance_type": "ml.m5.large", "hosts": hosts}
        ],
        "network_interface_name": "eth0",
    }
    assert nodes.leading.spec.named_nodes


def test_a_hyperparameter_with_the_mark_of_a_number_is_unchanged():
    nodes = made(HyperParameters={"name": "${NODE_NUMBER}"})
    single = job(nodes=nodes, status=Status.STARTING)

    files = files_of(launch_spec(single, Tag(job_id=single.id, attempt=1)).spec)

    assert files["hyperparameters.json"] == {"name": "${NODE_NUMBER}"}
    assert files["resourceconfig.json"]["current_host"] == "algo-1"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            "CannotCreateContainerError: host path '/srv/s3/lab/none' does not exist, and is not created",
            "ClientError: Data download failed: No S3 objects found under S3 URL s3://lab/none",
        ),
        (
            "CannotCreateContainerError: host path '/srv/s3/lab/a' is not below a path",
            "InternalServerError: CannotCreateContainerError: host path 's3://lab/a' is not below a path",
        ),
    ],
)
def test_a_failure_reason_names_the_uri_and_no_path_of_the_server(reason, shown):
    failed = job(status=Status.FAILED, attempts=(attempt(reason=reason, stopped_at=NOON),), stopped_at=NOON)

    found = described(TrainingJobView(failed), arn="arn", history=(), metrics={}, shown=FOLDERS.shown)

    assert found["FailureReason"] == shown
    assert not {"TrainingStartTime", "TrainingEndTime", "TrainingTimeInSeconds"} & found.keys(), "no attempt ran"


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("ml.m5.large", (2000, 8192, 0)),
        ("ml.c5.18xlarge", (72000, 147456, 0)),
        ("ml.r5d.xlarge", (4000, 32768, 0)),
        ("ml.t3.medium", (2000, 4096, 0)),
        ("ml.g4dn.xlarge", (4000, 16384, 1)),
        ("batchq.cpu.4u8g", (4000, 8192, 0)),
        ("batchq.cpu.0.25u0.5g", (250, 512, 0)),
    ],
)
def test_a_type_is_a_size(name, size):
    found = instance_resources(name)

    assert (found.millicpus, found.memory_mib, found.gpus) == size


@pytest.mark.parametrize(
    "name",
    ["", "m5.large", "ml.m5", "ml.m5.huge", "ml.x1.large", "batchq.cpu.0u1g", "batchq.cpu.1u0g", "ml.m5.large\n"],
)
def test_any_other_name_is_not_known(name):
    assert instance_resources(name) is None
