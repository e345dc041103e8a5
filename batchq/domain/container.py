"""Container specs: AWS's containerProperties in domain terms, and SubmitJob's overrides of them. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from json.encoder import encode_basestring as spelt

from msgspec import Struct
from msgspec.structs import replace

from batchq.errors import Invalid

MAX_COMMAND_LENGTH = 64 * 1024
"""Characters of one container's command: a request of 30 KiB can refer to a parameter of 29 KiB thousands of times."""

CREATE_HOST_PATHS_TAG = "batchq:create-host-paths"
"""The tag of SubmitJob: with `true`, host paths of the job that do not exist are created."""

_REF = "Ref::"
_AROUND = '{"command":[],"environment":[]}'
_VARIABLE = '{"name":,"value":}'


class Resources(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The resources that a container reserves."""

    #: Thousandths of a vCPU.
    millicpus: int
    #: MiB.
    memory_mib: int
    gpus: int = 0


class DevicePermission(StrEnum):
    """What a container may do with a device."""

    READ = "READ"
    WRITE = "WRITE"
    MKNOD = "MKNOD"


class Device(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device of the host in a container."""

    #: The device's path on the host.
    host_path: str
    #: The device's path in the container.
    container_path: str
    #: Empty: AWS's default, all of them.
    permissions: tuple[DevicePermission, ...] = ()


class Tmpfs(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file system in memory at a path of the container."""

    container_path: str
    #: MiB.
    size_mib: int
    #: Mount options, as `noexec`.
    options: tuple[str, ...] = ()


class Ulimit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A resource limit of the container's processes."""

    #: As `nofile`.
    name: str
    soft: int
    hard: int


class Mount(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A volume at a path of the container."""

    container_path: str
    #: A path of the host; None: a volume that is removed with the attempt.
    host_path: str | None
    read_only: bool = False
    #: The name under which the containers of a task share the volume; None: it is the container's own.
    volume: str | None = None
    #: Whether the host path is created if it does not exist; the server may create it in any case.
    create: bool = False
    #: Whether the start is refused if the host path does not exist, also where the server creates others.
    must_exist: bool = False


class Secret(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An environment variable whose value is looked up when the container starts, and never stored."""

    #: The environment variable, or the option of a log driver.
    name: str
    #: Where the value is looked up.
    value_from: str


class Logging(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The destination of a container's output."""

    #: None: captured by batchq, as AWS's awslogs is by default.
    driver: str | None = None
    #: Options of the driver, by name.
    options: tuple[tuple[str, str], ...] = ()
    #: Options of the driver whose values are looked up when the container is created.
    secret_options: tuple[Secret, ...] = ()
    #: The option `awslogs-group`: a second log group of the captured output; None: it is in `/aws/batch/job` only.
    group: str | None = None

    @property
    def captured(self) -> bool:
        """Whether batchq reads the output; that of any other driver is read where the driver sends it."""
        return self.driver in {None, "awslogs", "json-file"}


class TextFile(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that is written into a container before it starts."""

    #: Absolute. Folders that do not exist are created, and an existing file is replaced.
    path: str
    content: str
    #: Whether NODE_NUMBER in the content stands for the number of the container's node, from 1.
    numbered: bool = False


NODE_NUMBER = "${NODE_NUMBER}"


class ContainerSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One container: AWS's containerProperties."""

    image: str
    resources: Resources
    #: Empty: the image's own command.
    command: tuple[str, ...] = ()
    #: Replaces the image's entry point; empty: the image's own.
    entrypoint: tuple[str, ...] = ()
    #: Variables by name, without those of batchq.
    environment: tuple[tuple[str, str], ...] = ()
    #: The user name or id of its process; None: the image's.
    user: str | None = None
    privileged: bool = False
    #: Whether its root file system is read-only.
    read_only_root: bool = False
    #: Whether an init process forwards signals and reaps processes.
    init: bool = False
    ulimits: tuple[Ulimit, ...] = ()
    devices: tuple[Device, ...] = ()
    tmpfs: tuple[Tmpfs, ...] = ()
    #: The size of /dev/shm in MiB; None: the container engine's default.
    shared_memory_mib: int | None = None
    #: Swap in MiB beside its memory; None: the container engine's default.
    max_swap_mib: int | None = None
    #: 0 to 100; None: the container engine's default.
    swappiness: int | None = None
    mounts: tuple[Mount, ...] = ()
    logging: Logging = Logging()
    #: Environment variables whose values are looked up when the container starts.
    secrets: tuple[Secret, ...] = ()
    #: Docker's `os/arch`; None: the host's.
    platform: str | None = None
    #: Readable for all users of the container. Only the server chooses their paths.
    files: tuple[TextFile, ...] = ()
    #: Absolute. They are created, if they are missing, and writable for all users of the container. Only the server
    #: chooses them.
    folders: tuple[str, ...] = ()
    #: A file in a volume of the container without a host path. Its beginning is the reason if the container fails.
    failure_file: str | None = None
    #: Whether the name `algo-N` leads to node N, from 1. A container without a node is `algo-1`.
    named_nodes: bool = False


class Overrides(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """SubmitJob's changes of a job definition's container. None keeps the definition's value."""

    command: tuple[str, ...] | None = None
    #: Variables that are added or replaced.
    environment: tuple[tuple[str, str], ...] = ()
    #: Thousandths of a vCPU.
    millicpus: int | None = None
    #: MiB.
    memory_mib: int | None = None
    gpus: int | None = None


def numbered(spec: ContainerSpec, node: int) -> ContainerSpec:
    """The container with the number of its node, which is `node` from 0, in its files."""
    if not spec.files:
        return spec
    files = (
        replace(path, content=path.content.replace(NODE_NUMBER, str(node + 1))) if path.numbered else path
        for path in spec.files
    )
    return replace(spec, files=tuple(files))


def length(overrides: Overrides) -> int:
    """The length of a caller's overrides as JSON, in characters, without the variables that AWS adds to them.

    It is computed for every job, so the JSON itself is not built.
    """
    command, environment = overrides.command or (), overrides.environment
    texts = (*command, *chain.from_iterable(environment))
    commas = max(0, len(command) - 1) + max(0, len(environment) - 1)
    return len(_AROUND) + len(_VARIABLE) * len(environment) + commas + sum(map(len, map(spelt, texts)))


def effective(spec: ContainerSpec, overrides: Overrides, parameters: tuple[tuple[str, str], ...]) -> ContainerSpec:
    """The container of a job: the definition's with the overrides applied, then `Ref::name` replaced."""
    command = spec.command if overrides.command is None else overrides.command
    return replace(
        spec,
        command=substitute(command, dict(parameters)),
        environment=merge_pairs(spec.environment, overrides.environment),
        resources=reserved(spec.resources, overrides),
    )


def creates_host_paths(tags: Iterable[tuple[str, str]]) -> bool:
    """Whether the tags of a submission let the server create missing host paths. Raises Invalid."""
    value = dict(tags).get(CREATE_HOST_PATHS_TAG, "false")
    if value not in {"true", "false"}:
        raise Invalid(f"The tag {CREATE_HOST_PATHS_TAG} must be true or false.")
    return value == "true"


def creating_host_paths(spec: ContainerSpec) -> ContainerSpec:
    """The container with mounts that create missing host paths."""
    return replace(spec, mounts=tuple(replace(mount, create=mount.host_path is not None) for mount in spec.mounts))


def reserved(below: Resources, overrides: Overrides) -> Resources:
    """The resources of a job's container: the definition's (`below`) with the overrides applied."""
    return Resources(
        millicpus=below.millicpus if overrides.millicpus is None else overrides.millicpus,
        memory_mib=below.memory_mib if overrides.memory_mib is None else overrides.memory_mib,
        gpus=below.gpus if overrides.gpus is None else overrides.gpus,
    )


def substitute(command: tuple[str, ...], parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Replace each `Ref::name`, anywhere in a word, by the value of the longest parameter name that matches there.

    A `Ref::` without a known name stays as it is, and values are not searched again. Raises Invalid if the result has
    more than MAX_COMMAND_LENGTH characters; AWS has no such limit.
    """
    if _REF not in " ".join(command):
        return command
    lengths = sorted({len(name) for name in parameters if name}, reverse=True)
    words = [_pieces(word, parameters, lengths) for word in command]
    if sum(len(piece) for pieces in words for piece in pieces) > MAX_COMMAND_LENGTH:
        raise Invalid(f"The command must be at most {MAX_COMMAND_LENGTH} characters, with its parameters replaced.")
    return tuple("".join(pieces) for pieces in words)


def _pieces(word: str, parameters: Mapping[str, str], lengths: Sequence[int]) -> list[str]:
    """The literal texts and values of a word, in order. `lengths`: the lengths of the parameter names, descending."""
    first, *others = word.split(_REF)
    pieces = [first]
    for text in others:
        name = next((text[:length] for length in lengths if text[:length] in parameters), "")
        pieces += (parameters[name] if name else _REF, text.removeprefix(name))
    return pieces


def merge_pairs(below: tuple[tuple[str, str], ...], above: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The pairs of both, each name once, in order of first occurrence. The value of `above` takes precedence."""
    return tuple((dict(below) | dict(above)).items())
