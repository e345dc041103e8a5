"""Shapes of the consumable resources that jobs and nodes require."""

from batchq.api.batch.wire.shape import Long, Text, WireModel


class ConsumableResourceRequirement(WireModel):
    consumableResource: Text | None = None
    quantity: Long | None = None


class ConsumableResourceProperties(WireModel):
    consumableResourceList: list[ConsumableResourceRequirement] | None = None
