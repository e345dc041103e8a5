"""Examines a cluster for `batchq doctor`: version, namespace, rights, nodes and clock. Nothing is changed."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from batchq.compute.kubernetes.connection import OLDEST_VERSION, ClusterAccess, check_version, load_cluster
from batchq.compute.kubernetes.rest import ApiReply, ReadForbidden, RestClient, decode
from batchq.doctor.facts import ClusterFacts, RuntimeFault, UnavailableRuntime
from batchq.errors import RuntimeUnknown, RuntimeUnreachable, StartImpossible
from batchq.ports.clock import Clock

EXAMINE_TIMEOUT = 20.0  # seconds of the whole examination
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
#: The verbs of each resource, as `pods` or `pods/log`.
Rights = Mapping[str, tuple[str, ...]]
#: What batchq does in the jobs' namespace.
NAMESPACE_RIGHTS: Rights = {
    "pods": ("create", "get", "list", "watch", "patch", "delete"),
    "pods/binding": ("create",),
    "pods/log": ("get",),
    "pods/exec": ("create", "get"),
    "secrets": ("create", "get", "delete"),
    "services": ("create", "get", "delete"),
    "events": ("list",),
    "namespaces": ("get",),
}
#: What batchq does there with `--kubernetes-refuse-drains`.
DRAIN_RIGHTS: Rights = {"poddisruptionbudgets": ("create", "list", "delete")}
#: The API groups of resources that are not in the core.
API_GROUPS = {"poddisruptionbudgets": "policy"}
#: What batchq does in the whole cluster.
CLUSTER_RIGHTS: Rights = {"nodes": ("list", "watch"), "pods": ("list", "watch")}


def examine_cluster(reference: str, clock: Clock, *, refuses_drains: bool = False) -> ClusterFacts | UnavailableRuntime:
    """The facts about the cluster of `--kubernetes`. `refuses_drains`: whether an environment refuses drains."""
    try:
        cluster = load_cluster(reference)
    except StartImpossible as error:
        return UnavailableRuntime(address=reference, fault=RuntimeFault.NOT_CONFIGURED, error=str(error))
    return asyncio.run(examine_access(cluster, clock, refuses_drains=refuses_drains))


async def examine_access(
    cluster: ClusterAccess, clock: Clock, *, refuses_drains: bool = False
) -> ClusterFacts | UnavailableRuntime:
    """The facts about the cluster, with these credentials."""
    rest = RestClient(cluster, clock)
    try:
        async with asyncio.timeout(EXAMINE_TIMEOUT):
            return await _facts(rest, cluster, clock, {**NAMESPACE_RIGHTS, **(DRAIN_RIGHTS if refuses_drains else {})})
    except TimeoutError:
        error = f"no answer within {EXAMINE_TIMEOUT:g} s"
        return UnavailableRuntime(address=cluster.server, fault=RuntimeFault.NOT_RESPONDING, error=error)
    except RuntimeUnreachable as unreachable:
        return UnavailableRuntime(address=cluster.server, fault=RuntimeFault.NOT_LISTENING, error=str(unreachable))
    except (RuntimeUnknown, StartImpossible) as unknown:
        return UnavailableRuntime(address=cluster.server, fault=RuntimeFault.NOT_AN_ENGINE, error=str(unknown))
    finally:
        await rest.close()


async def _facts(rest: RestClient, cluster: ClusterAccess, clock: Clock, own: Rights) -> ClusterFacts:
    """`own`: the rights that are needed in the jobs' namespace."""
    before = clock.now()
    reply = await rest.get("/version")
    after = clock.now()
    version = check_version(reply.body, allow_old=True)
    namespace = await rest.request("GET", rest.namespaced)
    nodes = await _nodes(rest)
    rights: dict[str, Rights] = {cluster.namespace: own, "": CLUSTER_RIGHTS}
    reviewed = [
        (verb, resource, place)
        for place, resources in rights.items()
        for resource, verbs in resources.items()
        for verb in verbs
    ]
    allowed = await asyncio.gather(*(_is_allowed(rest, *right) for right in reviewed))
    return ClusterFacts(
        address=cluster.server,
        version=".".join(map(str, version)),
        is_supported=version >= OLDEST_VERSION,
        oldest_version=".".join(map(str, OLDEST_VERSION)),
        namespace=cluster.namespace,
        id=((namespace.body.get("metadata") or {}).get("uid")) if namespace.ok else None,
        namespace_error="" if namespace.ok else namespace.message,
        denied=tuple(right for right, is_allowed in zip(reviewed, allowed, strict=True) if not is_allowed),
        nodes=len(nodes),
        unusable_nodes=tuple(f"{node['metadata']['name']} ({why})" for node in nodes if (why := _why_unusable(node))),
        clock_offset=_offset(reply, (before, after)),
    )


async def _nodes(rest: RestClient) -> list[Mapping[str, Any]]:
    """The nodes; empty if these credentials may not list them. Raises RuntimeUnknown."""
    try:
        return [decode(item, dict) async for page in rest.pages("/api/v1/nodes", {}) for item in page.items]
    except ReadForbidden:
        return []


async def _is_allowed(rest: RestClient, verb: str, resource: str, namespace: str) -> bool:
    """Whether these credentials have the right. Raises RuntimeUnknown."""
    name, _, subresource = resource.partition("/")
    group = API_GROUPS.get(name, "")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": name,
        "subresource": subresource,
        "namespace": namespace,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    reply = await rest.request("POST", REVIEWS, body=review)
    if not reply.ok:
        raise RuntimeUnknown(f"the rights of these credentials cannot be read: {reply.message}")
    return bool((reply.body.get("status") or {}).get("allowed"))


def _why_unusable(node: Mapping[str, Any]) -> str | None:
    """Why the node takes no jobs; None: it takes jobs."""
    spec, conditions = node.get("spec") or {}, (node.get("status") or {}).get("conditions") or ()
    if not any(condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions):
        return "not ready"
    if spec.get("unschedulable"):
        return "cordoned"
    taints = [taint.get("key") for taint in spec.get("taints") or () if taint.get("effect") != "PreferNoSchedule"]
    return f"tainted {taints[0]}" if taints else None


def _offset(reply: ApiReply, around: tuple[datetime, datetime]) -> float | None:
    """How many seconds the server's clock is ahead. Its Date header has whole seconds, cut off."""
    if reply.time is None:
        return None
    before, after = around
    ahead = (reply.time - after).total_seconds()
    behind = (before - reply.time).total_seconds() - 1
    return ahead if ahead > 0 else -behind if behind > 0 else 0.0
