"""CreateTrainingJob: the request to a job, and the part of it that is stored only to be returned.

An OBS path is a folder of this machine, which is mounted in the containers.
"""

import re
import shlex
from collections.abc import Mapping
from datetime import timedelta
from pathlib import PurePosixPath

from msgspec import Struct

from batchq.api.training.common.training_jobs import BucketFolders
from batchq.api.training.common.training_request import (
    DEFAULT_QUEUE,
    IMAGE,
    TrainingJobRequest,
    input_mount,
    output_mount,
)
from batchq.api.training.modelarts import flavors
from batchq.api.training.modelarts.context import EngineImage, ModelArtsSettings
from batchq.api.training.modelarts.job_document import DESCRIPTION_TAG, DIALECT, definition_prefix
from batchq.api.training.modelarts.wire import (
    ALGORITHM_NOT_FOUND,
    ENGINE_NOT_FOUND,
    INVALID_OBS_PATH,
    INVALID_PARAMETER,
    NO_COMMAND,
    NOT_SUPPORTED,
    TOO_MANY_NODES,
    UNSUPPORTED_CHANNEL,
    AlgorithmChannel,
    AlgorithmEngine,
    CreateTrainingJob,
    ModelArtsRefusal,
    TrainingAlgorithm,
)
from batchq.domain.container import ContainerSpec, Mount, Resources
from batchq.domain.job import RetryStrategy
from batchq.domain.training import CHECKPOINTS_TAG

HOME = "/home/ma-user"
MOUNTS = f"{HOME}/modelarts"
CODE = f"{MOUNTS}/user-job-dir"
_SCHEME = re.compile(r"obs://|/")
_INTERPRETERS = {".py": "python", ".sh": "sh"}
MAX_NODES = 1000
MAX_RETRIES = 128
RETRIES = "fault-tolerance/job-retry-num"
PROJECT_TAG = "modelarts:project"
_NUMBER = re.compile(r"[0-9]{1,3}")
_OF_NODE = (
    'export VC_TASK_INDEX="$AWS_BATCH_JOB_NODE_INDEX" MA_CURRENT_INSTANCE_NAME="worker-$AWS_BATCH_JOB_NODE_INDEX" '
    'VC_WORKER_HOSTS="${AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS:-127.0.0.1}"'
)
_KEPT_OF_SPEC = {"log_export_path", "auto_stop", "schedule_policy"}


class Channels(Struct, frozen=True, kw_only=True):
    """What the inputs, the outputs and the code of a job become."""

    mounts: tuple[Mount, ...]
    #: Arguments of the program, as `--data_url=/home/...`.
    arguments: tuple[str, ...]
    #: Variables of the containers.
    environment: tuple[tuple[str, str], ...]
    #: The directory of the code in the containers; None: the image has it.
    code: str | None
    #: The words that run the boot file; empty without one.
    program: tuple[str, ...]


def requested_modelarts_job(
    given: CreateTrainingJob, *, project: str, settings: ModelArtsSettings, capacity: Resources
) -> TrainingJobRequest:
    """The requested job. Raises ModelArtsRefusal."""
    _refuse_unsupported(given)
    channels = to_channels(given.algorithm, settings.folders)
    resource, policy = given.spec.resource, given.spec.schedule_policy
    size, count = flavors.selected(resource, capacity), resource.node_count or 1
    if count > MAX_NODES:
        raise ModelArtsRefusal(TOO_MANY_NODES, solution=f"A job has at most {MAX_NODES} nodes.")
    container = ContainerSpec(
        image=_image(given.algorithm, settings),
        resources=size,
        command=_command(given.algorithm, channels, several=count > 1),
        environment=_environment(given.algorithm, channels, size, count),
        init=True,
        mounts=channels.mounts,
    )
    stop = given.spec.auto_stop
    return TrainingJobRequest(
        dialect=DIALECT,
        definition=definition_prefix(project),
        name=given.metadata.name,
        queue=resource.pool_id or DEFAULT_QUEUE,
        container=container,
        nodes=count,
        retry=RetryStrategy(attempts=1 + _retries(given.metadata.annotations or {})),
        timeout=None if stop is None else timedelta(hours=stop.duration),
        tags=_tags(project, given.metadata.description),
        priority=None if policy is None else policy.priority,
        returned=_returned(given, settings),
    )


def _refuse_unsupported(given: CreateTrainingJob) -> None:
    ssh = (given.endpoints or {}).get("ssh")
    for member, is_used in (
        (f"kind {given.kind}", given.kind not in {None, "", "job"}),
        ("tasks", bool(given.tasks)),
        ("spec.volumes", bool(given.spec.volumes)),
        ("endpoints.ssh", bool(ssh)),
    ):
        if is_used:
            raise ModelArtsRefusal(NOT_SUPPORTED, member)
    if given.algorithm.id or given.algorithm.subscription_id or given.algorithm.item_version_id:
        raise ModelArtsRefusal(ALGORITHM_NOT_FOUND, solution="This server stores no algorithms: use an image.")


