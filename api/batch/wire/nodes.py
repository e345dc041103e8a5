"""Shapes of multi-node jobs: nodeProperties, and SubmitJob's overrides of them."""

from typing import Annotated

from batchq.api.batch.wire.consumable_requirements import ConsumableResourceProperties
from batchq.api.batch.wire.containers import ContainerOverrides, ContainerProperties
from batchq.api.batch.wire.shape import Integer, LeftOutIfEmpty, Text, Unserved, WireModel
from batchq.api.batch.wire.tasks import EcsProperties, EcsPropertiesOverride


class NodeRangeProperty(WireModel):
    targetNodes: Text
    container: Annotated[ContainerProperties | None, LeftOutIfEmpty] = None
    instanceTypes: list[Text] | None = None
    ecsProperties: Annotated[EcsProperties | None, LeftOutIfEmpty] = None
    eksProperties: Unserved | None = None
    consumableResourceProperties: ConsumableResourceProperties | None = None


class NodeProperties(WireModel):
    numNodes: Integer
    mainNode: Integer
    nodeRangeProperties: list[NodeRangeProperty]


class NodePropertyOverride(WireModel):
    targetNodes: Text
    containerOverrides: ContainerOverrides | None = None
    ecsPropertiesOverride: EcsPropertiesOverride | None = None
    instanceTypes: list[Text] | None = None
    eksPropertiesOverride: Unserved | None = None
    consumableResourcePropertiesOverride: ConsumableResourceProperties | None = None


class NodeOverrides(WireModel):
    numNodes: Integer | None = None
    nodePropertyOverrides: list[NodePropertyOverride] | None = None
