"""CreateTrainingJob: the request to a job, and the part of it that is stored only to be returned.

An S3 URI is a folder of this machine, which is mounted in the containers. An instance type is a size of a node only: no
other property of an instance is reproduced. The usual families and sizes are known; `batchq.cpu.4u8g` is any other
number of vCPUs and GiB, decimals included.
"""

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import PurePosixPath

from batchq.api.operations.parts import ServerLimits
from batchq.api.training.common.training_jobs import BucketFolders, TrainingDialect
from batchq.api.training.common.training_request import (
    DEFAULT_QUEUE,
    IMAGE,
    MAX_VARIABLE,
    TrainingJobRequest,
    hyperparameter_variables,
    hyperparameters_file,
    input_mount,
    json_text,
    output_mount,
    unique_metric_rules,
)
from batchq.api.training.sagemaker import wire
from batchq.api.training.sagemaker.wire import validation_exception
from batchq.domain.access.accounts import Caller
from batchq.domain.container import NODE_NUMBER, ContainerSpec, Mount, Resources, TextFile
from batchq.domain.enums import Action
from batchq.domain.ids import QueueName
from batchq.domain.job import ExitRule, RetryStrategy
from batchq.domain.training import CHECKPOINTS_TAG, MOUNT_POINT, MetricRule
from batchq.services.job_reads import new_id

INPUTS = "/opt/ml/input/data"
CONFIG = "/opt/ml/input/config"
MODEL = "/opt/ml/model"
OUTPUT = "/opt/ml/output"
OUTPUT_DATA = f"{OUTPUT}/data"
S3 = "s3://"
DIALECT = TrainingDialect("sagemaker")
STOP_GRACE = timedelta(seconds=120)  # AWS: between SIGTERM and SIGKILL
DEFAULT_MAX_RUNTIME = 86_400  # seconds, as in SageMaker
QUEUE_TAG = "batchq:queue"
MAX_TAGS = 48  # of a request; the job needs two more
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,511}", re.ASCII)
_RESERVED = "AWS_BATCH_"
_GROUP = "homogeneousCluster"  # AWS: the instance group of a job without InstanceGroups
_NOT_RETURNED = {
    "TrainingJobName",
    "StoppingCondition",
    "Tags",
    "DebugHookConfig",
    "ProfilerConfig",
    *wire.REFUSED_MEMBERS,
}
"""Members that DescribeTrainingJob does not return as they were sent. It adds the default to `StoppingCondition`."""


def bucket_folders(limits: ServerLimits) -> BucketFolders:
    """The folders of S3 URIs. Without a root S3 URIs of inputs are refused, and no model is stored."""
    return BucketFolders(limits.s3_root, S3)


def queue_of(body: wire.SageMakerCreateTrainingJob) -> QueueName:
    """The queue of the job: that of the tag QUEUE_TAG, else the default queue."""
    return QueueName(dict(_tags(body)).get(QUEUE_TAG, DEFAULT_QUEUE))


def requested_sagemaker_job(
    body: wire.SageMakerCreateTrainingJob, *, arn: str, digest: str = "", limits: ServerLimits, caller: Caller
) -> TrainingJobRequest:
    """The requested job. Raises HttpRefusal."""
    _refuse_unsupported(body)
    stopping = _stopping_condition(body)
    if stopping["MaxRuntimeInSeconds"] < limits.min_timeout:
        raise validation_exception(f"MaxRuntimeInSeconds must be at least {limits.min_timeout}.")
    container = _container(body, arn, bucket_folders(limits))
    model = {} if limits.s3_root is None else {"ModelArtifacts": {"S3ModelArtifacts": artifacts(body)}}
    kept = body.model_dump(exclude=_NOT_RETURNED, exclude_none=True)
    return TrainingJobRequest(
        dialect=DIALECT,
        name=body.TrainingJobName,
        queue=queue_of(body),
        container=container,
        nodes=body.ResourceConfig.InstanceCount,
        retry=_retry(body.RetryStrategy),
        timeout=timedelta(seconds=stopping["MaxRuntimeInSeconds"]),
        tags=_tags(body),
        metric_rules=_metric_rules(body.AlgorithmSpecification),
        stop_grace=STOP_GRACE,
        returned=kept | {"StoppingCondition": stopping} | model,
        digest=digest,
        job_id=new_id(body.TrainingJobName, caller.user),
    )