def _image(given: TrainingAlgorithm, settings: ModelArtsSettings) -> str:
    engine = given.engine or AlgorithmEngine()
    found = _engine(engine, settings)
    image = engine.image_url or (None if found is None else found.image)
    if not image or not (given.command or given.boot_file):
        raise ModelArtsRefusal(NO_COMMAND)
    if IMAGE.fullmatch(image) is None:
        raise ModelArtsRefusal(INVALID_PARAMETER, "algorithm.engine.image_url")
    return image


def _engine(given: AlgorithmEngine, settings: ModelArtsSettings) -> EngineImage | None:
    """The engine of the server that a request names; None if it names an image instead."""
    if given.image_url:
        return None
    for image in settings.engines:
        named = (given.engine_name, given.engine_version) == (image.name, image.version)
        if image.id == given.engine_id or (not given.engine_id and named):
            return image
    if given.engine_id or given.engine_name:
        wanted = given.engine_id or f"{given.engine_name} {given.engine_version or ''}".strip()
        raise ModelArtsRefusal(ENGINE_NOT_FOUND, wanted, solution="List the engines of the server.")
    return None


def _command(given: TrainingAlgorithm, channels: Channels, *, several: bool) -> tuple[str, ...]:
    """The command as the shell's. The parameters follow it as arguments."""
    parameters = [f"--{parameter.name}={parameter.value or ''}" for parameter in given.parameters or ()]
    arguments = shlex.join([*parameters, *channels.arguments])
    program = given.command or f"exec {shlex.join(channels.program)}"
    text = f"{program} {arguments}" if arguments else program
    directory = given.working_dir or channels.code
    prelude = [*([_OF_NODE] if several else []), *([f"cd {shlex.quote(directory)}"] if directory else [])]
    if not prelude:
        return ("/bin/sh", "-c", text)
    return ("/bin/sh", "-c", " && ".join([*prelude, 'exec /bin/sh -c "$1"']), "modelarts", text)


def _environment(
    given: TrainingAlgorithm, channels: Channels, size: Resources, count: int
) -> tuple[tuple[str, str], ...]:
    """The caller's variables, the directories of channels, and those of ModelArts, which replace the former."""
    own = {
        "MA_HOME": HOME,
        "MA_JOB_DIR": CODE,
        "MA_MOUNT_PATH": MOUNTS,
        "MA_LOG_DIR": f"{MOUNTS}/log",
        "MA_NUM_HOSTS": str(count),
        "MA_NUM_GPUS": str(size.gpus),
        "MA_TASK_NAME": "worker",
        "VC_WORKER_NUM": str(count),
    }
    if count == 1:
        own |= {"MA_CURRENT_INSTANCE_NAME": "worker-0", "VC_TASK_INDEX": "0", "VC_WORKER_HOSTS": "127.0.0.1"}
    return tuple({**(given.environments or {}), **dict(channels.environment), **own}.items())


def _retries(annotations: Mapping[str, str]) -> int:
    text = annotations.get(RETRIES, "0")
    if _NUMBER.fullmatch(text) is None or int(text) > MAX_RETRIES:
        raise ModelArtsRefusal(INVALID_PARAMETER, RETRIES, solution=f"It must be from 0 to {MAX_RETRIES}.")
    return int(text)


def _tags(project: str, description: str | None) -> tuple[tuple[str, str], ...]:
    described = ((DESCRIPTION_TAG, description),) if description else ()
    return (PROJECT_TAG, project), (CHECKPOINTS_TAG, "true"), *described


def _returned(given: CreateTrainingJob, settings: ModelArtsSettings) -> Mapping[str, object]:
    """The members of the request that are returned, with the directories and the engine that the server chose."""
    resource = given.spec.resource.model_dump(include={"policy"}, exclude_none=True)
    return {
        "metadata": given.metadata.model_dump(include={"workspace_id", "annotations"}, exclude_none=True),
        "algorithm": _completed(given.algorithm, settings),
        "spec": given.spec.model_dump(include=_KEPT_OF_SPEC, exclude_none=True) | {"resource": resource},
    }


def _completed(given: TrainingAlgorithm, settings: ModelArtsSettings) -> Mapping[str, object]:
    """The algorithm of a request with the values that the server chose."""
    members = given.model_dump(exclude_none=True)
    for kind, channels in (("inputs", given.inputs or ()), ("outputs", given.outputs or ())):
        for index, channel in enumerate(channels):
            members[kind][index]["local_dir"] = _local_dir(channel, kind, index)
    if given.code_dir:
        members["local_code_dir"] = _local_code_dir(given)
    engine = None if given.engine is None else _engine(given.engine, settings)
    if engine is not None:
        named = {"engine_id": engine.id, "engine_name": engine.name, "engine_version": engine.version}
        members["engine"] = members["engine"] | named
    return members


