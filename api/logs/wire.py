"""Shapes of CloudWatch Logs' requests. Members are spelt as AWS spells them; None: the member is omitted."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class LogsWireModel(BaseModel):
    """Strict: a string is not converted to a number. Unknown members are ignored; the last of equal members counts."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


GroupName = Annotated[str, Field(min_length=1, max_length=512)]
GroupIdentifier = Annotated[str, Field(min_length=1, max_length=2048)]
StreamName = Annotated[str, Field(min_length=1, max_length=512)]
Milliseconds = Annotated[int, Field(ge=0, le=2**63 - 1)]
Token = Annotated[str, Field(min_length=1, max_length=2048)]
Events = Annotated[int, Field(ge=1, le=10_000)]
Described = Annotated[int, Field(ge=1, le=50)]


class OfGroup(LogsWireModel):
    """A request about one log group. AWS: exactly one of the two members, the latter a name or an ARN, is required."""

    logGroupName: GroupName | None = None
    logGroupIdentifier: GroupIdentifier | None = None


class GetLogEvents(OfGroup):
    logStreamName: StreamName
    startTime: Milliseconds | None = None
    endTime: Milliseconds | None = None
    nextToken: Token | None = None
    limit: Events | None = None
    startFromHead: bool | None = None
    unmask: bool | None = None


class FilterLogEvents(OfGroup):
    logStreamNames: Annotated[list[StreamName], Field(min_length=1, max_length=100)] | None = None
    logStreamNamePrefix: StreamName | None = None
    startTime: Milliseconds | None = None
    endTime: Milliseconds | None = None
    filterPattern: Annotated[str, Field(max_length=1024)] | None = None
    nextToken: Token | None = None
    limit: Events | None = None
    startFromHead: bool | None = None
    interleaved: bool | None = None
    unmask: bool | None = None


class DescribeLogStreams(OfGroup):
    logStreamNamePrefix: StreamName | None = None
    orderBy: Literal["LogStreamName", "LastEventTime"] | None = None
    descending: bool | None = None
    nextToken: Token | None = None
    limit: Described | None = None


class DescribeLogGroups(LogsWireModel):
    accountIdentifiers: list[str] | None = None
    logGroupNamePrefix: GroupName | None = None
    logGroupNamePattern: Annotated[str, Field(max_length=512)] | None = None
    nextToken: Token | None = None
    limit: Described | None = None
    includeLinkedAccounts: bool | None = None
    logGroupClass: Literal["STANDARD", "INFREQUENT_ACCESS", "DELIVERY", "ESSENTIALS"] | None = None
    logGroupIdentifiers: Annotated[list[GroupIdentifier], Field(min_length=1, max_length=50)] | None = None
