"""Resource vectors: vCPUs of an environment or account, the host's memory and GPUs, consumable resources. Pure.

A dimension's name is the text that status reasons show to users.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NewType

from msgspec import Struct

from batchq.domain.access.accounts import AccountName
from batchq.domain.catalog import ConsumableResource, EnvironmentName, ResourceKind
from batchq.domain.container import Resources
from batchq.domain.ids import ConsumableName
from batchq.domain.job import ConsumableRequirement, Job

Dimension = NewType("Dimension", str)
#: Thousandths of a vCPU, MiB of memory, GPUs, or units, by dimension.
Amounts = Mapping[Dimension, int]

MEMORY, GPUS = Dimension("memory"), Dimension("GPUs")


def vcpus(environment: EnvironmentName) -> Dimension:
    """The vCPUs of a compute environment, in thousandths."""
    return Dimension(f"vCPUs of compute environment {environment}")


def vcpus_of(account: AccountName) -> Dimension:
    """The vCPUs that an account and all accounts below it may use over all environments."""
    return Dimension(f"vCPUs of account {account}")


def units(resource: ConsumableName) -> Dimension:
    """The units of a consumable resource."""
    return Dimension(f"consumable resource {resource}")


def demand(
    resources: Resources, needs: Iterable[ConsumableRequirement], environment: EnvironmentName
) -> dict[Dimension, int]:
    """What a job uses in each dimension on this environment, without dimensions that it does not use."""
    wanted = {vcpus(environment): resources.millicpus, MEMORY: resources.memory_mib, GPUS: resources.gpus}
    for need in needs:
        of = units(need.resource)
        wanted[of] = wanted.get(of, 0) + need.quantity
    return {of: amount for of, amount in wanted.items() if amount > 0}


def within(wanted: Amounts, there: Amounts) -> bool:
    """Whether `there` has enough in each dimension of `wanted`; a dimension that `there` lacks counts as 0."""
    return not [of for of, amount in wanted.items() if amount > there.get(of, 0)]


def lacking(wanted: Amounts, there: Amounts) -> tuple[Dimension, ...]:
    """The dimensions in which `there` has less than `wanted`."""
    return tuple([of for of, amount in wanted.items() if amount > there.get(of, 0)])


class Stock(Struct, frozen=True, kw_only=True):
    """The units of a consumable resource that jobs may hold."""

    #: Units, without those that were used up.
    amount: int
    #: Whether a job returns its units when it ends.
    returns: bool


class Stocks(Mapping[ConsumableName, Stock]):
    """The stock of each consumable resource, computed on access: of thousands of resources, jobs need few.

    `used_up`: the units of NON_REPLENISHABLE resources that jobs have used.
    """

    def __init__(
        self, resources: Mapping[ConsumableName, ConsumableResource], used_up: Mapping[ConsumableName, int]
    ) -> None:
        self._resources = resources
        self._used_up = used_up

    def __getitem__(self, name: ConsumableName) -> Stock:
        return _stock(self._resources[name], self._used_up.get(name, 0))

    def __iter__(self) -> Iterator[ConsumableName]:
        return iter(self._resources)

    def __len__(self) -> int:
        return len(self._resources)


def _stock(resource: ConsumableResource, used_up: int) -> Stock:
    """Never negative: a total may be set below what is used up already."""
    if resource.kind is ResourceKind.REPLENISHABLE:
        return Stock(amount=resource.total, returns=True)
    return Stock(amount=max(0, resource.total - used_up), returns=False)


def taken(before: Job | None, after: Job) -> tuple[ConsumableRequirement, ...]:
    """The units that this change of a job takes: all its needs if a new attempt begins, else none."""
    if after.attempt is None or not after.spec.needs:
        return ()
    under_way = None if before is None or before.attempt is None else before.attempt.number
    return after.spec.needs if after.attempt.number != under_way else ()
