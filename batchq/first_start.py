"""What there is at the first start ever, for jobs to run at once: an environment and a queue on it."""

import json

from batchq.domain.catalog import EnvironmentName
from batchq.domain.names import QueueName

LOCAL = EnvironmentName("local")
DEFAULT = QueueName("default")


def local_document(max_millicpus: int) -> str:
    """What CreateComputeEnvironment would have been sent."""
    resources = {
        "type": "EC2",
        "maxvCpus": max(1, max_millicpus // 1000),
        "minvCpus": 0,
        "desiredvCpus": 0,
        "subnets": [],
        "instanceTypes": ["optimal"],
    }
    return json.dumps({"type": "MANAGED", "computeResources": resources})
