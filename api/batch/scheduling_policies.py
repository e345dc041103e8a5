"""Scheduling policies: create, update, delete, describe, list."""

import json
import re
from datetime import timedelta
from typing import Annotated, Any, Literal, TypedDict

from msgspec.structs import replace
from pydantic import Field

from batchq.api.batch import validation
from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.context import Answer, BatchRequest
from batchq.api.batch.validation import Integer, NameList, PageSize, Tags, Text, WireModel
from batchq.api.http.page_tokens import page_of_entries
from batchq.api.operations.parts import Parts
from batchq.domain.catalog import PolicyName, SchedulingPolicy, ShareWeight
from batchq.errors import Invalid

MAX_DECAY = 604_800  # seconds, a week
MAX_RESERVATION = 99
MIN_WEIGHT, MAX_WEIGHT = 0.0001, 999.9999
_SHARE = re.compile(r"[A-Za-z0-9]{1,255}\*?")


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
    arns: NameList


class ListSchedulingPolicies(WireModel):
    maxResults: PageSize | None = None
    nextToken: Text | None = None


async def create_scheduling_policy(parts: Parts, request: BatchRequest, body: CreateSchedulingPolicy) -> Answer:
    """Creates a fair-share scheduling policy."""
    check_policy_supported(body)
    policy = SchedulingPolicy(
        name=PolicyName(validation.name(body.name, "name")),
        **to_policy(body.fairsharePolicy or FairsharePolicy()),
        tags=validation.validated_tags(body.tags),
        created_at=parts.clock.now(),
    )
    made = await parts.catalog.scheduling_policies.create(policy, caller=request.caller)
    return {"name": made.name, "arn": request.arns.policy(made.name)}


async def update_scheduling_policy(parts: Parts, request: BatchRequest, body: UpdateSchedulingPolicy) -> None:
    """Changes a scheduling policy."""
    check_policy_supported(body)
    name, fair = policy_name(body.arn, request.arns, member="arn"), body.fairsharePolicy
    await parts.catalog.scheduling_policies.update(
        # AWS: a fairsharePolicy replaces the earlier one as a whole.
        name,
        lambda policy: policy if fair is None else replace(policy, **to_policy(fair)),
        caller=request.caller,
    )


async def delete_scheduling_policy(parts: Parts, request: BatchRequest, body: DeleteSchedulingPolicy) -> None:
    """Deletes a scheduling policy that belongs to no queue."""
    await parts.catalog.scheduling_policies.delete(
        policy_name(body.arn, request.arns, member="arn"), caller=request.caller
    )


async def describe_scheduling_policies(parts: Parts, request: BatchRequest, body: DescribeSchedulingPolicies) -> Answer:
    """Describes scheduling policies by ARN."""
    names = request.arns.all_named(ArnKind.POLICY, body.arns)
    found = (policy for name, policy in sorted(parts.catalog.policies.items()) if name in names)
    return {"schedulingPolicies": [scheduling_policy_detail(policy, request.arns) for policy in found]}


async def list_scheduling_policies(parts: Parts, request: BatchRequest, body: ListSchedulingPolicies) -> Answer:
    """Lists the ARNs of the scheduling policies."""
    entries, more = page_of_entries(
        parts.catalog.policies, body, query=("ListSchedulingPolicies",), tokens=parts.tokens
    )
    return {"schedulingPolicies": [{"arn": request.arns.policy(policy.name)} for policy in entries], **more}


def policy_name(text: str, arns: BatchArns, *, member: str) -> PolicyName:
    """The name in the ARN `text`; `member`: the request's member, for the error text. Raises Invalid, and NotFound."""
    return PolicyName(arns.required_name(ArnKind.POLICY, text, member=member))


def check_policy_supported(given: CreateSchedulingPolicy | UpdateSchedulingPolicy) -> None:
    validation.refuse_unsupported({"quotaSharePolicy": given.quotaSharePolicy}, validation.QUOTA_SHARES)


class PolicyMembers(TypedDict):
    """The members of a SchedulingPolicy that a fairsharePolicy sets."""

    shares: tuple[ShareWeight, ...]
    decay: timedelta
    reservation: int
    document: str


def to_policy(given: FairsharePolicy) -> PolicyMembers:
    """Raises Invalid. AWS: an empty or omitted fairsharePolicy is returned with the defaults."""
    seconds, percent = given.shareDecaySeconds or 0, given.computeReservation or 0
    if not 0 <= seconds <= MAX_DECAY:
        raise Invalid(f"shareDecaySeconds must be between 0 and {MAX_DECAY}.")
    if not 0 <= percent <= MAX_RESERVATION:
        raise Invalid(f"computeReservation must be between 0 and {MAX_RESERVATION}.")
    defaults = {"computeReservation": 0, "shareDecaySeconds": 0, "shareDistribution": []}
    return PolicyMembers(
        shares=tuple(_share(attributes) for attributes in given.shareDistribution or ()),
        decay=timedelta(seconds=seconds),
        reservation=percent,
        document=json.dumps(given.model_dump(exclude_none=True) or defaults),
    )


def scheduling_policy_detail(policy: SchedulingPolicy, arns: BatchArns) -> dict[str, object]:
    fair: dict[str, Any] = json.loads(policy.document)
    return {"name": policy.name, "arn": arns.policy(policy.name), "fairsharePolicy": fair, "tags": dict(policy.tags)}


def _share(given: ShareAttributes) -> ShareWeight:
    if not _SHARE.fullmatch(given.shareIdentifier):
        raise Invalid("shareIdentifier must be 1 to 255 letters and digits, which an asterisk may follow.")
    weight = 1.0 if given.weightFactor is None else given.weightFactor
    if not MIN_WEIGHT <= weight <= MAX_WEIGHT:
        raise Invalid(f"weightFactor must be between {MIN_WEIGHT} and {MAX_WEIGHT}.")
    return ShareWeight(identifier=given.shareIdentifier, weight=weight)
