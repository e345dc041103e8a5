"""Features of AWS Batch that need other services of AWS: they are refused with their name and the reason."""

from collections.abc import Mapping

from batchq.errors import NotSupported

HERE = "this server runs containers on a Docker engine"

KUBERNETES = "it is for Kubernetes (Amazon EKS)"
QUOTA_SHARES = "quota shares divide the capacity that SageMaker Training jobs run on"
SERVICE_ENVIRONMENTS = "service environments are the capacity that SageMaker Training jobs run on"
SERVICE_JOBS = "service jobs are jobs of SageMaker Training"


def refuse(members: Mapping[str, object], why: str) -> None:
    """Raise NotSupported for a member that is not empty."""
    for member, value in members.items():
        if value:
            raise refusal(member, why)


def refusal(what: str, why: str) -> NotSupported:
    return NotSupported(f"{what} is not supported by this server: {why}, and {HERE}.")
