"""`python -m tests.bench.many_nodes` measures batchq on a cluster with thousands of nodes and pods, of which none runs.

    python -m tests.kubernetes.bed run .venv/bin/python -m tests.bench.many_nodes --nodes 5000 --pods 20000

The API server and etcd are real. Nodes and pods are objects only, copies of one that a kubelet wrote: a stand-in for
all kubelets reports that each pod of a job runs, and then that it has ended. The kubelets of the bed are cordoned, and
its controllers are stopped meanwhile, because they would remove nodes without a kubelet.
"""

import argparse
import asyncio
import os
import signal
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from copy import deepcopy
from datetime import UTC, datetime
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

from batchq.compute.kubernetes.connection import load_cluster
from batchq.compute.kubernetes.pod_names import INSTANCE
from batchq.compute.kubernetes.rest import MERGE_PATCH, RestClient
from batchq.system.clock import SystemClock
from tests.bench.groups.kubernetes import CLUSTER, PROGRAMS, bare_pod, changes
from tests.bench.services import QUEUE, define, environment
from tests.bench.wire import Caller
from tests.kubernetes.bed.__main__ import STATE
from tests.support.processes import cpu_of, peak_memory_of
from tests.support.service import Service, serving

AT_ONCE = 16  # requests
OTHERS = "others"  # the namespace of the pods that batchq did not create
VCPUS = 1000  # of the compute environment, beside those of jobs that run all the time
STAYS = ("sleep", "1000000")  # the command of these
LONGEST = 300.0  # seconds for all jobs
RUNS = 1.0  # seconds of each job
PROBE_PAUSE = 0.1  # seconds between two requests that measure how long the server does not answer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.many_nodes", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20_000, help="pods of others, which run")
    parser.add_argument("--running", type=int, default=2000, help="jobs that run all the time")
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--idle-seconds", type=float, default=60)
    given = parser.parse_args()
    reference = os.environ.get(CLUSTER)
    if reference is None:
        raise SystemExit(f"{CLUSTER} names no cluster")
    controllers = int((STATE / "kube-controller-manager.pid").read_text())
    os.kill(controllers, signal.SIGSTOP)
    try:
        status = asyncio.run(fill(reference, nodes=given.nodes, pods=given.pods))
        measure(reference, status, given)
    finally:
        os.kill(controllers, signal.SIGCONT)


def measure(reference: str, status: dict[str, Any], given: argparse.Namespace) -> None:
    without = ("env", "-u", CLUSTER, "-u", PROGRAMS)  # a server refuses variables that are not settings
    flags = ("--kubernetes", reference, "--kubernetes-unsupported")
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data", *flags, under=without) as service:
        began = time.perf_counter()
        batch = service.client()
        environment(batch, QUEUE, given.running + VCPUS)
        define(batch, "true", "true")
        define(batch, "stays", *STAYS)
        with kubelets(reference, service.instance, status):
            run(service, 1)
            print(f"the first job ended after {time.perf_counter() - began:.1f} s", flush=True)
            print(f"idle: {spent(service, lambda: time.sleep(given.idle_seconds))}", flush=True)
            began = time.perf_counter()
            print(f"{given.jobs} jobs: {spent(service, lambda: run(service, given.jobs))}")
            print(f"  {given.jobs / (time.perf_counter() - began):.1f} jobs/s", flush=True)
            run(service, given.running, definition="stays", until="RUNNING")
            print(f"{given.running} running: {spent(service, lambda: time.sleep(given.idle_seconds))}")
        print(f"at most {peak_memory_of(service.process.pid):.0f} MiB; blocked by: {service.blocked_by() or 'nothing'}")


def spent(service: Service, work: Callable[[], None]) -> str:
    """The CPU of the server during the work, and how long requests to the server took."""
    delays: list[float] = []
    done = threading.Event()

    def probe() -> None:
        while not done.is_set():
            call = Caller(service.url)
            began = time.perf_counter()
            call.get("/healthz")
            delays.append((time.perf_counter() - began) * 1000)
            call.close()
            done.wait(PROBE_PAUSE)

    prober = threading.Thread(target=probe)
    prober.start()
    before, began = cpu_of(service.process.pid), time.perf_counter()
    work()
    cpu, took = cpu_of(service.process.pid) - before, time.perf_counter() - began
    done.set()
    prober.join()
    return (
        f"{cpu:.2f} s of CPU in {took:.1f} s, {cpu / took * 100:.1f} % of a core; of {len(delays)} requests "
        f"the median took {median(delays):.1f} ms, the slowest {max(delays):.0f} ms"
    )


def run(service: Service, count: int, *, definition: str = "true", until: str = "SUCCEEDED") -> None:
    """Submit an array, and wait until all its children have this status. Raises RuntimeError."""
    call = Caller(service.url)
    size = {"arrayProperties": {"size": max(count, 2)}}
    job = call("submitjob", jobName="many", jobQueue=QUEUE, jobDefinition=definition, **size)["jobId"]
    end, reached = time.monotonic() + LONGEST, 0
    while reached < count:
        described = call("describejobs", jobs=[job])["jobs"][0]
        reached = described["arrayProperties"]["statusSummary"].get(until, 0)
        if described["status"] == "FAILED" or time.monotonic() > end:
            raise RuntimeError(f"only {reached} of {count} jobs are {until}: {described}")
        time.sleep(1)
    call.close()


