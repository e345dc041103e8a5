"""Shapes of tags. The ARN of the resource is in the path."""

from typing import Annotated

from pydantic import Field

from batchq.api.batch.wire.shape import TagKey, Tags, WireModel


class TagResource(WireModel):
    tags: Annotated[Tags, Field(min_length=1)]


class UntagResource(WireModel):
    tagKeys: Annotated[list[TagKey], Field(min_length=1, max_length=50)]
