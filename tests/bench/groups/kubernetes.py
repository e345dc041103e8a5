"""Jobs on Kubernetes against bare pods of the same client, on the cluster of BATCHQ_TEST_KUBERNETES.

python -m tests.kubernetes.bed run .venv/bin/python -m tests.bench --only kubernetes
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any
from uuid import uuid4

from batchq.compute.kubernetes.connection import load_cluster
from batchq.compute.kubernetes.list_watch import read_json_lines
from batchq.compute.kubernetes.pod_names import INSTANCE
from batchq.compute.kubernetes.rest import RestClient
from batchq.domain.ids import LABEL_TAG
from batchq.system.clock import SystemClock
from tests.bench.figures import Figure, Scale, at_least, interleaved, within
from tests.bench.groups.ends import until
from tests.bench.services import QUEUE, environment
from tests.bench.wire import Caller
from tests.kubernetes.bed.__main__ import PROGRAMS
from tests.service.waiting import container, reaches
from tests.support.processes import cpu_of
from tests.support.service import Service, serving

CLUSTER = "BATCHQ_TEST_KUBERNETES"
NODES = 2  # that are used
AT_ONCE = 8  # half of the CPUs of the bed: a kubelet counts a pod until it has been removed
MAX_PODS = 50  # in one measurement: a kubelet starts a few pods a second
VCPUS = 1  # of the compute environment of a node: together they have room for AT_ONCE jobs with a quarter
SIZE = [{"type": "VCPU", "value": "0.25"}, {"type": "MEMORY", "value": "32"}]
Run = tuple[float, float]  # jobs a second, milliseconds of CPU for each


def measure(scale: Scale, folder: Path) -> Iterator[Figure]:
    reference, count = os.environ.get(CLUSTER), min(scale.jobs, MAX_PODS)
    if reference is None:
        print(f"kubernetes: {CLUSTER} names no cluster", file=sys.stderr)
        return
    flags = ("--kubernetes", reference, "--kubernetes-unsupported")
    without = ("env", "-u", CLUSTER, "-u", PROGRAMS)  # a server refuses variables that are not settings
    with serving(folder / "data", *flags, under=without) as service:
        nodes = asyncio.run(names_of_nodes(reference))
        prepare(service, nodes)
        baseline, measured = interleaved(
            scale.pairs,
            lambda: asyncio.run(bare(reference, count, nodes)),
            lambda: asyncio.run(by_batchq(reference, service, count)),
        )
        yield Figure(
            name=f"jobs/s on Kubernetes, {count} x `true`, {AT_ONCE} at once",
            against="bare pods, created, watched and deleted by the same client",
            measured=[rate for rate, _ in measured],
            baseline=[rate for rate, _ in baseline],
            goal=at_least(0.9),
        )
        yield Figure(
            name="ms of the server's CPU for a pod",
            against=f"client CPU of bare pods: {sum(cpu for _, cpu in baseline) / len(baseline):.2f}",
            measured=[cpu for _, cpu in measured],
            goal=within(8),
        )
        delays = [asyncio.run(end_delay(reference, service)) for _ in range(scale.ones)]
        yield Figure(
            name="ms from the kubelet's report of an end, as a watch receives it, until SUCCEEDED is seen",
            measured=delays,
            goal=within(50),
        )


def prepare(service: Service, nodes: Sequence[str]) -> None:
    """Create the queue and the definitions, and run the first job.

    Each node has a compute environment, so that jobs are on both nodes, as bare pods are. In one environment they fill
    the first node, whose kubelet starts half as many pods a second.
    """
    batch = service.client()
    for node in nodes:
        environment(batch, node, VCPUS, **{f"{LABEL_TAG}kubernetes.io/hostname": node})
    order = [{"order": place, "computeEnvironment": node} for place, node in enumerate(nodes)]
    batch.create_job_queue(jobQueueName=QUEUE, priority=1, computeEnvironmentOrder=order)
    for name, command in (("true", ("true",)), ("sleeps", ("sleep", "2"))):
        properties = container(*command) | {"resourceRequirements": SIZE}
        batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)
    first = batch.submit_job(jobName="first", jobQueue=QUEUE, jobDefinition="true")["jobId"]
    reaches(batch, first, "SUCCEEDED")


async def names_of_nodes(reference: str) -> list[str]:
    rest = RestClient(load_cluster(reference), SystemClock())
    nodes = (await rest.get("/api/v1/nodes")).body["items"]
    await rest.close()
    return [node["metadata"]["name"] for node in nodes][:NODES]


async def by_batchq(reference: str, service: Service, count: int) -> Run:
    """From the submission of an array until a watch has received all ends: polling is work for the server."""
    rest, call, names = RestClient(load_cluster(reference), SystemClock()), Caller(service.url), set[str]()
    before = cpu_of(service.process.pid)

    async def follow() -> None:
        async with aclosing(changes(rest, f"{INSTANCE}={service.instance}")) as events:
            async for pod in events:
                if pod["metadata"]["name"] not in earlier and has_ended(pod):
                    names.add(pod["metadata"]["name"])
                if len(names) == count:
                    return

    pods = (await rest.get(f"{rest.namespaced}/pods")).body["items"]
    earlier = {pod["metadata"]["name"] for pod in pods}
    watch = asyncio.create_task(follow())
    await asyncio.sleep(0.5)
    began = time.perf_counter()
    size = {"arrayProperties": {"size": count}}
    job = call("submitjob", jobName="array", jobQueue=QUEUE, jobDefinition="true", **size)["jobId"]
    await watch
    took = time.perf_counter() - began
    await asyncio.sleep(3)  # the removal of the last pods
    spent = cpu_of(service.process.pid) - before
    assert call("describejobs", jobs=[job])["jobs"][0]["status"] == "SUCCEEDED"
    call.close()
    await rest.close()
    return count / took, spent / count * 1000


def has_ended(pod: dict[str, Any]) -> bool:
    return any("terminated" in each["state"] for each in pod["status"].get("containerStatuses") or ())


async def bare(reference: str, count: int, nodes: Sequence[str]) -> Run:
    """From the first creation of a pod until a watch has received all ends.

    Each is created on the node whose slot is free, as a job is placed, and deleted at its end.
    """
    before, run = time.process_time(), uuid4().hex
    rest, slots = RestClient(load_cluster(reference), SystemClock()), asyncio.Queue[str]()
    for place in range(AT_ONCE):
        slots.put_nowait(nodes[place % len(nodes)])
    pods = f"{rest.namespaced}/pods"
    ended: dict[str, asyncio.Event] = {f"{run}-{number}": asyncio.Event() for number in range(count)}

    async def follow() -> None:
        async with aclosing(changes(rest, f"bench={run}")) as events:
            async for pod in events:
                if has_ended(pod):
                    ended[pod["metadata"]["name"]].set()

    async def one(name: str) -> float:
        node = await slots.get()
        created = await rest.request("POST", pods, body=bare_pod(name, run, node))
        assert created.ok, created.message
        await ended[name].wait()
        slots.put_nowait(node)
        ended_at = time.perf_counter()
        await rest.request("DELETE", f"{pods}/{name}", query=[("gracePeriodSeconds", "0")])
        return ended_at

    watch = asyncio.create_task(follow())
    await asyncio.sleep(0.5)
    began = time.perf_counter()
    took = max(await asyncio.gather(*map(one, ended))) - began
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)
    await rest.close()
    return count / took, (time.process_time() - before) / count * 1000


def bare_pod(name: str, run: str, node: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": "250m", "memory": "32Mi"}, "limits": {"memory": "32Mi"}}
    main = {"name": "main", "image": "batchq-test:latest", "command": ["true"], "resources": resources}
    spec = {
        "nodeName": node,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [main | {"imagePullPolicy": "IfNotPresent"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"bench": run}}, "spec": spec}


async def end_delay(reference: str, service: Service) -> float:
    """How long after a watch received the end of a job's container DescribeJobs shows SUCCEEDED."""
    rest, call = RestClient(load_cluster(reference), SystemClock()), Caller(service.url)
    job = call("submitjob", jobName="ends", jobQueue=QUEUE, jobDefinition="sleeps")["jobId"]
    seen = asyncio.create_task(asyncio.to_thread(until, call, job, "SUCCEEDED"))
    async with aclosing(changes(rest, f"{INSTANCE}={service.instance}")) as events:
        async for pod in events:
            if job in pod["metadata"]["name"] and has_ended(pod):
                reported = time.perf_counter()
                break
    delay = (await seen - reported) * 1000
    call.close()
    await rest.close()
    return delay


async def changes(rest: RestClient, selector: str, *, present: bool = False) -> AsyncIterator[dict[str, Any]]:
    """The pods with these labels as they are changed from now on. `present`: first those that exist."""
    path, query = f"{rest.namespaced}/pods", [("labelSelector", selector)]
    found = (await rest.get(path, query)).body
    for pod in found["items"] if present else ():
        yield pod
    version = found["metadata"]["resourceVersion"]
    watch = [("watch", "1"), ("allowWatchBookmarks", "true"), ("resourceVersion", version)]
    async with rest.stream(path, [*query, *watch]) as response:
        async for line in read_json_lines(response.pieces()):
            change = json.loads(line)
            if change["type"] != "BOOKMARK":
                yield change["object"]