def _refuse_unsupported(body: wire.SageMakerCreateTrainingJob) -> None:
    for member in wire.REFUSED_MEMBERS:
        if getattr(body, member):
            raise validation_exception(f"{member} is not supported by this server.")
    if body.OutputDataConfig.KmsKeyId:
        raise validation_exception("OutputDataConfig.KmsKeyId is not supported by this server.")
    if body.AlgorithmSpecification.TrainingInputMode == "Pipe":
        raise validation_exception(
            "AlgorithmSpecification.TrainingInputMode Pipe is not supported by this server: use File or FastFile."
        )
    if body.CheckpointConfig is not None and body.CheckpointConfig.LocalPath not in {None, MOUNT_POINT}:
        raise validation_exception(
            f"CheckpointConfig.LocalPath is not supported by this server, unless it is {MOUNT_POINT}."
        )


def _container(body: wire.SageMakerCreateTrainingJob, arn: str, folders: BucketFolders) -> ContainerSpec:
    algorithm = body.AlgorithmSpecification
    if IMAGE.fullmatch(algorithm.TrainingImage) is None:
        raise validation_exception("AlgorithmSpecification.TrainingImage is not the name of an image.")
    resources = instance_resources(body.ResourceConfig.InstanceType)
    if resources is None:
        raise validation_exception(f"ResourceConfig.InstanceType {body.ResourceConfig.InstanceType!r} is not known.")
    entrypoint = tuple(algorithm.ContainerEntrypoint or ())
    default = () if entrypoint else ("train",)  # AWS: as the argument of the image's own entry point
    return ContainerSpec(
        image=algorithm.TrainingImage,
        resources=resources,
        entrypoint=entrypoint,
        command=tuple(algorithm.ContainerArguments or default),
        environment=tuple(_environment(body, arn).items()),
        mounts=(*input_mounts(body.InputDataConfig or [], folders), *output_mounts(body, folders)),
        files=(
            hyperparameters_file(body.HyperParameters or {}),
            TextFile(path=f"{CONFIG}/inputdataconfig.json", content=json_text(_input_config(body))),
            TextFile(path=f"{CONFIG}/resourceconfig.json", content=json_text(_resource_config(body)), numbered=True),
        ),
        folders=(INPUTS, MODEL, OUTPUT, OUTPUT_DATA),
        failure_file=f"{OUTPUT}/failure",
        named_nodes=True,
    )


def _resource_config(body: wire.SageMakerCreateTrainingJob) -> Mapping[str, object]:
    """AWS: the names of the instances are in lexicographic order."""
    instance_type = body.ResourceConfig.InstanceType
    hosts = sorted(f"algo-{number}" for number in range(1, body.ResourceConfig.InstanceCount + 1))
    group = {"instance_group_name": _GROUP, "instance_type": instance_type, "hosts": hosts}
    return {
        "current_host": f"algo-{NODE_NUMBER}",
        "current_instance_type": instance_type,
        "current_group_name": _GROUP,
        "hosts": hosts,
        "instance_groups": [group],
        "network_interface_name": "eth0",
    }


def _input_config(body: wire.SageMakerCreateTrainingJob) -> Mapping[str, object]:
    mode = body.AlgorithmSpecification.TrainingInputMode
    return {
        shape.ChannelName: {
            "TrainingInputMode": shape.InputMode or mode,
            "S3DistributionType": shape.DataSource.S3DataSource.S3DataDistributionType or "FullyReplicated",
            "RecordWrapperType": shape.RecordWrapperType or "None",
            **({"ContentType": shape.ContentType} if shape.ContentType else {}),
        }
        for shape in body.InputDataConfig or ()
    }


