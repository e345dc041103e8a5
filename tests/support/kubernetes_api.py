"""A model of the Kubernetes API server and of its kubelets, for tests without a cluster.

It follows the rules that were measured on Kubernetes 1.36: uid preconditions, finalizers, the grace of a deletion,
bindings with a uid, JSON patches with tests, watches with bookmarks and 410, and one start for each container. A
container waits while its image cannot be pulled, and one that runs ends when its image changes. The program of a
container is its script (BATCHQ_SIMULATED); its checkpoints are written to the host path of the pod's volume. With
`kubelet=False` the test writes each status itself.
"""

import asyncio
import json
import re
from collections import Counter, defaultdict
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from uuid import uuid4

from aiohttp import WSMsgType, web

from batchq.compute.simulated.container import PlannedCheckpoint, SimulatedContainer
from batchq.compute.simulated.script import NO_OUTCOMES, read
from batchq.domain.container import ContainerSpec, Resources
from batchq.domain.ids import JobId, Tag
from batchq.domain.training import MOUNT_POINT
from batchq.errors import StartRefused
from batchq.ports.runtime import ContainerState, LaunchSpec
from tests.support.kubernetes_logs import precise

NAMESPACE = "/api/v1/namespaces/{namespace}"
BUDGETS = "/apis/policy/{version}/namespaces/{namespace}/poddisruptionbudgets"
HELD_IMAGE = "127.0.0.1:1/batchq-held:1"
SMALL = {"cpu": "8", "memory": "8Gi", "pods": "110"}
TWO_CORES = {"cpu": "2", "memory": "4Gi", "pods": "110"}  # as the nodes of the bed
CHECKPOINT_SIGNALS = {"USR1", "USR2", "HUP", "INT"}


def now():
    return datetime.now(UTC)


def stamp(at):
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def failure(code, reason, message):
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(body, status=code)


