"""The requests about pods: create, bind, change, delete, list. Every change names the uid of the pod."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Required, TypedDict

from msgspec import Raw

from batchq.compute.kubernetes.pod_names import (
    DELETED_FOR,
    FINALIZER,
    HELD_IMAGE,
    INSTANCE,
    MARK,
    NODE_UID,
    OWN_UID,
    REMOVED,
    RUN,
    ContainerMark,
    mark_path,
    name_in_pod,
    pod_name,
)
from batchq.compute.kubernetes.rest import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, ApiReply, RestClient, decode
from batchq.domain.ids import Tag
from batchq.errors import RuntimeUnknown

Pod = Mapping[str, Any]
#: Replies of a request whose pod is gone, or has changed so that the request does not apply.
UNCHANGED = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY})
#: The member of a strategic merge patch with the finalizers that it removes. Others remain.
REMOVED_FINALIZERS = "$deleteFromPrimitiveList/finalizers"
KILL_DEADLINE = 1  # seconds after the start of the pod; it has passed when it is set


class PodMetadata(TypedDict, total=False):
    """The members of `metadata` that batchq reads. Decoding skips `managedFields`, which is half of a pod's JSON."""

    name: str
    uid: str
    labels: dict[str, str] | None
    annotations: dict[str, str] | None
    finalizers: list[str] | None
    creationTimestamp: str | None
    deletionTimestamp: str | None
    deletionGracePeriodSeconds: int | None


class PodMembers(TypedDict, total=False):
    """The members of a pod that batchq reads."""

    metadata: Required[PodMetadata]
    spec: dict[str, Any]
    status: dict[str, Any]