def to_channels(given: TrainingAlgorithm, folders: BucketFolders) -> Channels:
    """Translate code, inputs and outputs. Raises ModelArtsRefusal."""
    mounts, arguments, environment = list[Mount](), list[str](), list[tuple[str, str]]()
    for kind, channels in (("inputs", given.inputs or ()), ("outputs", given.outputs or ())):
        for index, channel in enumerate(channels):
            where = f"algorithm.{kind}.{index}"
            path = _container_path(_local_dir(channel, kind, index), f"{where}.local_dir")
            mount = input_mount if kind == "inputs" else output_mount
            mounts.append(mount(path, _remote(channel, folders)))
            if _is_parameter(channel, where):
                arguments.append(f"--{channel.name}={path}")
            else:
                environment.append((channel.name.replace("-", "_"), path))
    code, program = _code(given)
    if code is not None:
        mounts.append(input_mount(code, to_host_path(given.code_dir or "", folders)))
    _check_distinct(mounts)
    return Channels(
        mounts=tuple(mounts), arguments=tuple(arguments), environment=tuple(environment), code=code, program=program
    )


def _local_dir(channel: AlgorithmChannel, kind: str, index: int) -> str:
    """The directory of an input or output in the containers. `kind`: `inputs` or `outputs`."""
    return channel.local_dir or f"{MOUNTS}/{kind}/{channel.name}_{index}"


def _local_code_dir(given: TrainingAlgorithm) -> str:
    base = (given.code_dir or "").rstrip("/")
    return given.local_code_dir or f"{CODE}/{base.rpartition('/')[2]}"


def to_host_path(obs_path: str, folders: BucketFolders) -> str:
    """The folder of `obs://bucket/key` or `/bucket/key`. Raises ModelArtsRefusal."""
    scheme = _SCHEME.match(obs_path)
    if scheme is None:
        raise ModelArtsRefusal(INVALID_OBS_PATH, solution="Use obs://bucket/key or /bucket/key.")
    if folders.root is None:
        raise ModelArtsRefusal(INVALID_OBS_PATH, solution="This server has no obs_root in its --modelarts-config.")
    folder = folders.folder(obs_path[scheme.end() :])
    if folder is None:
        raise ModelArtsRefusal(INVALID_OBS_PATH, solution="The path must name a bucket, without '..' and colons.")
    return folder


def _remote(channel: AlgorithmChannel, folders: BucketFolders) -> str:
    if channel.remote is None or channel.remote.obs is None:
        raise ModelArtsRefusal(UNSUPPORTED_CHANNEL, solution=f"{channel.name}: only remote.obs is supported.")
    return to_host_path(channel.remote.obs.obs_url, folders)


def _is_parameter(channel: AlgorithmChannel, where: str) -> bool:
    """Whether the program gets the directory as an argument, which is the default; else as a variable."""
    if channel.access_method not in {None, "", "parameter", "env"}:
        raise ModelArtsRefusal(INVALID_PARAMETER, f"{where}.access_method")
    return channel.access_method != "env"


def _code(given: TrainingAlgorithm) -> tuple[str | None, tuple[str, ...]]:
    """The directory of the code in the containers, and the words that run its boot file."""
    if not given.code_dir:
        if given.boot_file:
            raise ModelArtsRefusal(INVALID_PARAMETER, "algorithm.code_dir", solution="boot_file needs code_dir.")
        return None, ()
    base = given.code_dir.rstrip("/")
    local = _container_path(_local_code_dir(given), "algorithm.local_code_dir")
    if not given.boot_file:
        return local, ()
    relative = PurePosixPath(given.boot_file.removeprefix(f"{base}/"))
    if relative.is_absolute() or ".." in relative.parts or ":" in str(relative):
        raise ModelArtsRefusal(INVALID_PARAMETER, "algorithm.boot_file", solution="It must lie in code_dir.")
    interpreter = _INTERPRETERS.get(relative.suffix)
    if interpreter is None:
        suffixes = " or ".join(_INTERPRETERS)
        raise ModelArtsRefusal(INVALID_PARAMETER, "algorithm.boot_file", solution=f"It must end in {suffixes}.")
    return local, (interpreter, f"{local}/{relative}")


def _container_path(text: str, what: str) -> str:
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or ":" in text or path == PurePosixPath("/"):
        raise ModelArtsRefusal(INVALID_PARAMETER, what, solution="It must be an absolute path without '..' and colons.")
    return str(path)


def _check_distinct(mounts: list[Mount]) -> None:
    paths = [mount.container_path for mount in mounts]
    for path in paths:
        if paths.count(path) > 1:
            raise ModelArtsRefusal(INVALID_PARAMETER, "local_dir", solution=f"{path} is used more than once.")
