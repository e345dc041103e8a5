"""Instance types as resources of a node.

Known are the usual families in their sizes, and `batchq.cpu.4u8g` for any other number of vCPUs and GiB, decimals
included. The type is a size only: no other property of an instance is reproduced.
"""

import re
from collections.abc import Mapping

from batchq.domain.container import Resources

_GIB = 1024  # MiB
_MIN_MEMORY = 4  # MiB: less than this no engine accepts
_SIZES: Mapping[str, int] = {
    "large": 2,
    "xlarge": 4,
    **{f"{it}xlarge": 4 * it for it in (2, 3, 4, 6, 8, 9, 10, 12, 16, 18, 24, 32, 48)},
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


def resources_of(instance_type: str) -> Resources | None:
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