def decode_pod(text: Raw | bytes) -> Pod:
    """A pod of a list, of a watch or of a reply. Raises RuntimeUnknown."""
    return decode(text, PodMembers)


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
        """The pod with the name of the tag; None if it does not exist. Raises RuntimeUnknown."""
        reply = await self._rest.get(f"{self.path}/{self.name_of(tag)}")
        if reply.is_absence:
            return None
        if not reply.ok:
            raise RuntimeUnknown(f"GET {self.name_of(tag)}: {reply.message}")
        return decode_pod(reply.content)

    async def post(self, pod: Pod) -> ApiReply:
        return await self._rest.request("POST", self.path, body=pod)

    async def bind(self, pod: Pod, node: str, node_uid: str) -> ApiReply:
        """Start the pod on a node. The API server carries this out at most once, with the annotation of the pod."""
        name, noted = pod["metadata"]["name"], {NODE_UID: node_uid, OWN_UID: uid_of(pod)}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "uid": uid_of(pod), "annotations": noted},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return await self._rest.request("POST", f"{self.path}/{name}/binding", body=binding)

    async def kill(self, pod: Pod, tag: Tag) -> None:
        """Have the kubelet end the container; its exit code and its log are kept. The other containers run on.

        A kubelet ends a running container that gets another image, and then pulls that image in vain.
        """
        if is_shared(pod):
            _check(await self._change_container(pod, tag, image=HELD_IMAGE), "kill")
        else:
            await self.end(pod)

    async def end(self, pod: Pod) -> None:
        """Have the kubelet end all containers of the pod; their exit codes and logs are kept."""
        await self._patch(pod, spec={"activeDeadlineSeconds": KILL_DEADLINE})

    async def claim(self, pod: Pod, tag: Tag) -> ApiReply:
        """Mark the container as created. An error if its mark is not HELD any more."""
        return await self._change_container(pod, tag, before=ContainerMark.HELD, mark=ContainerMark.CREATED)

    async def start_container(self, pod: Pod, tag: Tag, image: str) -> ApiReply:
        """Give the container its image. The API server carries this out at most once for a container."""
        return await self._change_container(
            pod, tag, before=ContainerMark.CREATED, mark=ContainerMark.STARTED, image=image
        )

    async def withdraw_container(self, pod: Pod, tag: Tag, why: str) -> bool:
        """Give the container of a start that cannot succeed the held image. Returns False if the cluster refuses it."""
        if is_shared(pod):
            mark = f"{ContainerMark.WITHDRAWN}: {why}"
            reply = await self._change_container(pod, tag, before=ContainerMark.STARTED, mark=mark, image=HELD_IMAGE)
            _check(reply, "withdraw")
            return True
        return (await self._change_container(pod, tag, image=HELD_IMAGE, deleted_for=why)).ok

    async def remove_container(self, pod: Pod, tag: Tag) -> Pod | None:
        """Mark the container as removed, and end it if it runs. Returns the pod; None: it does not exist any more."""
        reply = await self._change_container(pod, tag, mark=ContainerMark.REMOVED, image=HELD_IMAGE)
        _check(reply, "remove")
        return reply.body if reply.ok else None

    async def mark_deleted(self, pod: Pod, why: str) -> None:
        """Store why batchq deletes the pod, before it does: another client's deletion is a loss of the host."""
        await self._patch(pod, metadata={"annotations": {DELETED_FOR: why}})

    async def annotate_run(self, pod: Pod, tag: Tag, container_id: str, started_at: datetime) -> None:
        """Store the first run of a container: the next server notices a second start by its node."""
        run = f"{container_id} {started_at.isoformat()}"
        await self._patch(pod, metadata={"annotations": {f"{RUN}{name_in_pod(tag)}": run}})

    async def delete(self, pod: Pod, *, grace: int) -> None:
        """Delete the pod, unless it is another one. `grace` in seconds; above 0 for a bound pod. Repeatable."""
        options = {"gracePeriodSeconds": grace, "preconditions": {"uid": uid_of(pod)}}
        path = f"{self.path}/{pod['metadata']['name']}"
        _check(await self._rest.request("DELETE", path, body=options), "delete")

    async def remove(self, pod: Pod, why: str, *, has_ended: bool = False) -> None:
        """Delete the pod and release its finalizer. A bound pod is gone once its container has ended.

        `has_ended`: whether its end was reported, so that the watch needs none of its further changes.
        """
        released: dict[str, Any] = {"annotations": {DELETED_FOR: why}, REMOVED_FINALIZERS: [FINALIZER]}
        if has_ended:
            released["labels"] = {REMOVED: "true"}
        await self._patch(pod, metadata=released, content_type=STRATEGIC_PATCH)
        await self.delete(pod, grace=1 if is_bound(pod) else 0)

    async def pages(self) -> AsyncIterator[list[Pod]]:
        """All pods of the instance as they are at one moment, some at a time. Raises RuntimeUnknown."""
        async for page in self._rest.pages(self.path, self.selector):
            yield [decode_pod(item) for item in page.items]

    async def events(self, pod: Pod) -> Mapping[str, Any]:
        """The events of the pod, as a list object."""
        query = {"fieldSelector": f"involvedObject.name={pod['metadata']['name']}"}
        return (await self._rest.get(f"{self._rest.namespaced}/events", query)).body

    async def ensure_owned(self, kind: str, owned: Mapping[str, Any]) -> None:
        """Create a Secret or Service of a pod; that of an earlier pod with the same name is replaced.

        `kind`: `secrets` or `services`. Error texts of the API server are left out: they could quote a value.
        """
        path, name = f"{self._rest.namespaced}/{kind}", owned["metadata"]["name"]
        reply = await self._rest.request("POST", path, body=owned)
        if reply.status == HTTPStatus.CONFLICT:
            found = await self._rest.get(f"{path}/{name}")
            existing = found.body if found.ok else {}
            if existing and _owner_of(existing) == _owner_of(owned):
                return
            if existing:
                options = {"preconditions": {"uid": existing["metadata"]["uid"]}}
                await self._rest.request("DELETE", f"{path}/{name}", body=options)
            reply = await self._rest.request("POST", path, body=owned)
        if not reply.ok:
            raise RuntimeUnknown(f"create {name} of {kind}: status {reply.status}")

    async def _change_container(
        self,
        pod: Pod,
        tag: Tag,
        *,
        before: ContainerMark | None = None,
        mark: str | None = None,
        image: str | None = None,
        deleted_for: str | None = None,
    ) -> ApiReply:
        """Change a container in one write. `before`: the mark that it must have; None: any.

        `deleted_for`: the annotation of that name; None: it stays.
        """
        name = name_in_pod(tag)
        names = [container["name"] for container in pod["spec"]["containers"]]
        changes = [{"op": "test", "path": "/metadata/uid", "value": uid_of(pod)}]
        if before is not None:
            changes.append({"op": "test", "path": mark_path(name), "value": before})
        if mark is not None:
            changes.append({"op": "replace", "path": mark_path(name), "value": mark})
        if deleted_for is not None:
            changes.append({"op": "add", "path": f"/metadata/annotations/{DELETED_FOR}", "value": deleted_for})
        if image is not None:
            changes.append({"op": "replace", "path": f"/spec/containers/{names.index(name)}/image", "value": image})
        return await self._send_patch(pod, changes, JSON_PATCH)

    async def _patch(
        self,
        pod: Pod,
        *,
        metadata: Mapping[str, Any] | None = None,
        spec: Mapping[str, Any] | None = None,
        content_type: str = MERGE_PATCH,
    ) -> None:
        """Change the pod, unless it is another one or the change was made before. Repeatable."""
        body = {"metadata": {"uid": uid_of(pod), **(metadata or {})}, **({"spec": spec} if spec else {})}
        _check(await self._send_patch(pod, body, content_type), "patch")

    async def _send_patch(
        self, pod: Pod, body: Mapping[str, Any] | Sequence[Mapping[str, Any]], content_type: str
    ) -> ApiReply:
        """Raises RuntimeUnknown for a conflict: the API server gave up, because other clients changed the pod."""
        path = f"{self.path}/{pod['metadata']['name']}"
        reply = await self._rest.request("PATCH", path, body=body, content_type=content_type)
        if reply.status == HTTPStatus.CONFLICT:
            raise RuntimeUnknown(f"patch: {reply.message}")
        return reply


