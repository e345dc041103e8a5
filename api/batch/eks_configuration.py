"""eksConfiguration of a compute environment: it selects the cluster of the server, and is shown as it was given."""

import re
from collections.abc import Mapping

from batchq.api.batch import validation
from batchq.api.batch.validation import Text, Unsupported, WireModel
from batchq.domain.catalog import Tags
from batchq.domain.ids import ENGINE_TAG
from batchq.errors import Invalid

KUBERNETES = "kubernetes"  # the value of the tag `batchq:engine`
_EKS_CLUSTER = re.compile(r"arn:[^:]+:eks:[^:]*:[0-9]{12}:cluster/[0-9A-Za-z][0-9A-Za-z_-]{0,99}")


class EksConfiguration(WireModel):
    eksClusterArn: Text | None = None
    kubernetesNamespace: Text | None = None
    accessEntry: Unsupported | None = None


def engine_tag(configuration: EksConfiguration | None, tags: Mapping[str, str], namespace: str | None) -> Tags:
    """The tag that selects Kubernetes; empty without a configuration. Raises Invalid and NotSupported.

    `tags`: those of the environment. `namespace`: of the server's jobs on Kubernetes; None: the server has no cluster.
    """
    if configuration is None or not configuration.model_fields_set:
        return ()
    if namespace is None:
        validation.refuse_unsupported({"eksConfiguration": configuration}, validation.KUBERNETES)
    validation.refuse_unsupported({"accessEntry": configuration.accessEntry}, "it is for access to Amazon EKS")
    if not _EKS_CLUSTER.fullmatch(configuration.eksClusterArn or ""):
        raise Invalid("eksClusterArn must be the ARN of an EKS cluster.")
    if configuration.kubernetesNamespace != namespace:
        raise Invalid(f"kubernetesNamespace must be {namespace}, the namespace of the jobs of this server.")
    if tags.get(ENGINE_TAG, KUBERNETES) != KUBERNETES:
        raise Invalid(f"An environment with eksConfiguration must not have the tag {ENGINE_TAG} of another engine.")
    return ((ENGINE_TAG, KUBERNETES),)
