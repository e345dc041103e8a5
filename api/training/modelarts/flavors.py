"""Flavors: named sizes of a node, and the flavor that a request selects.

`batchq.cpu.4u8g` has 4 vCPUs and 8 GiB, `batchq.gpu.2` two GPUs with VCPUS_PER_GPU and GIB_PER_GPU for each. Every such
name that fits the machine is a flavor; the list has the usual ones.
"""

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import asdict

from batchq.api.training.modelarts.wire import (
    FLAVOR_NOT_FOUND,
    INVALID_FLAVOR,
    CustomizedFlavor,
    ModelArtsRefusal,
    TrainingResource,
)
from batchq.domain.container import Resources

VCPUS_PER_GPU, GIB_PER_GPU = 4, 16  # of a GPU flavor
MAX_SIZE = 128  # vCPUs or GPUs of the largest listed flavor
_VCPU, _GIB = 1000, 1024  # thousandths of a vCPU; MiB
_CPU_FLAVOR = re.compile(r"batchq\.cpu\.([1-9][0-9]{0,3})u([1-9][0-9]{0,5})g")
_GPU_FLAVOR = re.compile(r"batchq\.gpu\.([1-9][0-9]{0,2})")


class BillingInfo(Struct, frozen=True, kw_only=True):
    """The vendor's unit of billing."""

    #: The id of the flavor.
    code: str
    unit_num: int


class FlavorCpu(Struct, frozen=True, kw_only=True):
    """The CPUs of a flavor."""

    arch: str
    #: A fraction for less than a vCPU.
    core_num: int | float


class FlavorGpu(Struct, frozen=True, kw_only=True):
    """The GPUs of a flavor."""

    unit_num: int
    product_name: str


class FlavorMemory(Struct, frozen=True, kw_only=True):
    """The memory of a flavor."""

    size: int
    #: `GB`, or `MB` where the size is not a whole number of GiB.
    unit: str


class FlavorInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The size of a flavor."""

    #: The most nodes that fit the machine at the same time.
    max_num: int
    cpu: FlavorCpu
    gpu: FlavorGpu | None = None
    memory: FlavorMemory


class FlavorDetail(Struct, frozen=True, kw_only=True):
    """The flavor of a job."""

    #: `CPU` or `GPU`.
    flavor_type: str
    billing: BillingInfo
    flavor_info: FlavorInfo


class TrainingFlavor(Struct, frozen=True, kw_only=True):
    """A flavor in the list."""

    flavor_id: str
    flavor_name: str
    #: `CPU` or `GPU`.
    flavor_type: str
    #: The most nodes that fit the machine at the same time.
    max_num: int
    billing: BillingInfo
    flavor_info: FlavorInfo


class TrainingFlavorsResponse(Struct, frozen=True, kw_only=True):
    """The flavors of the machine."""

    total_count: int
    flavors: tuple[TrainingFlavor, ...]


def selected(resource: TrainingResource, capacity: Resources) -> Resources:
    """The size of a node that a request selects. Raises ModelArtsRefusal for an unknown flavor, or without any."""
    custom = resource.main_container_customized_flavor
    if custom is not None:
        return _customized(custom)
    if not resource.flavor_id:
        raise ModelArtsRefusal(INVALID_FLAVOR, solution="Set spec.resource.flavor_id.")
    size = _size_of(resource.flavor_id)
    if size is None or not nodes_that_fit(size, capacity):
        raise ModelArtsRefusal(FLAVOR_NOT_FOUND, resource.flavor_id, solution="List the flavors of the server.")
    return size


def flavor_id(size: Resources) -> str:
    """The id of the flavor of this size: one that a request may have, if the size has a name."""
    whole = size.memory_mib % _GIB == 0
    amounts = f"{size.millicpus / 1000:g}u{f'{size.memory_mib // _GIB}g' if whole else f'{size.memory_mib}m'}"
    if not size.gpus:
        return f"batchq.cpu.{amounts}"
    return f"batchq.gpu.{size.gpus}" + ("" if size == _gpu_size(size.gpus) else f".{amounts}")


def flavor_name(size: Resources) -> str:
    """As `4 vCPUs, 8 GiB`."""
    memory = f"{size.memory_mib} MiB" if size.memory_mib % _GIB else f"{size.memory_mib // _GIB} GiB"
    gpus = [f"{size.gpus} {'GPU' if size.gpus == 1 else 'GPUs'}"] if size.gpus else []
    vcpus = f"{size.millicpus / 1000:g} {'vCPU' if size.millicpus == _VCPU else 'vCPUs'}"
    return ", ".join([*gpus, vcpus, memory])


def flavor_detail(size: Resources, *, max_num: int) -> FlavorDetail:
    """The description of the flavor of this size. `max_num`: the most nodes that fit the machine."""
    whole, vcpus = size.memory_mib % _GIB == 0, size.millicpus / 1000
    memory = FlavorMemory(size=size.memory_mib // _GIB if whole else size.memory_mib, unit="GB" if whole else "MB")
    info = FlavorInfo(
        max_num=max_num,
        cpu=FlavorCpu(arch="x86", core_num=int(vcpus) if vcpus.is_integer() else vcpus),
        gpu=FlavorGpu(unit_num=size.gpus, product_name="GPU") if size.gpus else None,
        memory=memory,
    )
    kind = "GPU" if size.gpus else "CPU"
    return FlavorDetail(flavor_type=kind, billing=BillingInfo(code=flavor_id(size), unit_num=1), flavor_info=info)


def training_flavors(flavor_type: str | None, capacity: Resources) -> TrainingFlavorsResponse:
    """The usual flavors that fit the machine. `flavor_type`: `CPU`, `GPU` or `Ascend`; None: all."""
    listed = (_listed(resources, nodes_that_fit(resources, capacity)) for resources in _usual_sizes())
    found = tuple(flavor for flavor in listed if flavor.max_num and flavor_type in {None, flavor.flavor_type})
    return TrainingFlavorsResponse(total_count=len(found), flavors=found)


def _listed(size: Resources, max_num: int) -> TrainingFlavor:
    detail = asdict(flavor_detail(size, max_num=max_num))
    return TrainingFlavor(flavor_id=flavor_id(size), flavor_name=flavor_name(size), max_num=max_num, **detail)


def _usual_sizes() -> Iterator[Resources]:
    """Powers of two of vCPUs with 2 and 4 GiB each, and of GPUs."""
    amounts = [2**exponent for exponent in range(MAX_SIZE.bit_length())]
    yield from (
        Resources(millicpus=1000 * amount, memory_mib=amount * gib * _GIB) for amount in amounts for gib in (2, 4)
    )
    yield from map(_gpu_size, amounts)


def _size_of(flavor_id: str) -> Resources | None:
    if cpu := _CPU_FLAVOR.fullmatch(flavor_id):
        return Resources(millicpus=1000 * int(cpu[1]), memory_mib=int(cpu[2]) * _GIB)
    gpu = _GPU_FLAVOR.fullmatch(flavor_id)
    return _gpu_size(int(gpu[1])) if gpu else None


def _gpu_size(gpus: int) -> Resources:
    return Resources(millicpus=1000 * VCPUS_PER_GPU * gpus, memory_mib=GIB_PER_GPU * _GIB * gpus, gpus=gpus)


def _customized(given: CustomizedFlavor) -> Resources:
    return Resources(
        millicpus=max(1, round(given.cpu_core_num * 1000)),
        memory_mib=max(4, round(given.mem_size * _GIB)),
        gpus=int(given.accelerator_num or 0),
    )


def nodes_that_fit(size: Resources, capacity: Resources) -> int:
    """The number of nodes of this size that the machine can have at the same time."""
    counts = [capacity.millicpus // size.millicpus, capacity.memory_mib // size.memory_mib]
    return min(counts + ([capacity.gpus // size.gpus] if size.gpus else []))
