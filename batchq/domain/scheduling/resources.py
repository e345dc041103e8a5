"""How much a job takes, and of what: of an environment's vCPUs, the host's memory and GPUs, consumable resources.

A dimension is named as a user reads it in a status reason.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NewType

from msgspec import Struct

from batchq.domain.access.accounts import AccountName
from batchq.domain.catalog import ConsumableResource, EnvironmentName, ResourceKind
from batchq.domain.container import Resources
from batchq.domain.ids import ConsumableName
from batchq.domain.job import Job, Need

Dimension = NewType("Dimension", str)
Amounts = Mapping[Dimension, int]

MEMORY, GPUS = Dimension("memory"), Dimension("GPUs")


def vcpus(environment: EnvironmentName) -> Dimension:
    return Dimension(f"vCPUs of compute environment {environment}")


def vcpus_of(account: AccountName) -> Dimension:
    """What an account and all below it may have in use, whatever the environment."""
    return Dimension(f"vCPUs of account {account}")


def units(resource: ConsumableName) -> Dimension:
    return Dimension(f"consumable resource {resource}")


def demand(resources: Resources, needs: Iterable[Need], environment: EnvironmentName) -> dict[Dimension, int]:
    """What a job takes of each dimension on this environment, without those of which it takes nothing."""
    wanted = {vcpus(environment): resources.millicpus, MEMORY: resources.memory_mib, GPUS: resources.gpus}
    for need in needs:
        of = units(need.resource)
        wanted[of] = wanted.get(of, 0) + need.quantity
    return {of: amount for of, amount in wanted.items() if amount > 0}


def within(wanted: Amounts, there: Amounts) -> bool:
    """Whether there is enough of each dimension that is used; of one that nobody knows there is nothing."""
    return not [of for of, amount in wanted.items() if amount > there.get(of, 0)]


def lacking(wanted: Amounts, there: Amounts) -> tuple[Dimension, ...]:
    return tuple([of for of, amount in wanted.items() if amount > there.get(of, 0)])


class Stock(Struct, frozen=True, kw_only=True):
    """What jobs may share of a consumable resource: what is not used up. `returns`: what a job took comes back."""

    amount: int
    returns: bool


class Stocks(Mapping[ConsumableName, Stock]):
    """Made as they are asked for: there may be thousands of resources, and few that anybody needs."""

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
    """What was set lower than what is used up already leaves nothing."""
    if resource.kind is ResourceKind.REPLENISHABLE:
        return Stock(amount=resource.total, returns=True)
    return Stock(amount=max(0, resource.total - used_up), returns=False)


def taken(before: Job | None, after: Job) -> tuple[Need, ...]:
    """What a job takes by this change: all that it needs, with each attempt that begins."""
    if after.attempt is None or not after.spec.needs:
        return ()
    under_way = None if before is None or before.attempt is None else before.attempt.number
    return after.spec.needs if after.attempt.number != under_way else ()
