"""S3 URIs of SageMaker's training jobs as folders."""

from pathlib import Path

import pytest

from batchq.api.http import HttpRefusal
from batchq.api.sagemaker.create_job import input_mounts
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
