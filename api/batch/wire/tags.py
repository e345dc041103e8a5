"""Tags of any resource; its ARN is in the path."""

from typing import Annotated

from pydantic import Field

from batchq.api.batch.wire.shape import Shape, TagKey, Tags


class TagResource(Shape):
    tags: Annotated[Tags, Field(min_length=1)]


class UntagResource(Shape):
    tagKeys: Annotated[list[TagKey], Field(min_length=1, max_length=50)]
