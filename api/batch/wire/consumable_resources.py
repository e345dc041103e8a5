"""Consumable resources, and the jobs that need them."""

from typing import Annotated

from pydantic import Field

from batchq.api.batch.wire.shape import Long, Page, Shape, Tags, Text


class Filter(Shape):
    name: Text | None = None
    values: list[Text] | None = None


class CreateConsumableResource(Shape):
    consumableResourceName: Text
    totalQuantity: Long | None = None
    resourceType: Text | None = None
    tags: Tags | None = None


class UpdateConsumableResource(Shape):
    consumableResource: Text
    operation: Text | None = None
    quantity: Long | None = None
    clientToken: Annotated[Text, Field(min_length=1, max_length=64)] | None = None


class DeleteConsumableResource(Shape):
    consumableResource: Text


class DescribeConsumableResource(Shape):
    consumableResource: Text


class ListConsumableResources(Shape):
    filters: list[Filter] | None = None
    maxResults: Page | None = None
    nextToken: Text | None = None


class ListJobsByConsumableResource(Shape):
    consumableResource: Text
    filters: list[Filter] | None = None
    maxResults: Page | None = None
    nextToken: Text | None = None
