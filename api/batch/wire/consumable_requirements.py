"""Consumable resources, as jobs and nodes name those they need."""

from batchq.api.batch.wire.shape import Long, Shape, Text


class ConsumableResourceRequirement(Shape):
    consumableResource: Text | None = None
    quantity: Long | None = None


class ConsumableResourceProperties(Shape):
    consumableResourceList: list[ConsumableResourceRequirement] | None = None
