"""Code, inputs and outputs of a training job: OBS paths as folders of this machine, mounted in the containers."""

import re
from pathlib import Path, PurePosixPath

from msgspec import Struct

from batchq.api.modelarts.errors import (
    INVALID_OBS_PATH,
    INVALID_PARAMETER,
    UNSUPPORTED_CHANNEL,
    refusal,
)
from batchq.api.modelarts.wire import AlgorithmChannel, TrainingAlgorithm
from batchq.domain.container import Mount

HOME = "/home/ma-user"
MOUNTS = f"{HOME}/modelarts"
CODE = f"{MOUNTS}/user-job-dir"
_SCHEME = re.compile(r"obs://|/")
_INTERPRETERS = {".py": "python", ".sh": "sh"}


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


def to_channels(given: TrainingAlgorithm, obs_root: Path | None) -> Channels:
    """Translate code, inputs and outputs. `obs_root`: the folder that stands for OBS; None: there is none.

    Raises ModelArtsRefusal.
    """
    mounts, arguments, environment = list[Mount](), list[str](), list[tuple[str, str]]()
    for kind, channels in (("inputs", given.inputs or ()), ("outputs", given.outputs or ())):
        for index, it in enumerate(channels):
            where = f"algorithm.{kind}.{index}"
            path = _container_path(it.local_dir or f"{MOUNTS}/{kind}/{it.name}_{index}", f"{where}.local_dir")
            mounts.append(Mount(container_path=path, host_path=_remote(it, obs_root), read_only=kind == "inputs"))
            if _is_parameter(it, where):
                arguments.append(f"--{it.name}={path}")
            else:
                environment.append((it.name.replace("-", "_"), path))
    code, program = _code(given)
    if code is not None:
        mounts.append(
            Mount(container_path=code, host_path=to_host_path(given.code_dir or "", obs_root), read_only=True)
        )
    _check_distinct(mounts)
    return Channels(
        mounts=tuple(mounts),
        arguments=tuple(arguments),
        environment=tuple(environment),
        code=code,
        program=program,
    )


def to_host_path(obs_path: str, obs_root: Path | None) -> str:
    """The folder of `obs://bucket/key` or `/bucket/key`. Raises ModelArtsRefusal."""
    scheme = _SCHEME.match(obs_path)
    if scheme is None:
        raise refusal(INVALID_OBS_PATH, solution="Use obs://bucket/key or /bucket/key.")
    if obs_root is None:
        raise refusal(INVALID_OBS_PATH, solution="This server has no obs_root in its --modelarts-config.")
    parts = [it for it in obs_path[scheme.end() :].split("/") if it not in {"", "."}]
    if not parts or ".." in parts or any(":" in it for it in parts):
        raise refusal(INVALID_OBS_PATH, solution="The path must name a bucket, without '..' and colons.")
    return str(PurePosixPath(obs_root, *parts))


def _remote(it: AlgorithmChannel, obs_root: Path | None) -> str:
    if it.remote is None or it.remote.obs is None:
        raise refusal(UNSUPPORTED_CHANNEL, solution=f"{it.name}: only remote.obs is supported.")
    return to_host_path(it.remote.obs.obs_url, obs_root)


def _is_parameter(it: AlgorithmChannel, where: str) -> bool:
    """Whether the program gets the directory as an argument, which is the default; else as a variable."""
    if it.access_method not in {None, "", "parameter", "env"}:
        raise refusal(INVALID_PARAMETER, f"{where}.access_method")
    return it.access_method != "env"


def _code(given: TrainingAlgorithm) -> tuple[str | None, tuple[str, ...]]:
    """The directory of the code in the containers, and the words that run its boot file."""
    if not given.code_dir:
        if given.boot_file:
            raise refusal(INVALID_PARAMETER, "algorithm.code_dir", solution="boot_file needs code_dir.")
        return None, ()
    base = given.code_dir.rstrip("/")
    local = _container_path(given.local_code_dir or f"{CODE}/{base.rpartition('/')[2]}", "algorithm.local_code_dir")
    if not given.boot_file:
        return local, ()
    relative = PurePosixPath(given.boot_file.removeprefix(f"{base}/"))
    if relative.is_absolute() or ".." in relative.parts or ":" in str(relative):
        raise refusal(INVALID_PARAMETER, "algorithm.boot_file", solution="It must lie in code_dir.")
    interpreter = _INTERPRETERS.get(relative.suffix)
    if interpreter is None:
        suffixes = " or ".join(_INTERPRETERS)
        raise refusal(INVALID_PARAMETER, "algorithm.boot_file", solution=f"It must end in {suffixes}.")
    return local, (interpreter, f"{local}/{relative}")


def _container_path(text: str, what: str) -> str:
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or ":" in text or path == PurePosixPath("/"):
        raise refusal(INVALID_PARAMETER, what, solution="It must be an absolute path without '..' and colons.")
    return str(path)


def _check_distinct(mounts: list[Mount]) -> None:
    paths = [it.container_path for it in mounts]
    for it in paths:
        if paths.count(it) > 1:
            raise refusal(INVALID_PARAMETER, "local_dir", solution=f"{it} is used more than once.")
