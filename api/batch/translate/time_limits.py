"""jobStateTimeLimitActions: requests to the domain's values, and values to responses."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from batchq.api.batch.translate import validation
from batchq.api.batch.wire.job_queues import JobStateTimeLimitAction
from batchq.domain.catalog import TimeLimit
from batchq.errors import Invalid, NotSupported

LEAST, MOST = 600, 86_400  # seconds
REASONS = (
    "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
    "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
    "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
)
"""AWS: the reasons that an action can have. A job may be blocked for other reasons, too."""


def limits(given: Sequence[JobStateTimeLimitAction]) -> tuple[TimeLimit, ...]:
    validation.once((it.reason for it in given), "A reason of jobStateTimeLimitActions")
    return tuple(_limit(it) for it in given)


def shown(kept: Iterable[TimeLimit]) -> list[dict[str, object]]:
    return [
        {
            "reason": it.reason,
            "state": "RUNNABLE",
            "maxTimeSeconds": int(it.most.total_seconds()),
            "action": "CANCEL",
        }
        for it in kept
    ]


def _limit(given: JobStateTimeLimitAction) -> TimeLimit:
    if given.reason not in REASONS:
        raise Invalid(f"The reason of jobStateTimeLimitActions must be one of {', '.join(REASONS)}.")
    if not LEAST <= given.maxTimeSeconds <= MOST:
        raise Invalid(f"maxTimeSeconds of jobStateTimeLimitActions must be between {LEAST} and {MOST}.")
    if given.action != "CANCEL":
        raise NotSupported(
            f"The action {given.action} of jobStateTimeLimitActions is for queues of SageMaker Training jobs: "
            "here it must be CANCEL."
        )
    return TimeLimit(reason=given.reason, most=timedelta(seconds=given.maxTimeSeconds))
