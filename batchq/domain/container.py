"""What a job's container is made of, in domain terms: AWS's containerProperties without the wire."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import chain
from json.encoder import encode_basestring as spelt

from msgspec import Struct
from msgspec.structs import replace

from batchq.errors import Invalid

MAX_COMMAND_LENGTH = 64 * 1024
"""Characters of one container's command: a request of 30 KiB may repeat a parameter of 29 KiB thousands of times."""

_REF = "Ref::"
_AROUND = '{"command":[],"environment":[]}'
_VARIABLE = '{"name":,"value":}'


class Resources(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a container reserves: thousandths of a vCPU, MiB of memory, whole GPUs."""

    millicpus: int
    memory_mib: int
    gpus: int = 0


class DevicePermission(StrEnum):
    READ = "READ"
    WRITE = "WRITE"
    MKNOD = "MKNOD"


class Device(Struct, frozen=True, kw_only=True, omit_defaults=True):
    host_path: str
    container_path: str
    permissions: tuple[DevicePermission, ...] = ()


class Tmpfs(Struct, frozen=True, kw_only=True, omit_defaults=True):
    container_path: str
    size_mib: int
    options: tuple[str, ...] = ()


class Ulimit(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    soft: int
    hard: int


class Mount(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A volume at a path of the container. `host_path` None is a volume that dies with the attempt.

    With a `volume` the containers of a task that name the same one share it; without, it is the container's own.
    """

    container_path: str
    host_path: str | None
    read_only: bool = False
    volume: str | None = None


class Secret(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An environment variable whose value is looked up when the container starts, and never stored."""

    name: str
    value_from: str


class Logging(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where the output goes. Driver None is batchq's own capture, as AWS's awslogs is by default.

    `secret_options` are options of the driver whose values are looked up when the container is made.
    """

    driver: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    secret_options: tuple[Secret, ...] = ()

    @property
    def captured(self) -> bool:
        """Whether batchq reads the output; that of any other driver is read where the driver sends it."""
        return self.driver in {None, "awslogs", "json-file"}


class ContainerSpec(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One container. An empty command is the image's own; `platform` is Docker's os/arch or None for the host's."""

    image: str
    resources: Resources
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    user: str | None = None
    privileged: bool = False
    read_only_root: bool = False
    init: bool = False
    ulimits: tuple[Ulimit, ...] = ()
    devices: tuple[Device, ...] = ()
    tmpfs: tuple[Tmpfs, ...] = ()
    shared_memory_mib: int | None = None
    max_swap_mib: int | None = None
    swappiness: int | None = None
    mounts: tuple[Mount, ...] = ()
    logging: Logging = Logging()
    secrets: tuple[Secret, ...] = ()
    platform: str | None = None


class Overrides(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What SubmitJob may change of a definition's container. None leaves the definition's value."""

    command: tuple[str, ...] | None = None
    environment: tuple[tuple[str, str], ...] = ()
    millicpus: int | None = None
    memory_mib: int | None = None
    gpus: int | None = None


def length(overrides: Overrides) -> int:
    """The characters of what a caller has overridden, as JSON, without what AWS adds of its own to it.

    It is asked of every job, so that JSON is not made.
    """
    command, environment = overrides.command or (), overrides.environment
    texts = (*command, *chain.from_iterable(environment))
    commas = max(0, len(command) - 1) + max(0, len(environment) - 1)
    return len(_AROUND) + len(_VARIABLE) * len(environment) + commas + sum(map(len, map(spelt, texts)))


def effective(spec: ContainerSpec, overrides: Overrides, parameters: tuple[tuple[str, str], ...]) -> ContainerSpec:
    """The container a job really gets: overrides laid over the definition, then `Ref::name` filled in."""
    command = spec.command if overrides.command is None else overrides.command
    return replace(
        spec,
        command=substitute(command, dict(parameters)),
        environment=merge(spec.environment, overrides.environment),
        resources=reserved(spec.resources, overrides),
    )


def reserved(below: Resources, overrides: Overrides) -> Resources:
    """What the container of a job reserves."""
    return Resources(
        millicpus=below.millicpus if overrides.millicpus is None else overrides.millicpus,
        memory_mib=below.memory_mib if overrides.memory_mib is None else overrides.memory_mib,
        gpus=below.gpus if overrides.gpus is None else overrides.gpus,
    )


def substitute(command: tuple[str, ...], parameters: Mapping[str, str]) -> tuple[str, ...]:
    """Replaces `Ref::name` anywhere in a word by the longest parameter name that follows; any other stays literal.

    Values are not searched again. AWS limits no result; batchq raises Invalid beyond MAX_COMMAND_LENGTH.
    """
    if not any(_REF in word for word in command):
        return command
    lengths = sorted({len(name) for name in parameters if name}, reverse=True)
    words = [_pieces(word, parameters, lengths) for word in command]
    if sum(len(piece) for pieces in words for piece in pieces) > MAX_COMMAND_LENGTH:
        raise Invalid(f"The command must be at most {MAX_COMMAND_LENGTH} characters, with its parameters replaced.")
    return tuple("".join(pieces) for pieces in words)


def _pieces(word: str, parameters: Mapping[str, str], lengths: Sequence[int]) -> list[str]:
    """The literal texts and values of a word, in order. `lengths` are those of the names, descending."""
    first, *others = word.split(_REF)
    pieces = [first]
    for text in others:
        name = next((text[:length] for length in lengths if text[:length] in parameters), "")
        pieces += (parameters[name] if name else _REF, text.removeprefix(name))
    return pieces


def merge(below: tuple[tuple[str, str], ...], above: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Names of both, each once, the upper value winning; order of first mention."""
    return tuple((dict(below) | dict(above)).items())
