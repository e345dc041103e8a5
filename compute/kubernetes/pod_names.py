"""Names, labels and annotations of pods, and which containers of jobs a pod has. Pure.

All containers of a node are in one pod. In a pod of several containers an annotation beside each says how far batchq is
with that container: its mark. Each change of a mark is one request with the mark before it, so no change happens twice.
"""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha1
from typing import Any

from batchq.domain.ids import JobId, Tag

FINALIZER = "batchq.io/kept"
CONTAINER = "main"  # of a job that was submitted as a single container
INSTANCE = "io.batchq.instance"
# Annotations: the values of labels may contain neither `:` nor `#`.
JOB, ATTEMPT, NODE = "io.batchq.job", "io.batchq.attempt", "io.batchq.node"
#: The annotation with the names that the job gives to the pod's containers, by their names in the pod. JSON.
CONTAINERS = "io.batchq.containers"
#: The annotation with the uids of earlier pods of this name, none of whose containers ran. Separated by spaces.
REPLACES = "io.batchq.replaces"
#: The annotation that batchq sets before it deletes a bound pod: why it does. A pod that is deleted without the
#: annotation was deleted by another client.
DELETED_FOR = "io.batchq.deleted-for"
#: The annotation with the uid of the node to which the pod was bound, which the binding sets: a later node of the same
#: name is another one.
NODE_UID = "io.batchq.node-uid"
#: The annotation with the uid of the pod, which the binding sets. A pod that was created from a copy of it has another
#: uid.
OWN_UID = "io.batchq.uid"
#: The label of pods that batchq removes after their end. The watch does not follow them any more.
REMOVED = "io.batchq.removed"
#: The label of all pods of an attempt with several nodes: the name of their Service.
GANG = "io.batchq.gang"
#: The label of pods that no drain may evict: `drain_label` of their compute environment.
DRAINS = "io.batchq.drains-refused"
MARK = "mark.batchq.io/"  # the annotation with the mark of a container is this and the name of the container
RUN = "run.batchq.io/"  # the annotation with the first run of a container is this and the name of the container
ENVIRONMENT_LABEL = "batchq.environment"  # of a node: the compute environment whose jobs it runs
#: The image of a container that is not to run yet. Its pull is refused at once, and nothing else happens.
HELD_IMAGE = "127.0.0.1:1/batchq-held:1"
DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


class ContainerMark(StrEnum):
    """How far batchq is with a container of a pod of several containers."""

    #: The pod was created for another container.
    HELD = "held"
    #: `create` was called.
    CREATED = "created"
    #: The start was requested: the container has its own image.
    STARTED = "started"
    #: The start was withdrawn. The mark is followed by a colon, a space and the reason.
    WITHDRAWN = "withdrawn"
    #: The container was removed; the pod exists as long as another one was not.
    REMOVED = "removed"


def drain_label(environment: str) -> str:
    """The value of the label of an environment's pods: its name may be longer than a label."""
    return sha1(environment.encode(), usedforsecurity=False).hexdigest()[:16]


def pod_name(instance: str, tag: Tag) -> str:
    """The name of the pod, unique for a node of an attempt of an instance: a repeated create finds the first pod."""
    job = tag.job_id.replace(":", ".").replace("#", ".")
    node = f"-{tag.node}" if tag.container_key else ""
    return f"bq-{instance}-{job}-{tag.attempt}{node}"


def name_in_pod(tag: Tag) -> str:
    """The name of the container in its pod: that of the job, or a hash of it if Kubernetes does not allow the name."""
    if not tag.container_key:
        return CONTAINER
    name = tag.container
    return name if DNS_LABEL.fullmatch(name) else f"c-{sha1(name.encode(), usedforsecurity=False).hexdigest()[:16]}"


def gang_name(instance: str, tag: Tag) -> str:
    """The name of the Service of an attempt with several nodes, which is the domain of their names."""
    name = f"{instance}/{tag.job_id}/{tag.attempt}"
    return f"bq-{sha1(name.encode(), usedforsecurity=False).hexdigest()[:20]}"


