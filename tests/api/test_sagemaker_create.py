"""SageMaker's CreateTrainingJob: S3 URIs as folders, and instance types as resources."""

from pathlib import Path

import pytest

from batchq.api.http import HttpRefusal
from batchq.api.sagemaker.create_job import input_mounts, instance_resources
from batchq.api.sagemaker.wire import ChannelShape

ROOT = Path("/srv/s3")


def channel(uri, name="train"):
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}}
    return ChannelShape.model_validate({"ChannelName": name, "DataSource": source})


@pytest.mark.parametrize("uri", ["s3://bucket/a/b", "s3://bucket/a/b/", "s3://bucket//a/./b"])
def test_a_uri_is_a_folder_below_the_root(uri):
    (mount,) = input_mounts([channel(uri)], ROOT)

    assert (mount.host_path, mount.container_path) == ("/srv/s3/bucket/a/b", "/opt/ml/input/data/train")
    assert mount.read_only


@pytest.mark.parametrize(
    "uri", ["s3://", "s3:///", "s3://..", "s3://b/../../etc", "https://b/k", "/etc", "s3://b/a:b", "S3://b/k"]
)
def test_a_uri_that_could_leave_the_root_is_refused(uri):
    with pytest.raises(HttpRefusal):
        input_mounts([channel(uri)], ROOT)


@pytest.mark.parametrize("names", [("a", "a"), (".",), ("..",)])
def test_names_of_channels_must_be_unique_folders(names):
    with pytest.raises(HttpRefusal):
        input_mounts([channel("s3://b/k", it) for it in names], ROOT)


def test_without_a_root_inputs_are_refused():
    assert input_mounts([], None) == ()
    with pytest.raises(HttpRefusal):
        input_mounts([channel("s3://b/k")], None)


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
