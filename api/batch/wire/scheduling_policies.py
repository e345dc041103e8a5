"""Scheduling policies."""

from typing import Annotated, Literal

from pydantic import Field

from batchq.api.batch.wire.shape import Integer, Named, Page, Shape, Tags, Text


class ShareAttributes(Shape):
    shareIdentifier: Text
    weightFactor: Annotated[float, Field(allow_inf_nan=False)] | None = None


class FairsharePolicy(Shape):
    shareDecaySeconds: Integer | None = None
    computeReservation: Integer | None = None
    shareDistribution: list[ShareAttributes] | None = None


class QuotaSharePolicy(Shape):
    idleResourceAssignmentStrategy: Literal["FIFO"]


class CreateSchedulingPolicy(Shape):
    name: Text
    quotaSharePolicy: QuotaSharePolicy | None = None
    fairsharePolicy: FairsharePolicy | None = None
    tags: Tags | None = None


class UpdateSchedulingPolicy(Shape):
    arn: Text
    quotaSharePolicy: QuotaSharePolicy | None = None
    fairsharePolicy: FairsharePolicy | None = None


class DeleteSchedulingPolicy(Shape):
    arn: Text


class DescribeSchedulingPolicies(Shape):
    arns: Named


class ListSchedulingPolicies(Shape):
    maxResults: Page | None = None
    nextToken: Text | None = None
