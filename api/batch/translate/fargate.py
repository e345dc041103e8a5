"""Fargate's restrictions of job definitions, checked because AWS does; the jobs run here like all others."""

from batchq.api.batch.wire.containers import ContainerProperties, LinuxParameters
from batchq.errors import Invalid

LOG_DRIVERS = ("awslogs", "splunk")


def check(given: ContainerProperties) -> None:
    """Raise Invalid for a missing member that Fargate requires, and for one that it does not allow."""
    if not given.executionRoleArn:
        raise Invalid("executionRoleArn is required for Fargate.")
    for member, value in _forbidden(given).items():
        if value:
            raise Invalid(f"{member} is not applicable for Fargate.")
    if given.logConfiguration is not None and given.logConfiguration.logDriver not in LOG_DRIVERS:
        raise Invalid(f"logDriver must be one of {', '.join(LOG_DRIVERS)} for Fargate.")


def _forbidden(given: ContainerProperties) -> dict[str, object]:
    linux = given.linuxParameters or LinuxParameters()
    return {
        "privileged": given.privileged,
        "ulimits": given.ulimits,
        "instanceType": given.instanceType,
        "host volume": any(it.host is not None and it.host.sourcePath for it in given.volumes or ()),
        "devices": linux.devices,
        "sharedMemorySize": linux.sharedMemorySize,
        "tmpfs": linux.tmpfs,
        "maxSwap": linux.maxSwap is not None,
        "swappiness": linux.swappiness is not None,
    }