def node(name, allocatable=SMALL, *, ready=True, labels=None, taints=(), unschedulable=False):
    return {
        "metadata": {"name": name, "uid": str(uuid4()), "labels": labels or {}, "creationTimestamp": stamp(now())},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {
            "allocatable": allocatable,
            "conditions": [
                {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": stamp(now())}
            ],
        },
    }


class ModelCluster:
    """The state of the cluster. Handlers change it; `app` serves it."""

    def __init__(self, *, kubelet=True, minor=36, grace=0.1):
        self.kubelet = kubelet
        self.minor = minor
        #: Seconds between SIGTERM and SIGKILL of the model's kubelets, in place of two and more.
        self.grace = grace
        self.namespace_uid = str(uuid4())
        self.nodes = {"n1": node("n1"), "n2": node("n2")}
        #: The names of the nodes whose kubelets report nothing, and do not answer.
        self.cut = set()
        self.pods, self.secrets, self.services, self.events, self.budgets = {}, {}, {}, {}, {}
        #: Pods of other namespaces.
        self.others = []
        #: Images that are not on the nodes, with the error of their pull.
        self.missing_images = {HELD_IMAGE: f'failed to pull and unpack image "{HELD_IMAGE}"'}
        #: Changes each pod that is created, as an admission webhook does.
        self.webhook = lambda _pod: None
        #: Whether the images have a shell.
        self.has_shell = True
        #: Whether a running container ends when its image changes.
        self.ends_changed_containers = True
        #: The rights that the caller does not have: verb, resource, and namespace, which is empty for the cluster.
        self.denied = set()
        #: The shell commands that ran, or were to run, in containers.
        self.commands = []
        #: The method and path of each request.
        self.calls = []
        #: How many events each watch got, by path.
        self.sent = Counter()
        #: How often a container was started, by its id: the uid of its pod, with the name if the node has one.
        self.starts = Counter()
        #: Decides the fault of each request: `refused`, `lost`, `late`, `twice`, or the status
        #: and the message of an error; None: no fault.
        self.fault = lambda _method, _path: None
        self.oldest_version = 0
        #: The logs that tests write, by the name of the pod; others are the output of scripts.
        self.logs = {}
        self._streams = set()
        self._version = count(1)
        self._history = []
        #: Each object at its last change, by uid.
        self._saved = {}
        #: The watches: the path of each, by the queue of its changes.
        self._watchers = {}
        self._containers = {}
        #: The names of the containers whose programs could not be started, by the uid of the pod.
        self._refused = defaultdict(set)
        self._bound = 0
        #: The checkpoints that containers will write.
        self._planned_checkpoints = []
        self._timers = set()
        self._late = []
        self.app = web.Application(middlewares=[self._with_fault])
        self._add_routes()

    def _add_routes(self):
        pods = f"{NAMESPACE}/pods"
        self.app.add_routes(
            [
                web.get("/version", self._version_of),
                web.get("/api/v1/nodes", self._get_nodes),
                web.get("/api/v1/pods", self._get_all_pods),
                web.get(NAMESPACE, self._namespace),
                web.get(pods, self._get_pods),
                web.post(pods, self._create),
                web.get(f"{pods}/{{name}}", self._get),
                web.patch(f"{pods}/{{name}}", self._patch),
                web.delete(f"{pods}/{{name}}", self._delete),
                web.post(f"{pods}/{{name}}/binding", self._bind),
                web.get(f"{pods}/{{name}}/log", self._log),
                web.get(f"{pods}/{{name}}/exec", self._exec),
                web.get(f"{NAMESPACE}/events", self._get_events),
                web.post(f"{NAMESPACE}/secrets", self._create_secret),
                web.get(f"{NAMESPACE}/secrets/{{name}}", self._get_secret),
                web.delete(f"{NAMESPACE}/secrets/{{name}}", self._delete_secret),
                web.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", self._review),
                web.post(f"{NAMESPACE}/services", self._create_service),
                web.get(f"{NAMESPACE}/services/{{name}}", self._get_service),
                web.post(f"{pods}/{{name}}/eviction", self._evict),
                web.get(BUDGETS, self._get_budgets),
                web.post(BUDGETS, self._create_budget),
                web.delete(f"{BUDGETS}/{{name}}", self._delete_budget),
            ]
        )

    # What tests do

    def set_status(self, name, **status):
        """Write the status of a pod, as a kubelet does."""
        pod = self.pods[name]
        pod["status"] = pod.get("status", {}) | status
        self._save(pod, "MODIFIED")
        self._remove_if_over(pod)

    def set_container(self, name, state, container="main", **status):
        """Write the state of one of the pod's containers, as a kubelet does."""
        self._put_status(self.pods[name], {"name": container, "state": state, "restartCount": 0} | status)
        self.set_status(name)

    def set_node(self, name, changed):
        """Change or add a node; None removes the node."""
        removed = self.nodes.pop(name, None)
        if changed is not None:
            self.nodes[name] = changed
        self._save(changed or removed, "DELETED" if changed is None else "MODIFIED")

    def lose_node(self, name, changed=None):
        """Let the kubelet of a node answer no more. `changed`: the node object; None: it is deleted."""
        self.cut.add(name)
        self.set_node(name, changed)

    def restore_node(self, name):
        """Let the kubelet of a lost node answer again, as a new node object if the old one was deleted."""
        self.cut.discard(name)
        self.set_node(name, node(name))
        for pod in [pod for pod in self.pods.values() if self._node_of(pod) == name]:
            self._report(pod)

    def collect_pods(self):
        """End the pods of nodes that were deleted, as the controller of deleted nodes does some time later."""
        for pod in [pod for pod in self.pods.values() if (self._node_of(pod) or "n1") not in self.nodes]:
            disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
            deleted = {"deletionTimestamp": stamp(now()), "deletionGracePeriodSeconds": 0}
            pod["metadata"] |= deleted
            self.set_status(pod["metadata"]["name"], phase="Failed", conditions=[disrupted])

    def set_other(self, pod, *, removed=False):
        """Change or add a pod of another namespace, or remove the pod."""
        self.others = [other for other in self.others if other["metadata"]["uid"] != pod["metadata"]["uid"]]
        self.others += [] if removed else [pod]
        self._save(pod, "DELETED" if removed else "MODIFIED")

    def bookmark(self):
        self._send("BOOKMARK", {"metadata": {"resourceVersion": str(next(self._version))}})

    def compact(self):
        """Forget all changes: a watch of an older version is answered with 410."""
        self._history.clear()
        self.oldest_version = next(self._version)

    def backup(self):
        """The pods, as a backup of etcd has them."""
        return next(self._version), deepcopy(self.pods)

    def restore(self, backup):
        """Go on with the pods and from the version of a backup. Kubelets end containers whose pods they do not see."""
        version, self.pods = backup
        self._version, self._history = count(version), []
        self._saved = {pod["metadata"]["uid"]: deepcopy(pod) for pod in self.pods.values()}
        bound = {pod["metadata"]["uid"] for pod in self.pods.values() if self._node_of(pod) is not None}
        self._containers = {key: found for key, found in self._containers.items() if key[0] in bound}
        self.end_watches()

    async def watched(self, path="/api/v1/namespaces/jobs/pods"):
        """Wait until a watch of the path is connected."""
        while path not in self._watchers.values():  # noqa: ASYNC110 - the model sets no event
            await asyncio.sleep(0.001)

    def end_watches(self, path=""):
        """End the watches of paths that begin with `path`."""
        for queue, watched in self._watchers.items():
            if watched.startswith(path):
                queue.put_nowait(None)

    def break_streams(self):
        """Break the connections of followed logs."""
        for task in self._streams:
            task.cancel()

    async def run_late_calls(self):
        """Carry out the calls that were late."""
        late, self._late = self._late, []
        for handler, request in late:
            await handler(request)

    async def close(self):
        self.end_watches()
        for timer in self._timers:
            timer.cancel()

    # Requests

    @web.middleware
    async def _with_fault(self, request, handler):
        self.calls.append((request.method, request.path))
        await request.read()
        match self.fault(request.method, request.path):
            case (status, message):
                return failure(status, "Error", message)
            case "refused":
                return failure(503, "ServiceUnavailable", "the model refuses")
            case "late":
                self._late.append((handler, request))
            case "lost":
                await handler(request)
            case "twice":
                first = await handler(request)
                await handler(request)
                return first
            case _:
                return await handler(request)
        request.transport.abort()
        raise asyncio.CancelledError

    async def _version_of(self, _request):
        return web.json_response({"major": "1", "minor": str(self.minor)})

    async def _namespace(self, request):
        return web.json_response({"metadata": {"name": request.match_info["namespace"], "uid": self.namespace_uid}})

    async def _serve_list(self, request, items, belongs):
        """A page of a list, or a watch. `belongs`: whether an object is one of the path and has the label."""
        if "watch" in request.query:
            return await self._watch(request, belongs)
        selected = [item for item in items if belongs(item) and _has_fields(request, item)]
        begin, limit = int(request.query.get("continue", 0)), int(request.query.get("limit", len(selected)))
        metadata = {"resourceVersion": str(next(self._version))}
        if begin + limit < len(selected):
            metadata["continue"] = str(begin + limit)
        return web.json_response({"metadata": metadata, "items": selected[begin : begin + limit]})

    async def _get_nodes(self, request):
        return await self._serve_list(request, self.nodes.values(), _is_node)

    async def _get_all_pods(self, request):
        return await self._serve_list(request, [*self.pods.values(), *self.others], partial(_is_pod, request=request))

    async def _get_pods(self, request):
        return await self._serve_list(request, self.pods.values(), partial(_is_pod, request=request))

    async def _watch(self, request, belongs):
        response = web.StreamResponse()
        await response.prepare(request)
        since, queue = int(request.query["resourceVersion"]), asyncio.Queue()
        if since < self.oldest_version:
            expired = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            await response.write(json.dumps({"type": "ERROR", "object": expired}).encode() + b"\n")
            return response
        for version, *change in self._history:
            if version > since:
                queue.put_nowait(change)
        self._watchers[queue] = request.path
        try:
            while (change := await queue.get()) is not None:
                kind, changed, before = change
                if int(changed["metadata"]["resourceVersion"]) <= since:
                    continue  # the watch is of the time before a restore
                if kind != "BOOKMARK" and not (_has_fields(request, changed) and belongs(changed)):
                    # A test may have added the object without an event.
                    was_selected = (
                        belongs(changed) if before is None else _has_fields(request, before) and belongs(before)
                    )
                    if kind == "ADDED" or not was_selected:
                        continue
                    kind = "DELETED"  # it has left the selection
                self.sent[request.path] += 1
                await response.write(json.dumps({"type": kind, "object": changed}).encode() + b"\n")
        finally:
            del self._watchers[queue]
        return response

    async def _create(self, request):
        pod = await request.json()
        name = pod["metadata"]["name"]
        if name in self.pods:
            return failure(409, "AlreadyExists", f'pods "{name}" already exists')
        self.webhook(pod)
        pod["metadata"] |= {"uid": str(uuid4()), "creationTimestamp": stamp(now())}
        pod["status"] = {"phase": "Pending"}
        self.pods[name] = pod
        self._save(pod, "ADDED")
        return web.json_response(pod, status=201)

    async def _get(self, request):
        pod = self.pods.get(request.match_info["name"])
        return _not_found(request) if pod is None else web.json_response(self._refreshed(pod))

    async def _patch(self, request):
        pod, patch = self.pods.get(request.match_info["name"]), await request.json()
        if pod is None:
            return _not_found(request)
        if request.content_type == "application/json-patch+json":
            return self._patch_by_pointers(pod, patch)
        metadata, spec = patch.get("metadata", {}), patch.get("spec", {})
        if metadata.get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            return failure(422, "Invalid", "metadata.uid: Invalid value: field is immutable")
        deadline, before = spec.get("activeDeadlineSeconds"), pod["spec"].get("activeDeadlineSeconds")
        if deadline is not None and before is not None and deadline > before:
            return failure(422, "Invalid", "spec.activeDeadlineSeconds: must be less than or equal to previous value")
        for kind in ("annotations", "labels"):
            pod["metadata"].setdefault(kind, {}).update(metadata.get(kind, {}))
        if "finalizers" in metadata:
            pod["metadata"]["finalizers"] = metadata["finalizers"]
        if request.content_type == "application/strategic-merge-patch+json":
            removed = metadata.get("$deleteFromPrimitiveList/finalizers", ())
            pod["metadata"]["finalizers"] = [name for name in pod["metadata"]["finalizers"] if name not in removed]
        if deadline is not None:
            pod["spec"]["activeDeadlineSeconds"] = deadline
            self._stop(pod, reason="DeadlineExceeded")
        self._save(pod, "MODIFIED")
        self._remove_if_over(pod)
        return web.json_response(pod)

    def _patch_by_pointers(self, pod, changes):
        """Apply a JSON patch, or nothing of it if one of its tests fails."""
        changed = deepcopy(pod)
        for change in changes:
            *folders, last = [part.replace("~1", "/").replace("~0", "~") for part in change["path"].split("/")[1:]]
            target = changed
            for folder in folders:
                target = target[int(folder) if isinstance(target, list) else folder]
            is_refused = change["op"] == "test" and target.get(last) != change["value"]
            if is_refused or (change["op"] == "replace" and last not in target):
                return failure(422, "Invalid", "the server rejected our request due to an error in our request")
            target[last] = change["value"]
        pod["metadata"], pod["spec"] = changed["metadata"], changed["spec"]
        self._save(pod, "MODIFIED")
        is_deleted = "deletionTimestamp" in pod["metadata"]
        if self.kubelet and "nodeName" in pod["spec"] and not is_deleted and not self._is_cut(pod):
            self._apply_images(pod)
        return web.json_response(pod)

    async def _delete(self, request):
        pod, options = self.pods.get(request.match_info["name"]), await request.json()
        if pod is None:
            return _not_found(request)
        if options.get("preconditions", {}).get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            return failure(409, "Conflict", "the UID in the precondition does not match the UID in record")
        if "deletionTimestamp" not in pod["metadata"]:
            grace = options.get("gracePeriodSeconds", pod["spec"]["terminationGracePeriodSeconds"])
            bound = "nodeName" in pod["spec"]
            pod["metadata"] |= {
                "deletionTimestamp": stamp(now()),
                "deletionGracePeriodSeconds": grace if bound and not _is_over(pod) else 0,
            }
            self._save(pod, "MODIFIED")
            if bound:
                self._stop(pod)
        self._remove_if_over(pod)
        return web.json_response(pod)

    async def _bind(self, request):
        name, binding = request.match_info["name"], await request.json()
        pod = self.pods.get(name)
        if pod is None:
            return _not_found(request)
        if binding["metadata"].get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"] and self.minor >= 27:
            return failure(409, "Conflict", "Precondition failed: UID in precondition")
        if "deletionTimestamp" in pod["metadata"]:
            return failure(409, "Conflict", f"pod {name} is being deleted, cannot be assigned to a host")
        if "nodeName" in pod["spec"]:
            return failure(409, "Conflict", f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
        pod["spec"]["nodeName"] = binding["target"]["name"]
        pod["metadata"].setdefault("annotations", {}).update(binding["metadata"].get("annotations", {}))
        self._save(pod, "MODIFIED")
        if self.kubelet and not self._is_cut(pod):
            self._start(pod)
        return web.json_response({"kind": "Status", "status": "Success", "code": 201}, status=201)

    async def _log(self, request):
        pod = self.pods.get(request.match_info["name"])
        if pod is None:
            return _not_found(request)
        if self._is_cut(pod):
            return failure(500, "InternalError", "dial tcp: i/o timeout")
        container = self._containers.get(_key(pod, request.query["container"]))
        if container is None:
            bound = "nodeName" in pod["spec"]
            return failure(400, "BadRequest", "container is waiting to start") if bound else web.Response(status=204)
        since = request.query.get("sinceTime", "")
        if (written := self.logs.get(pod["metadata"]["name"])) is not None:
            return await self._written_log(request, written, since)
        lines = [f"{precise(line.at)} {line.message}\n" for line in container.lines()]
        return web.Response(text="".join(line for line in lines if line[: len(since)] >= since))

    async def _written_log(self, request, written, since):
        if "follow" not in request.query:
            return web.Response(text=written.newest(since))
        response = web.StreamResponse()
        await response.prepare(request)
        task = asyncio.current_task()
        self._streams.add(task)
        try:
            await written.follow(since, response.write)
        finally:
            self._streams.discard(task)
        return response

    async def _exec(self, request):
        pod = self.pods.get(request.match_info["name"])
        container = None if pod is None else self._containers.get(_key(pod, request.query["container"]))
        if pod is not None and self._is_cut(pod):
            return failure(500, "InternalError", "dial tcp: i/o timeout")
        if container is None or container.inspect(now()).state is not ContainerState.RUNNING:
            return failure(500, "InternalError", 'container not found ("main")')
        if "*/*" not in request.headers.get("Accept", "*/*"):
            return failure(406, "NotAcceptable", "406: Not Acceptable")
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io", "v4.channel.k8s.io"))
        await socket.prepare(request)
        self.commands.append(request.query.getall("command")[-1])
        if self.has_shell:
            self._signal(pod, container, re.search(r"kill -s (\w+)", request.query.getall("command")[-1])[1])
            status = {"status": "Success"}
        else:
            message = 'exec: "sh": executable file not found in $PATH'
            status = {"status": "Failure", "reason": "InternalError", "message": message}
        await socket.send_bytes(b"\3" + json.dumps(status).encode())
        while (await socket.receive()).type not in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED):
            pass
        return socket

    async def _get_events(self, request):
        _, _, name = request.query.get("fieldSelector", "").partition("=")
        return web.json_response({"items": self.events.get(name, [])})

    async def _create_secret(self, request):
        secret = await request.json()
        name = secret["metadata"]["name"]
        if name in self.secrets:
            return failure(409, "AlreadyExists", f'secrets "{name}" already exists')
        secret["metadata"]["uid"] = str(uuid4())
        self.secrets[name] = secret
        return web.json_response(secret, status=201)

    async def _get_secret(self, request):
        secret = self.secrets.get(request.match_info["name"])
        return _not_found(request) if secret is None else web.json_response(secret)

    async def _delete_secret(self, request):
        secret, options = self.secrets.get(request.match_info["name"]), await request.json()
        if secret is None:
            return _not_found(request)
        if options["preconditions"]["uid"] != secret["metadata"]["uid"]:
            return failure(409, "Conflict", "the UID in the precondition does not match the UID in record")
        return web.json_response(self.secrets.pop(request.match_info["name"]))

    async def _review(self, request):
        found = (await request.json())["spec"]["resourceAttributes"]
        resource = f"{found['resource']}/{found['subresource']}" if found["subresource"] else found["resource"]
        is_allowed = (found["verb"], resource, found["namespace"]) not in self.denied
        return web.json_response({"status": {"allowed": is_allowed}}, status=201)

    async def _create_service(self, request):
        service = await request.json()
        if service["metadata"]["name"] in self.services:
            return failure(409, "AlreadyExists", "the service already exists")
        self.services[service["metadata"]["name"]] = service
        return web.json_response(service, status=201)

    async def _get_service(self, request):
        service = self.services.get(request.match_info["name"])
        return _not_found(request) if service is None else web.json_response(service)

    async def _evict(self, request):
        pod = self.pods.get(request.match_info["name"])
        if pod is None:
            return _not_found(request)
        labels = pod["metadata"].get("labels", {}).items()
        if any(budget["spec"]["selector"]["matchLabels"].items() <= labels for budget in self.budgets.values()):
            return failure(429, "TooManyRequests", "it would violate the pod's disruption budget")
        pod["metadata"] |= {"deletionTimestamp": stamp(now()), "deletionGracePeriodSeconds": 1}
        self._stop(pod)
        return web.json_response({"status": "Success"}, status=201)

    def _has_budgets(self, request):
        """Whether the version of the API exists on this server."""
        return request.match_info["version"] == ("v1" if self.minor >= 21 else "v1beta1")

    async def _get_budgets(self, request):
        if not self._has_budgets(request):
            return failure(404, "NotFound", "the server could not find the requested resource")
        found = [budget for budget in self.budgets.values() if _is_selected(budget, request)]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": found})

    async def _create_budget(self, request):
        budget = await request.json()
        if not self._has_budgets(request):
            return failure(404, "NotFound", "the server could not find the requested resource")
        if budget["metadata"]["name"] in self.budgets:
            return failure(409, "AlreadyExists", "the budget already exists")
        self.budgets[budget["metadata"]["name"]] = budget
        return web.json_response(budget, status=201)

    async def _delete_budget(self, request):
        budget = self.budgets.pop(request.match_info["name"], None)
        return _not_found(request) if budget is None else web.json_response({"status": "Success"})

    # The kubelets

    def _start(self, pod):
        self._bound += 1
        pod["status"] |= {"startTime": stamp(now()), "podIP": f"10.0.{self._bound // 250}.{self._bound % 250 + 1}"}
        self._apply_images(pod)

    def _apply_images(self, pod):
        """Start the containers whose images can be pulled, each once, and end those whose images have changed."""
        for container in pod["spec"]["containers"]:
            running = self._containers.get(_key(pod, container["name"]))
            if running is None and container["name"] not in self._refused[pod["metadata"]["uid"]]:
                self._start_container(pod, container)
            elif (
                running is not None
                and container["image"] == HELD_IMAGE
                and not _is_over(pod)
                and self.ends_changed_containers
            ):
                running.stop_requested_at = running.stop_requested_at or now()
                running.killed_at = running.killed_at or now() + timedelta(seconds=self.grace)
                self._report(pod)

    def _start_container(self, pod, described):
        name, image = described["name"], described["image"]
        if image in self.missing_images:
            waiting = {"reason": "ErrImagePull", "message": self.missing_images[image]}
            self.set_container(pod["metadata"]["name"], {"waiting": waiting}, name, image=image)
            return
        container = _container_of(pod, described)
        try:
            container.start(now())
        except StartRefused as refused:
            self._refused[pod["metadata"]["uid"]].add(name)
            text = f'failed to create containerd task: exec: "x": {refused.reason.partition(": ")[2]}'
            ended = {"reason": "StartError", "exitCode": 128, "message": text, "startedAt": "1970-01-01T00:00:00Z"}
            self.set_container(pod["metadata"]["name"], {"terminated": ended | {"finishedAt": stamp(now())}}, name)
            self.set_status(pod["metadata"]["name"], phase=_phase(pod))
            return
        self.starts[_id(pod, name)] += 1
        self._containers[_key(pod, name)] = container
        for checkpoint in container.script.checkpoints:
            self._plan_checkpoint(container, checkpoint, container.started_at)
        self._report(pod)

    def _signal(self, pod, container, signal):
        script = container.script
        if signal == "TERM":
            self._send_stop_signal(container)
        elif signal in CHECKPOINT_SIGNALS and (script.on_request is not None or script.request_exit is not None):
            at = now()
            container.requested_at = container.requested_at or at
            self._plan_checkpoint(container, script.on_request, at + timedelta(seconds=script.request_delay))
        self._report(pod)

    def _send_stop_signal(self, container):
        if container.stop_requested_at is None:
            script, container.stop_requested_at = container.script, now()
            at = container.stop_requested_at + timedelta(seconds=script.term_delay)
            self._plan_checkpoint(container, script.term_checkpoint, at)

    def _plan_checkpoint(self, container, name, at):
        folder = container.launch.checkpoint_directory
        if name is not None and folder is not None:
            self._planned_checkpoints.append(PlannedCheckpoint(container, Path(folder, name), at))
            delay = max(0.0, (at - now()).total_seconds())
            self._timers.add(asyncio.get_running_loop().call_later(delay, self._write_checkpoints))

    def _write_checkpoints(self):
        """Write the checkpoints that are due."""
        at, planned = now(), self._planned_checkpoints
        self._planned_checkpoints = [checkpoint for checkpoint in planned if checkpoint.at > at]
        for checkpoint in planned:
            if checkpoint.at <= at:
                checkpoint.write()

    def _stop(self, pod, *, reason=None):
        """SIGTERM, and SIGKILL after the grace. A pod without a running container ends."""
        name = pod["metadata"]["name"]
        if not self.kubelet or _is_over(pod) or self._is_cut(pod):
            return
        running = [container for _, container in self._of(pod)]
        if not running:
            if "nodeName" in pod["spec"]:
                unknown = {"reason": "ContainerStatusUnknown", "exitCode": 137, "startedAt": None, "finishedAt": None}
                for other_container in pod["spec"]["containers"]:
                    if other_container["name"] not in self._refused[pod["metadata"]["uid"]]:
                        self.set_container(name, {"terminated": unknown}, other_container["name"])
                self._end(pod, reason)
            return
        for container in running:
            self._send_stop_signal(container)
            container.killed_at = container.killed_at or now() + timedelta(seconds=self.grace)
        if reason is not None:
            pod["status"]["reason"] = reason
        self._report(pod)

    def _of(self, pod):
        """The containers of the pod that were started, by name."""
        return [
            (container["name"], self._containers[_key(pod, container["name"])])
            for container in pod["spec"].get("containers", ())
            if _key(pod, container["name"]) in self._containers
        ]

    def _report(self, pod):
        """Write the states of the containers, and write them again at their ends."""
        if self.pods.get(pod["metadata"]["name"]) is not pod or self._is_cut(pod):
            return
        self._write_state(pod)
        self._save(pod, "MODIFIED")
        ends = [end.at for _, container in self._of(pod) if (end := container.end()) is not None and end.at > now()]
        if _is_over(pod) or ("deletionTimestamp" in pod["metadata"] and not self._runs(pod)):
            self._end(pod, None)
        elif ends:
            delay = max(0.001, (min(ends) - now()).total_seconds())
            self._timers.add(asyncio.get_running_loop().call_later(delay, self._report, pod))

    def _node_of(self, pod):
        return pod["spec"].get("nodeName")

    def _is_cut(self, pod):
        """Whether the pod is on a node whose kubelet does not answer."""
        return self._node_of(pod) in self.cut

    def _runs(self, pod):
        return any(container.inspect(now()).state is ContainerState.RUNNING for _, container in self._of(pod))

    def _refreshed(self, pod):
        if self._of(pod) and not _is_over(pod) and not self._is_cut(pod):
            self._write_state(pod)
        return pod

    def _write_state(self, pod):
        self._write_checkpoints()  # a program writes its checkpoint before it ends
        for name, container in self._of(pod):
            found = container.inspect(now())
            container_id, started = f"containerd://{_id(pod, name)}", stamp(found.started_at)
            if found.state is ContainerState.RUNNING:
                state = {"running": {"startedAt": started}}
            else:
                reason = "Completed" if found.exit_code == 0 else "Error"
                ended = {"exitCode": found.exit_code, "reason": "OOMKilled" if found.out_of_memory else reason}
                times = {"startedAt": started, "finishedAt": stamp(found.stopped_at), "containerID": container_id}
                state = {"terminated": ended | times}
            self._put_status(pod, {"name": name, "state": state, "restartCount": 0, "containerID": container_id})
        pod["status"]["phase"] = _phase(pod)

    def _put_status(self, pod, status):
        others = [
            other_status
            for other_status in pod["status"].get("containerStatuses", ())
            if other_status["name"] != status["name"]
        ]
        pod["status"]["containerStatuses"] = [*others, status]

    def _end(self, pod, reason):
        pod["status"] |= {"phase": pod["status"]["phase"] if _is_over(pod) else "Failed"}
        if reason is not None:
            pod["status"]["reason"] = reason
        if "deletionTimestamp" in pod["metadata"]:
            pod["metadata"]["deletionGracePeriodSeconds"] = 0
        self._save(pod, "MODIFIED")
        self._remove_if_over(pod)

    # Storage

    def _remove_if_over(self, pod):
        """Remove a deleted pod without finalizers once it is unbound or has ended, with all that it owns."""
        name, metadata = pod["metadata"]["name"], pod["metadata"]
        is_over = "nodeName" not in pod["spec"] or _is_over(pod)
        if "deletionTimestamp" in metadata and not metadata.get("finalizers") and is_over and name in self.pods:
            del self.pods[name]
            self._save(pod, "DELETED")
            for kind in (self.secrets, self.services):
                for owned in [key for key, owned in kind.items() if _owner(owned) == metadata["uid"]]:
                    del kind[owned]

    def _save(self, pod, kind):
        pod["metadata"]["resourceVersion"] = str(next(self._version))
        before, changed = self._saved.get(pod["metadata"]["uid"]), deepcopy(pod)
        self._saved[pod["metadata"]["uid"]] = changed
        self._history.append((int(pod["metadata"]["resourceVersion"]), kind, changed, before))
        self._send(kind, changed, before)

    def _send(self, kind, changed, before=None):
        for queue in self._watchers:
            queue.put_nowait((kind, changed, before))


def _is_pod(found, request):
    return not _is_node(found) and _is_selected(found, request)


def _is_selected(found, request):
    """Whether the request's label selector selects the object: `KEY=VALUE`, `KEY!=VALUE` or `!KEY` are its parts."""
    labels = found["metadata"].get("labels", {})
    for part in request.query.get("labelSelector", "").split(","):
        key, operator, value = re.match(r"(!?[^!=]*)(!?=?)(.*)", part).groups()
        if key.startswith("!") and key[1:] in labels:
            return False
        if operator and (labels.get(key) == value) != (operator == "="):
            return False
    return True


def _is_node(found):
    return "allocatable" in found.get("status", {})


def _has_fields(request, found):
    """Whether the object has the fields that the request selects: a name, a node, no terminal phase."""
    fields = [
        re.match(r"([^!=]*)(!?=)(.*)", each) for each in request.query.get("fieldSelector", "").split(",") if each
    ]
    return all((_field(found, each[1]) == each[3]) == (each[2] == "=") for each in fields)


def _field(found, path):
    for name in path.split("."):
        found = found.get(name, "" if name == path.rpartition(".")[2] else {})
    return found


def _is_over(pod):
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _owner(secret):
    return secret["metadata"]["ownerReferences"][0]["uid"]


def _not_found(request):
    return failure(404, "NotFound", f'"{request.match_info["name"]}" not found')


def _phase(pod):
    """Failed or Succeeded once all containers have ended, Pending while one waits."""
    states = {status["name"]: status["state"] for status in pod["status"].get("containerStatuses", ())}
    if any("terminated" not in states.get(container["name"], {}) for container in pod["spec"]["containers"]):
        waits = any("running" not in state and "terminated" not in state for state in states.values())
        return "Pending" if waits else "Running"
    return "Failed" if any(state["terminated"]["exitCode"] for state in states.values()) else "Succeeded"


def _key(pod, name):
    return pod["metadata"]["uid"], name


def _id(pod, name):
    uid = pod["metadata"]["uid"]
    return f"{uid}/{name}" if "io.batchq.node" in pod["metadata"]["annotations"] or name != "main" else uid


def _host_path_at(mount_path, pod, container):
    """The host path that is mounted at a path of the container; None: none is."""
    paths = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in pod["spec"].get("volumes", ())}
    mounts = container.get("volumeMounts", ())
    return next((paths[mount["name"]] for mount in mounts if mount["mountPath"] == mount_path), None)


def _container_of(pod, container):
    """The simulated container that plays the script in the container's variables."""
    variables = {item["name"]: item.get("value", "").replace("$$", "$") for item in container.get("env", ())}
    noted = pod["metadata"]["annotations"]
    tag = Tag(job_id=JobId(noted["io.batchq.job"]), attempt=int(noted["io.batchq.attempt"]))
    spec = ContainerSpec(image=container["image"], resources=Resources(millicpus=1, memory_mib=1))
    launch = LaunchSpec(
        tag=tag,
        spec=spec,
        environment=tuple(variables.items()),
        checkpoint_directory=_host_path_at(MOUNT_POINT, pod, container),
    )
    return SimulatedContainer(
        id=_id(pod, container["name"]),
        launch=launch,
        script=read(variables, tag.attempt, job_name="", outcomes=NO_OUTCOMES),
    )
