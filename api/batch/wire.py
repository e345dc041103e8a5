"""The base of all shapes, and shared types. Members are spelt as AWS spells them; None: the member is omitted."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class WireModel(BaseModel):
    """Strict: a string is not converted to a number. AWS: ignores unknown members; the last duplicate counts."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""A string without NUL, which neither the container engine nor clients written in C can handle."""

StateName = Literal["ENABLED", "DISABLED"]
Integer = Annotated[int, Field(ge=-(2**31), le=2**31 - 1)]
Long = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]

TagKey = Annotated[Text, Field(min_length=1, max_length=128)]
TagValue = Annotated[Text, Field(max_length=256)]
Tags = Annotated[dict[TagKey, TagValue], Field(max_length=50)]

Unsupported = dict[str, object]
"""A member that this server does not support: refused unless it is empty, so its members are not validated."""

OmittedIfEmpty = BeforeValidator(lambda given: None if given == {} else given)
"""For a structure with required members that clients send as `{}` instead of omitting it."""

PageSize = Annotated[int, Field(ge=1, le=100)]
NameList = Annotated[list[Text], Field(max_length=100)]
