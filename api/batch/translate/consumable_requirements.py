"""consumableResourceProperties: requests to the domain's values, and values to responses."""

from collections.abc import Iterable, Sequence

from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.translate import validation
from batchq.api.batch.wire.consumable_requirements import ConsumableResourceProperties, ConsumableResourceRequirement
from batchq.domain.ids import ConsumableName
from batchq.domain.job import Need
from batchq.domain.task import Nodes
from batchq.errors import Invalid, NotFound

Needs = tuple[Need, ...]

MOST = 2**63 - 1  # the largest quantity that clients can read


def needs(given: ConsumableResourceProperties | None, arns: BatchArns) -> Needs:
    made = tuple(_need(it, arns) for it in (given and given.consumableResourceList) or ())
    validation.once((it.resource for it in made), "A consumable resource")
    return made


def of_gang(own: Needs, ranges: Sequence[ConsumableResourceProperties | None], gang: Nodes, arns: BatchArns) -> Needs:
    """The total that a gang requires: its own, and for each node that of its range. `ranges` are in the gang's order.

    Raises Invalid for a total above MOST.
    """
    each = [needs(it, arns) for it in ranges]
    places = {(it.first, it.last): place for place, it in enumerate(gang.ranges)}
    held = (gang.range_of(node) for node in range(gang.count))
    needed = _sum([own, *(each[places[it.first, it.last]] for it in held)])
    if any(it.quantity > MOST for it in needed):
        raise Invalid(f"All nodes together must not need more than {MOST} of a consumable resource.")
    return needed


def _sum(listed: Iterable[Needs]) -> Needs:
    amounts: dict[ConsumableName, int] = {}
    for it in listed:
        for need in it:
            amounts[need.resource] = amounts.get(need.resource, 0) + need.quantity
    return tuple(Need(resource=name, quantity=quantity) for name, quantity in amounts.items())


def _need(given: ConsumableResourceRequirement, arns: BatchArns) -> Need:
    text = validation.required(given.consumableResource or "", "consumableResource")
    name = arns.named(ArnKind.CONSUMABLE, text)
    if name is None:
        raise NotFound(f"ConsumableResource {text} not found.")
    if given.quantity is None or given.quantity < 1:
        raise Invalid("The quantity of a consumable resource must be at least 1.")
    return Need(resource=ConsumableName(name), quantity=given.quantity)


def shown(listed: Needs, arns: BatchArns) -> dict[str, object]:
    return {
        "consumableResourceList": [
            {"consumableResource": arns.consumable(it.resource), "quantity": it.quantity} for it in listed
        ]
    }
