"""Shapes of scheduling policies."""

from typing import Annotated, Literal

from pydantic import Field

from batchq.api.batch.wire.shape import Integer, Named, Page, Tags, Text, WireModel


class ShareAttributes(WireModel):
    shareIdentifier: Text
    weightFactor: Annotated[float, Field(allow_inf_nan=False)] | None = None


class FairsharePolicy(WireModel):
    shareDecaySeconds: Integer | None = None
    computeReservation: Integer | None = None
    shareDistribution: list[ShareAttributes] | None = None


class QuotaSharePolicy(WireModel):
    idleResourceAssignmentStrategy: Literal["FIFO"]


class CreateSchedulingPolicy(WireModel):
    name: Text
    quotaSharePolicy: QuotaSharePolicy | None = None
    fairsharePolicy: FairsharePolicy | None = None
    tags: Tags | None = None


class UpdateSchedulingPolicy(WireModel):
    arn: Text
    quotaSharePolicy: QuotaSharePolicy | None = None
    fairsharePolicy: FairsharePolicy | None = None


class DeleteSchedulingPolicy(WireModel):
    arn: Text


class DescribeSchedulingPolicies(WireModel):
    arns: Named


class ListSchedulingPolicies(WireModel):
    maxResults: Page | None = None
    nextToken: Text | None = None