class Cluster:
    """The API server, as the administrator."""

    def __init__(self, reference: str) -> None:
        self.rest = RestClient(load_cluster(reference), SystemClock())
        self._room = asyncio.Semaphore(AT_ONCE)

    async def send(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        kind = MERGE_PATCH if method == "PATCH" else "application/json"
        async with self._room:
            reply = await self.rest.request(method, path, body=body, content_type=kind)
        if not reply.ok:
            raise RuntimeError(f"{method} {path}: {reply.message}")
        return reply.body

    async def create(self, path: str, body: dict[str, Any], status: dict[str, Any]) -> None:
        name = (await self.send("POST", path, body))["metadata"]["name"]
        await self.send("PATCH", f"{path}/{name}/status", {"status": status})


@asynccontextmanager
async def connected(reference: str) -> AsyncIterator[Cluster]:
    cluster = Cluster(reference)
    try:
        yield cluster
    finally:
        await cluster.rest.close()


async def fill(reference: str, *, nodes: int, pods: int) -> dict[str, Any]:
    """Cordon the cluster's nodes, and create copies of nodes and running pods. Returns the status of such a pod."""
    async with connected(reference) as cluster:
        real = (await cluster.rest.get("/api/v1/nodes")).body["items"]
        status = await status_of_a_pod(cluster, real[0]["metadata"]["name"])
        for node in real:
            await cluster.send("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", {"spec": {"unschedulable": True}})
        names = [f"copy-{number:05}" for number in range(nodes)]
        await asyncio.gather(*(create_node(cluster, real[0], name) for name in names))
        await cluster.send("POST", "/api/v1/namespaces", {"metadata": {"name": OTHERS}})
        account = {"metadata": {"name": "default"}}  # which the controllers would create
        await cluster.send("POST", f"/api/v1/namespaces/{OTHERS}/serviceaccounts", account)
        path, places = f"/api/v1/namespaces/{OTHERS}/pods", cycle(names)
        spreads = [bare_pod(f"other-{number}", "others", next(places)) for number in range(pods)]
        await asyncio.gather(*(cluster.create(path, pod, status) for pod in spreads))
        return status


async def create_node(cluster: Cluster, real: dict[str, Any], name: str) -> None:
    """A node like the real one, with more room."""
    metadata = {"name": name, "labels": real["metadata"]["labels"], "annotations": real["metadata"]["annotations"]}
    status, room = deepcopy(real["status"]), {"cpu": "16", "memory": "64Gi"}
    status |= {"allocatable": status["allocatable"] | room, "capacity": status["capacity"] | room}
    await cluster.create("/api/v1/nodes", {"metadata": metadata}, status)
    # The API server gives a new node a taint, which the controllers would remove.
    await cluster.send("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": []}})


async def status_of_a_pod(cluster: Cluster, node: str) -> dict[str, Any]:
    """What a kubelet writes as the status of a running pod."""
    pod = bare_pod(f"model-{uuid4().hex}", "model", node)
    pod["spec"]["containers"][0]["command"] = ["sleep", "60"]
    path = f"{cluster.rest.namespaced}/pods"
    async with aclosing(changes(cluster.rest, "bench=model")) as events:
        name = (await cluster.send("POST", path, pod))["metadata"]["name"]
        found = await anext(pod["status"] async for pod in events if pod["status"]["phase"] == "Running")
    await cluster.rest.request("DELETE", f"{path}/{name}", query=[("gracePeriodSeconds", "0")])
    return found


@contextmanager
def kubelets(reference: str, instance: str, status: dict[str, Any]) -> Iterator[None]:
    """The stand-in for all kubelets, in a process of its own."""
    process = get_context("spawn").Process(target=run_kubelets, args=(reference, instance, status), daemon=True)
    process.start()
    try:
        yield
        assert process.is_alive(), "the stand-in for the kubelets failed"
    finally:
        process.kill()
        process.join()


def run_kubelets(reference: str, instance: str, status: dict[str, Any]) -> None:
    asyncio.run(keep_kubelets(reference, instance, status))


async def keep_kubelets(reference: str, instance: str, status: dict[str, Any]) -> None:
    """Run each bound pod of the instance, and confirm its removal."""
    known, removed = set[str](), set[str]()
    async with (
        connected(reference) as cluster,
        asyncio.TaskGroup() as tasks,
        aclosing(changes(cluster.rest, f"{INSTANCE}={instance}", present=True)) as events,
    ):
        async for pod in events:
            metadata = pod["metadata"]
            if pod["spec"].get("nodeName") and metadata["uid"] not in known:
                known.add(metadata["uid"])
                tasks.create_task(run_pod(cluster, pod, status))
            is_released = metadata.get("deletionTimestamp") and not metadata.get("finalizers")
            if is_released and metadata["uid"] not in removed:
                removed.add(metadata["uid"])
                tasks.create_task(confirm_removal(cluster, pod))


async def run_pod(cluster: Cluster, pod: dict[str, Any], status: dict[str, Any]) -> None:
    """Report that the container of the pod runs, and after RUNS that it has ended, unless it stays."""
    path, running = f"{cluster.rest.namespaced}/pods/{pod['metadata']['name']}/status", deepcopy(status)
    container, began, identity = running["containerStatuses"][0], stamp(), f"containerd://{uuid4().hex}"
    container |= {"containerID": identity, "state": {"running": {"startedAt": began}}}
    await cluster.send("PATCH", path, {"status": running})
    if tuple(pod["spec"]["containers"][0]["args"]) == STAYS:
        return
    await asyncio.sleep(RUNS)
    end = {"exitCode": 0, "reason": "Completed", "startedAt": began, "finishedAt": stamp(), "containerID": identity}
    container |= {"state": {"running": None, "terminated": end}, "ready": False}
    await cluster.send("PATCH", path, {"status": running | {"phase": "Succeeded"}})


async def confirm_removal(cluster: Cluster, pod: dict[str, Any]) -> None:
    path, options = f"{cluster.rest.namespaced}/pods/{pod['metadata']['name']}", {"gracePeriodSeconds": 0}
    await cluster.rest.request("DELETE", path, body=options)


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


if __name__ == "__main__":
    main()