def is_shared(pod: Pod) -> bool:
    """Whether the pod has several containers of the job, by their marks. An admission webhook may have added others."""
    return any(name.startswith(MARK) for name in pod["metadata"].get("annotations") or ())


def changes_by_admission(requested: Pod, created: Pod) -> dict[str, str]:
    """What admission changed in the containers that batchq requested, as text, by the name of the container."""
    found = {container["name"]: container for container in created["spec"].get("containers") or ()}
    changes = {}
    for container in requested["spec"]["containers"]:
        own = found.get(container["name"], {})
        texts = [name for name in ("command", "args") if (own.get(name) or []) != (container.get(name) or [])]
        if own.get("image") != container["image"]:
            texts.insert(0, f"image {container['image']} -> {own.get('image')}")
        if texts:
            changes[container["name"]] = ", ".join(texts)
    return changes


def uid_of(pod: Pod) -> str:
    return str(pod["metadata"]["uid"])


def is_bound(pod: Pod) -> bool:
    return bool(pod["spec"].get("nodeName"))


def was_accepted(pod: Pod) -> bool:
    """Whether a kubelet has accepted the pod, as its status shows until the kubelet refuses the pod."""
    status = pod.get("status") or {}
    return status.get("startTime") is not None and status.get("phase") == "Pending"


def is_being_deleted(pod: Pod) -> bool:
    return pod["metadata"].get("deletionTimestamp") is not None


def is_confirmed_deletion(pod: Pod) -> bool:
    """Whether the kubelet, or the controller of deleted nodes, has confirmed the deletion of a bound pod.

    batchq deletes a bound pod with a grace above 0. Another client may delete it with a grace of 0 itself.
    """
    return is_being_deleted(pod) and pod["metadata"].get("deletionGracePeriodSeconds") == 0


def _check(reply: ApiReply, call: str) -> None:
    """Raise RuntimeUnknown for an error, except those of UNCHANGED."""
    if not reply.ok and reply.status not in UNCHANGED:
        raise RuntimeUnknown(f"{call}: {reply.message}")


def _owner_of(owned: Mapping[str, Any]) -> object:
    owners = (owned.get("metadata") or {}).get("ownerReferences") or [{}]
    return owners[0].get("uid")
