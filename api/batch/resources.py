"""vCPUs, memory and GPUs of a container: `resourceRequirements`, and the older members `vcpus` and `memory`."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal, Protocol

from msgspec import Struct
from pydantic import Field

from batchq.api.batch.validation import Text, WireModel
from batchq.domain.container import Resources
from batchq.errors import Invalid

_VCPU = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,3}))?")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,9}")
_MAX = 2**31 - 1
OLDER_MEMBERS = (("vcpus", "VCPU", "millicpus"), ("memory", "MEMORY", "memory_mib"))
"""AWS's older members, with the type of resourceRequirements and the attribute that each of them sets."""


class ResourceRequirement(WireModel):
    """AWS: the value is a string. A number is accepted: job definitions written by hand often have one for GPUs."""

    type: Literal["GPU", "VCPU", "MEMORY"]
    value: Annotated[Text, Field(strict=False, coerce_numbers_to_str=True)]


class ResourceMembers(Protocol):
    """The members of a container, or of its overrides, that request resources."""

    @property
    def vcpus(self) -> int | None: ...

    @property
    def memory(self) -> int | None: ...

    @property
    def resourceRequirements(self) -> list[ResourceRequirement] | None: ...  # noqa: N802 - as AWS spells it


class RequestedResources(Struct, frozen=True, kw_only=True):
    """The resources that one request specifies; None: not specified."""

    #: Thousandths of a vCPU.
    millicpus: int | None
    #: MiB.
    memory_mib: int | None
    gpus: int | None


def requested_resources(given: ResourceMembers) -> RequestedResources:
    """AWS: an entry of resourceRequirements takes precedence over the older member."""
    named = _by_type(given.resourceRequirements or [])
    vcpus = None if given.vcpus is None else str(given.vcpus)
    memory = None if given.memory is None else str(given.memory)
    return RequestedResources(
        millicpus=_millicpus(named.get("VCPU", vcpus)),
        memory_mib=_whole(named.get("MEMORY", memory), "MEMORY"),
        gpus=_whole(named.get("GPU"), "GPU"),
    )


def to_resources(given: ResourceMembers) -> Resources:
    """The resources of a container in a job definition. Raises Invalid without vCPUs or memory."""
    wanted = requested_resources(given)
    if wanted.millicpus is None:
        raise Invalid("vCPU is not provided.")
    if wanted.memory_mib is None:
        raise Invalid("Memory is not provided.")
    return Resources(millicpus=wanted.millicpus, memory_mib=wanted.memory_mib, gpus=wanted.gpus or 0)


def older_members(given: ResourceMembers | None) -> tuple[str, ...]:
    """The attributes that older members set, and not an entry of resourceRequirements."""
    if given is None:
        return ()
    named = {entry.type for entry in given.resourceRequirements or ()}
    return tuple(
        attribute
        for member, kind, attribute in OLDER_MEMBERS
        if kind not in named and getattr(given, member, None) is not None
    )


def _by_type(entries: Sequence[ResourceRequirement]) -> dict[str, str]:
    named: dict[str, str] = {entry.type: entry.value for entry in entries}
    if len(named) != len(entries):
        raise Invalid("A type of resourceRequirements must not be named more than once.")
    return named


def _millicpus(text: str | None) -> int | None:
    if text is None:
        return None
    number = _VCPU.fullmatch(text)
    if number is None or not (thousandths := int(number[1]) * 1000 + int((number[2] or "").ljust(3, "0"))):
        raise Invalid("VCPU must be a positive number with at most three decimal places.")
    return thousandths


def _whole(text: str | None, what: str) -> int | None:
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or int(text) > _MAX:
        raise Invalid(f"{what} must be a whole number from 0 to {_MAX}.")
    return int(text)
