"""The requests about pods: create, bind, change, delete, list. Every change names the uid of the pod."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from batchq.compute.kubernetes.pod_spec import DELETED_FOR, FINALIZER, INSTANCE, pod_name
from batchq.compute.kubernetes.rest import MERGE_PATCH, ApiReply, RestClient
from batchq.domain.ids import Tag
from batchq.errors import RuntimeUnknown

Pod = Mapping[str, Any]
UNCHANGED = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})
KILL_DEADLINE = 1  # seconds after the start of the pod; it has passed when it is set


class Pods:
    """The pods of one instance."""

    def __init__(self, rest: RestClient, instance: str) -> None:
        self._rest = rest
        self._instance = instance
        self.path = f"{rest.namespaced}/pods"
        #: The label that all pods of the instance have.
        self.selector = {"labelSelector": f"{INSTANCE}={instance}"}

    def name_of(self, tag: Tag) -> str:
        return pod_name(self._instance, tag)

    async def get(self, tag: Tag) -> Pod | None:
        """The pod with the name of the tag; None if it does not exist."""
        reply = await self._rest.get(f"{self.path}/{self.name_of(tag)}")
        return reply.body if reply.ok else None

    async def post(self, pod: Pod) -> ApiReply:
        return await self._rest.request("POST", self.path, body=pod)

    async def bind(self, pod: Pod, node: str) -> ApiReply:
        """Start the pod on a node. The API server carries this out at most once for a pod."""
        name = pod["metadata"]["name"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "uid": uid_of(pod)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return await self._rest.request("POST", f"{self.path}/{name}/binding", body=binding)

    async def kill(self, pod: Pod) -> None:
        """Have the kubelet end the container; its exit code and its log are kept."""
        await self._patch(pod, spec={"activeDeadlineSeconds": KILL_DEADLINE})

    async def mark_deleted(self, pod: Pod, why: str) -> None:
        """Store why batchq deletes the pod, before it does: another client's deletion is a loss of the host."""
        await self._patch(pod, metadata={"annotations": {DELETED_FOR: why}})

    async def delete(self, pod: Pod, *, grace: int) -> None:
        """Delete the pod, unless it is another one. `grace` in seconds; above 0 for a bound pod. Repeatable."""
        options = {"gracePeriodSeconds": grace, "preconditions": {"uid": uid_of(pod)}}
        path = f"{self.path}/{pod['metadata']['name']}"
        _check(await self._rest.request("DELETE", path, body=options), "delete")

    async def remove(self, pod: Pod, why: str) -> None:
        """Delete the pod and release its finalizer. A bound pod is gone once its container has ended."""
        others = [finalizer for finalizer in pod["metadata"].get("finalizers") or () if finalizer != FINALIZER]
        await self._patch(pod, metadata={"annotations": {DELETED_FOR: why}, "finalizers": others})
        await self.delete(pod, grace=1 if is_bound(pod) else 0)

    async def list(self) -> tuple[list[Pod], str]:
        """All pods of the instance, as they are now, and the version of the list."""
        reply = await self._rest.get(self.path, self.selector)
        items = reply.body.get("items")
        if not isinstance(items, list):
            raise RuntimeUnknown(f"list pods: {reply.message}")
        return items, str(reply.body["metadata"]["resourceVersion"])

    async def events(self, pod: Pod) -> Mapping[str, Any]:
        """The events of the pod, as a list object."""
        query = {"fieldSelector": f"involvedObject.name={pod['metadata']['name']}"}
        return (await self._rest.get(f"{self._rest.namespaced}/events", query)).body

    async def ensure_secret(self, secret: Mapping[str, Any]) -> None:
        """Create the Secret of a pod; that of an earlier pod with the same name is replaced.

        Error texts of the API server are left out: they could quote a value.
        """
        path, name = f"{self._rest.namespaced}/secrets", secret["metadata"]["name"]
        reply = await self._rest.request("POST", path, body=secret)
        if reply.status == HTTPStatus.CONFLICT:
            existing = (await self._rest.get(f"{path}/{name}")).body
            if _owner_of(existing) == _owner_of(secret):
                return
            await self._rest.request("DELETE", f"{path}/{name}")
            reply = await self._rest.request("POST", path, body=secret)
        if not reply.ok:
            raise RuntimeUnknown(f"create secret {name}: status {reply.status}")

    async def _patch(
        self, pod: Pod, *, metadata: Mapping[str, Any] | None = None, spec: Mapping[str, Any] | None = None
    ) -> None:
        """Change the pod, unless it is another one or the change was made before. Repeatable."""
        body = {"metadata": {"uid": uid_of(pod), **(metadata or {})}, **({"spec": spec} if spec else {})}
        path = f"{self.path}/{pod['metadata']['name']}"
        _check(await self._rest.request("PATCH", path, body=body, content_type=MERGE_PATCH), "patch")


def uid_of(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def is_bound(pod: Pod) -> bool:
    return bool(pod["spec"].get("nodeName"))


def is_being_deleted(pod: Pod) -> bool:
    return pod["metadata"].get("deletionTimestamp") is not None


def _check(reply: ApiReply, call: str) -> None:
    """Raise RuntimeUnknown for an error that does not mean that there is nothing to change."""
    if not reply.ok and reply.status not in UNCHANGED:
        raise RuntimeUnknown(f"{call}: {reply.message}")


def _owner_of(secret: Mapping[str, Any]) -> object:
    owners = (secret.get("metadata") or {}).get("ownerReferences") or [{}]
    return owners[0].get("uid")
