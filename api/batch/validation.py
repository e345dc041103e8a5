"""Types of shapes, and validation that several requests share, with AWS's error texts where they are known.

Members of shapes are spelt as AWS spells them; None: the member is omitted.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from batchq.domain import catalog
from batchq.domain.enums import Status
from batchq.errors import Invalid, NotSupported


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
RESERVED_PREFIX = "io.batchq."
"""The prefix of the labels of this server's containers. No name or key from a caller may begin with it."""

MAX_REASON = 1024  # characters
MAX_FILTER_VALUES = 100
# The reasons why features of AWS Batch that need other services of AWS are refused.
HERE = "this server runs containers on a Docker engine"
KUBERNETES = "it is for Kubernetes (Amazon EKS)"
QUOTA_SHARES = "quota shares divide the capacity that SageMaker Training jobs run on"
SERVICE_ENVIRONMENTS = "service environments are the capacity that SageMaker Training jobs run on"
SERVICE_JOBS = "service jobs are jobs of SageMaker Training"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


class KeyValuesPair(WireModel):
    """A filter of a list."""

    name: Text | None = None
    values: list[Text] | None = None


def name(text: str, what: str) -> str:
    """Return a valid name. Raises Invalid; `what` is the request's member, for the error text."""
    if not _NAME.fullmatch(text):
        raise Invalid(f"{what} must be 1 to 128 letters, digits, hyphens and underscores.")
    return text


def required(text: str, what: str) -> str:
    if not text:
        raise Invalid(f"'{what}' is a required field (cannot be an empty string)")
    return text


def stop_reason_text(text: str) -> str:
    if len(required(text, "reason")) > MAX_REASON:
        raise Invalid(f"'reason' must be at most {MAX_REASON} characters.")
    return text


def validated_tags(given: Mapping[str, str] | None) -> catalog.Tags:
    taken = tuple((given or {}).items())
    if any(key.startswith(RESERVED_PREFIX) for key, _ in taken):
        raise Invalid(f"The key of a tag must not begin with '{RESERVED_PREFIX}'.")
    return taken


def filter_name(given: KeyValuesPair, known: Sequence[str]) -> str:
    if given.name is None or given.name not in known:
        raise Invalid(f"The name of a filter must be one of {', '.join(known)}.")
    return given.name


def filter_values(given: KeyValuesPair) -> Sequence[str]:
    if not given.values:
        raise Invalid(f"The filter {given.name} must have a value.")
    if len(given.values) > MAX_FILTER_VALUES:
        raise Invalid(f"The filter {given.name} must have at most {MAX_FILTER_VALUES} values.")
    return given.values


def job_status(text: str) -> Status:
    if text not in set(Status):
        raise Invalid(f"Job status is not one of {' | '.join(Status)}")
    return Status(text)


def path(text: str, what: str) -> str:
    """Return an absolute path. Raises Invalid also for a colon: the container engine separates two paths by it."""
    if not text.startswith("/") or ":" in text:
        raise Invalid(f"{what} must be an absolute path without colons.")
    return text


def refuse_unsupported(members: Mapping[str, object], why: str = "") -> None:
    """Raise NotSupported, with the reason if there is one, for a member that is not empty."""
    for member, value in members.items():
        if value:
            raise unsupported_error(member, why)


def refuse_file_systems(**members: object) -> None:
    """Raise NotSupported for a member that is not None, and names a file system which this server does not mount."""
    for member in [member for member, value in members.items() if value is not None]:
        raise NotSupported(
            f"{member} is not supported by this server: it mounts no file systems over the network. Mount the file "
            "system on the machine, or on each node of the cluster, and use a volume with that path of the host."
        )


def unsupported_error(what: str, why: str) -> NotSupported:
    reason = f": {why}, and {HERE}" if why else ""
    return NotSupported(f"{what} is not supported by this server{reason}.")
