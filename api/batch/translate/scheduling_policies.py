"""Scheduling policies: requests to the domain's values, and values to responses."""

import json
import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from batchq.api.batch.arns import ArnKind, BatchArns
from batchq.api.batch.translate import unsupported, validation
from batchq.api.batch.wire.scheduling_policies import (
    CreateSchedulingPolicy,
    FairsharePolicy,
    ShareAttributes,
    UpdateSchedulingPolicy,
)
from batchq.domain.catalog import PolicyName, SchedulingPolicy, ShareWeight
from batchq.errors import Invalid, NotFound

LONGEST_DECAY = 604_800  # seconds, a week
MOST_RESERVED = 99
LEAST_WEIGHT, MOST_WEIGHT = 0.0001, 999.9999

_SHARE = re.compile(r"[A-Za-z0-9]{1,255}\*?")


def name_of(text: str, arns: BatchArns, *, said: str) -> PolicyName:
    """The name in the ARN `text`; `said` is the request's member, for the error text. Raises Invalid, and NotFound."""
    name = arns.named(ArnKind.POLICY, validation.required(text, said))
    if name is None:
        raise NotFound(f"SchedulingPolicy {text} not found.")
    return PolicyName(name)


def check_served(given: CreateSchedulingPolicy | UpdateSchedulingPolicy) -> None:
    unsupported.refuse({"quotaSharePolicy": given.quotaSharePolicy}, unsupported.QUOTA_SHARES)


def shares(given: FairsharePolicy | None) -> tuple[ShareWeight, ...]:
    return tuple(_share(it) for it in _listed(given))


def decay(given: FairsharePolicy | None) -> timedelta:
    seconds = (given and given.shareDecaySeconds) or 0
    if not 0 <= seconds <= LONGEST_DECAY:
        raise Invalid(f"shareDecaySeconds must be between 0 and {LONGEST_DECAY}.")
    return timedelta(seconds=seconds)


def reservation(given: FairsharePolicy | None) -> int:
    percent = (given and given.computeReservation) or 0
    if not 0 <= percent <= MOST_RESERVED:
        raise Invalid(f"computeReservation must be between 0 and {MOST_RESERVED}.")
    return percent


def document(given: FairsharePolicy | None) -> str:
    """The policy as it is returned. AWS: an empty or omitted one is returned with the defaults."""
    said = {} if given is None else given.model_dump(exclude_none=True)
    return json.dumps(said or {"computeReservation": 0, "shareDecaySeconds": 0, "shareDistribution": []})


def changed(before: SchedulingPolicy, given: FairsharePolicy | None) -> SchedulingPolicy:
    """The policy after an update: a fairsharePolicy replaces the earlier one as a whole; None changes nothing."""
    if given is None:
        return before
    return replace(
        before,
        shares=shares(given),
        decay=decay(given),
        reservation=reservation(given),
        document=document(given),
    )


def detail(policy: SchedulingPolicy, arns: BatchArns) -> dict[str, object]:
    fair: dict[str, Any] = json.loads(policy.document)
    return {
        "name": policy.name,
        "arn": arns.policy(policy.name),
        "fairsharePolicy": fair,
        "tags": dict(policy.tags),
    }


def _listed(given: FairsharePolicy | None) -> Sequence[ShareAttributes]:
    return (given and given.shareDistribution) or ()


def _share(given: ShareAttributes) -> ShareWeight:
    if not _SHARE.fullmatch(given.shareIdentifier):
        raise Invalid("shareIdentifier must be 1 to 255 letters and digits, which an asterisk may follow.")
    weight = 1.0 if given.weightFactor is None else given.weightFactor
    if not LEAST_WEIGHT <= weight <= MOST_WEIGHT:
        raise Invalid(f"weightFactor must be between {LEAST_WEIGHT} and {MOST_WEIGHT}.")
    return ShareWeight(identifier=given.shareIdentifier, weight=weight)