def _environment(body: wire.SageMakerCreateTrainingJob, arn: str) -> Mapping[str, str]:
    """The caller's variables, the hyperparameters, and the name of the job, which replace the former."""
    given = body.Environment or {}
    for name in given:
        if _VARIABLE.fullmatch(name) is None or name.startswith(_RESERVED):
            raise validation_exception(
                f"{name[:100]!r} in Environment is not a name that a variable of a job may have."
            )
    hyperparameters = body.HyperParameters or {}
    own = hyperparameter_variables(hyperparameters, "SM_HP_")
    if any(len(text) > MAX_VARIABLE for text in (*given.values(), *own.values())):
        raise validation_exception(
            f"A value in Environment or HyperParameters must have at most {MAX_VARIABLE} characters."
        )
    named = {"TRAINING_JOB_NAME": body.TrainingJobName, "TRAINING_JOB_ARN": arn}
    return {**given, **own, **({"SM_HPS": json_text(hyperparameters)} if hyperparameters else {}), **named}


def _retry(given: wire.RetryShape | None) -> RetryStrategy:
    """AWS: a job is retried after failures of the service, not after an exit of its algorithm."""
    if given is None:
        return RetryStrategy()
    exits = tuple(ExitRule(action=Action.EXIT, on_exit_code=f"{digit}*") for digit in range(1, 10))
    return RetryStrategy(attempts=1 + given.MaximumRetryAttempts, evaluate_on_exit=exits)


def _stopping_condition(body: wire.SageMakerCreateTrainingJob) -> dict[str, int]:
    given = {} if body.StoppingCondition is None else body.StoppingCondition.model_dump(exclude_none=True)
    return {"MaxRuntimeInSeconds": DEFAULT_MAX_RUNTIME} | given


def _metric_rules(algorithm: wire.AlgorithmShape) -> tuple[MetricRule, ...]:
    rules = unique_metric_rules(*((shape.Name, shape.Regex) for shape in algorithm.MetricDefinitions or ()))
    if rules is None:
        raise validation_exception("The names in MetricDefinitions must be unique.")
    return rules


def _tags(body: wire.SageMakerCreateTrainingJob) -> tuple[tuple[str, str], ...]:
    tags = {shape.Key: shape.Value for shape in body.Tags or ()}
    if len(tags) > MAX_TAGS or len(tags) < len(body.Tags or ()):
        raise validation_exception(f"Tags must have at most {MAX_TAGS} different keys.")
    return tuple((tags | {CHECKPOINTS_TAG: "true"}).items())


def input_mounts(channels: list[wire.ChannelShape], folders: BucketFolders) -> tuple[Mount, ...]:
    """The channels, read-only, below INPUTS. Raises HttpRefusal."""
    names = [shape.ChannelName for shape in channels]
    if len(set(names)) < len(names) or {".", ".."} & set(names):
        raise validation_exception("The names of input channels must be unique, and not . or .. .")
    return tuple(
        input_mount(f"{INPUTS}/{shape.ChannelName}", _folder(shape.DataSource.S3DataSource.S3Uri, folders))
        for shape in channels
    )


def artifacts(body: wire.SageMakerCreateTrainingJob) -> str:
    """The S3 URI of the folder of the model. AWS: this is the place of uncompressed artifacts."""
    return f"{body.OutputDataConfig.S3OutputPath.rstrip('/')}/{body.TrainingJobName}/output/model/"


def output_mounts(body: wire.SageMakerCreateTrainingJob, folders: BucketFolders) -> tuple[Mount, ...]:
    """The volume of the failure file at OUTPUT and, with a root, the folders of the model and of other output.

    Raises HttpRefusal.
    """
    volume = Mount(container_path=OUTPUT, host_path=None)
    if folders.root is None:
        return (volume,)
    model = _folder(artifacts(body), folders)
    data = str(PurePosixPath(model).with_name("data"))
    return volume, output_mount(MODEL, model), output_mount(OUTPUT_DATA, data)


