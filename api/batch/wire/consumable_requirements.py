"""Consumable resources, as jobs and nodes name those they need."""

from batchq.api.batch.wire.shape import Long, Text, WireModel


class ConsumableResourceRequirement(WireModel):
    consumableResource: Text | None = None
    quantity: Long | None = None


class ConsumableResourceProperties(WireModel):
    consumableResourceList: list[ConsumableResourceRequirement] | None = None
