"""What all of AWS Batch's shapes have in common. Members are spelt as AWS spells them; None is a member left out."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class WireModel(BaseModel):
    """Strict: no number is taken from a text. AWS: unknown members are ignored, and of two alike the last counts."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""Any text but one with a NUL, which neither the engine nor a client written in C can take."""

Integer = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]

TagKey = Annotated[Text, Field(min_length=1, max_length=128)]
TagValue = Annotated[Text, Field(max_length=256)]
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=50)]

Unserved = dict[str, object]
"""A member this server has no use for: it is refused unless it is empty, so its inside is not looked at."""

LeftOutIfEmpty = BeforeValidator(lambda given: None if given == {} else given)
"""Of a structure with required members that clients send empty where they mean none."""

Page = Annotated[int, Field(ge=1, le=100)]
Named = Annotated[list[Text], Field(max_length=100)]