def _folder(uri: str, folders: BucketFolders) -> str:
    """The folder of `s3://bucket/key`."""
    if folders.root is None:
        raise validation_exception("InputDataConfig is not supported by this server: it has no --s3-root.")
    folder = folders.folder(uri.removeprefix(S3)) if uri.startswith(S3) else None
    if folder is None:
        raise validation_exception(f"{uri[:200]!r} is not an S3 URI without '..' and colons, as s3://bucket/key.")
    return folder


_GIB = 1024  # MiB
_MIN_MEMORY = 4  # MiB: container engines accept no less
_SIZES: Mapping[str, int] = {
    "large": 2,
    "xlarge": 4,
    **{f"{number}xlarge": 4 * number for number in (2, 3, 4, 6, 8, 9, 10, 12, 16, 18, 24, 32, 48)},
}
"""vCPUs by size."""

_GIB_PER_VCPU: Mapping[str, int] = {"c": 2, "m": 4, "r": 8}
"""By the first letter of a general family, as `m5`."""

_FAMILY = re.compile(r"ml\.(?P<kind>[cmr])[4-8][a-z]{0,2}\.(?P<size>[a-z0-9]{5,8})")
_OWN = re.compile(r"batchq\.cpu\.(?P<vcpus>[0-9]{1,4}(?:\.[0-9]{1,3})?)u(?P<gib>[0-9]{1,6}(?:\.[0-9]{1,4})?)g")
_OTHERS: Mapping[str, tuple[int, int, int]] = {
    "ml.t3.medium": (2, 4, 0),
    "ml.t3.large": (2, 8, 0),
    "ml.t3.xlarge": (4, 16, 0),
    "ml.t3.2xlarge": (8, 32, 0),
    "ml.g4dn.xlarge": (4, 16, 1),
    "ml.g4dn.2xlarge": (8, 32, 1),
    "ml.g4dn.4xlarge": (16, 64, 1),
    "ml.g4dn.8xlarge": (32, 128, 1),
    "ml.g4dn.12xlarge": (48, 192, 4),
    "ml.g4dn.16xlarge": (64, 256, 1),
    "ml.g5.xlarge": (4, 16, 1),
    "ml.g5.2xlarge": (8, 32, 1),
    "ml.g5.4xlarge": (16, 64, 1),
    "ml.g5.8xlarge": (32, 128, 1),
    "ml.g5.12xlarge": (48, 192, 4),
    "ml.g5.16xlarge": (64, 256, 1),
    "ml.g5.24xlarge": (96, 384, 4),
    "ml.g5.48xlarge": (192, 768, 8),
    "ml.p3.2xlarge": (8, 61, 1),
    "ml.p3.8xlarge": (32, 244, 4),
    "ml.p3.16xlarge": (64, 488, 8),
    "ml.p4d.24xlarge": (96, 1152, 8),
    "ml.p5.48xlarge": (192, 2048, 8),
}
"""vCPUs, GiB and GPUs."""


def instance_resources(instance_type: str) -> Resources | None:
    """The resources of one instance; None for an unknown type."""
    if instance_type in _OTHERS:
        vcpus, gib, gpus = _OTHERS[instance_type]
        return Resources(millicpus=1000 * vcpus, memory_mib=gib * _GIB, gpus=gpus)
    if family := _FAMILY.fullmatch(instance_type):
        size = _SIZES.get(family["size"])
        gib_per_vcpu = _GIB_PER_VCPU[family["kind"]]
        return None if size is None else Resources(millicpus=1000 * size, memory_mib=size * gib_per_vcpu * _GIB)
    if own := _OWN.fullmatch(instance_type):
        millicpus, memory = round(1000 * float(own["vcpus"])), round(float(own["gib"]) * _GIB)
        if millicpus >= 1 and memory >= _MIN_MEMORY:
            return Resources(millicpus=millicpus, memory_mib=memory)
    return None