def mark_path(name: str) -> str:
    """The JSON Pointer of the annotation with the container's mark."""
    return f"/metadata/annotations/{MARK.replace('/', '~1')}{name}"


def tags_of_pod(pod: Mapping[str, Any], instance: str) -> dict[str, Tag]:
    """The containers that `create` was called for and that were not removed, by name in the pod.

    Empty for a pod that does not belong to a job of this instance.
    """
    return {name: tag for name, tag in all_tags_of_pod(pod, instance).items() if has_container(pod, name)}


def has_container(pod: Mapping[str, Any], name: str) -> bool:
    """Whether `create` was called for a container of the pod, which was not removed since."""
    return mark_of(pod, name) not in (ContainerMark.HELD, ContainerMark.REMOVED)


def all_tags_of_pod(pod: Mapping[str, Any], instance: str) -> dict[str, Tag]:
    """All containers of the pod by name, whatever their marks.

    Empty for a copy of a pod. A copy has the labels and annotations of the pod. The copy of `kubectl debug --copy-to`
    has another name. A pod that a client creates again from a file has another uid.
    """
    metadata, noted = pod["metadata"], _annotations(pod)
    attempt, node = noted.get(ATTEMPT, ""), noted.get(NODE)
    is_ours = (metadata.get("labels") or {}).get(INSTANCE) == instance and noted.get(JOB)
    if not is_ours or not (attempt + (node or "")).isdecimal():
        return {}
    job, number = JobId(noted[JOB]), int(attempt)
    if node is None:
        tags = {CONTAINER: Tag(job_id=job, attempt=number)}
    else:
        names = _names(noted.get(CONTAINERS)).items()
        tags = {name: Tag(job_id=job, attempt=number, container_key=f"{node}/{own}") for name, own in names}
    own_name = next((pod_name(instance, tag) for tag in tags.values()), None)  # one name for all containers of a node
    is_copy = own_name != metadata.get("name") or noted.get(OWN_UID, metadata.get("uid")) != metadata.get("uid")
    return {} if is_copy else tags


def mark_of(pod: Mapping[str, Any], name: str) -> str | None:
    """The mark of a container, without its reason; None: the pod has only one container."""
    return _mark_in(_annotations(pod), name)


def withdrawal_of(pod: Mapping[str, Any], name: str) -> str:
    """The reason for which the start of a container was withdrawn."""
    return _annotations(pod).get(f"{MARK}{name}", "").partition(": ")[2]


def has_held_image(pod: Mapping[str, Any], name: str) -> bool:
    """Whether the container has the image that cannot be pulled."""
    containers = pod["spec"].get("containers") or ()
    return any((container["name"], container.get("image")) == (name, HELD_IMAGE) for container in containers)


def run_of(pod: Mapping[str, Any], name: str) -> str | None:
    """The annotation with the first run of a container; None: no survey has seen it run."""
    return _annotations(pod).get(f"{RUN}{name}")


def node_uid_of(pod: Mapping[str, Any]) -> str | None:
    """The uid of the node to which the pod was bound; None: an earlier version of batchq bound the pod."""
    return _annotations(pod).get(NODE_UID)


def replaced_uids(pod: Mapping[str, Any]) -> tuple[str, ...]:
    """The uids of the pods that the pod replaces."""
    return tuple(_annotations(pod).get(REPLACES, "").split())


def _names(text: str | None) -> Mapping[str, str]:
    try:
        names = json.loads(text or "")
    except ValueError:
        return {}
    return names if isinstance(names, dict) else {}


def _annotations(pod: Mapping[str, Any]) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}


def _mark_in(annotations: Mapping[str, str], name: str) -> str | None:
    mark = annotations.get(f"{MARK}{name}")
    return None if mark is None else mark.partition(": ")[0]
