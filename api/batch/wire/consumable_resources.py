"""Shapes of consumable resources, and of the list of jobs that require one."""

from typing import Annotated

from pydantic import Field

from batchq.api.batch.wire.shape import Long, Page, Tags, Text, WireModel


class Filter(WireModel):
    name: Text | None = None
    values: list[Text] | None = None


class CreateConsumableResource(WireModel):
    consumableResourceName: Text
    totalQuantity: Long | None = None
    resourceType: Text | None = None
    tags: Tags | None = None


class UpdateConsumableResource(WireModel):
    consumableResource: Text
    operation: Text | None = None
    quantity: Long | None = None
    clientToken: Annotated[Text, Field(min_length=1, max_length=64)] | None = None


class DeleteConsumableResource(WireModel):
    consumableResource: Text


class DescribeConsumableResource(WireModel):
    consumableResource: Text


class ListConsumableResources(WireModel):
    filters: list[Filter] | None = None
    maxResults: Page | None = None
    nextToken: Text | None = None


class ListJobsByConsumableResource(WireModel):
    consumableResource: Text
    filters: list[Filter] | None = None
    maxResults: Page | None = None
    nextToken: Text | None = None
