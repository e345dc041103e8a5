"""`batchq queue show`, `env show`, `def show` and `resource show` in words. `-o json` prints all members."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from batchq.cli.http_client import Document
from batchq.cli.quantities import format_long_duration, iso_text, local_time
from batchq.cli.tables import Field
from batchq.domain.ids import ENGINE_TAG, LABEL_TAG
from batchq.domain.wording import bytes_words, counted, memory_words, seconds_words
from batchq.ports.responses.definitions import DefinitionUseResponse

UNITS = {"VCPU": "vCPU", "MEMORY": "MiB", "GPU": "GPU"}


def queue_fields(queue: Document) -> Iterator[Field]:
    yield "queue", queue["jobQueueName"]
    yield "state", _state(queue)
    yield "priority", str(queue["priority"])
    order = sorted(queue.get("computeEnvironmentOrder", ()), key=lambda item: int(item["order"]))
    yield "environments", ", then ".join(_name(item["computeEnvironment"]) for item in order)
    if policy := queue.get("schedulingPolicyArn"):
        yield "fair share", f"by the scheduling policy {_name(policy)}"
    for limit in queue.get("jobStateTimeLimitActions", ()):
        length = format_long_duration(timedelta(seconds=limit["maxTimeSeconds"]))
        yield "time limit", f"{limit['action']} after {length} in {limit['state']} for: {limit['reason']}"
    yield from _tag_fields(queue)


def environment_fields(environment: Document) -> Iterator[Field]:
    resources, tags = environment.get("computeResources", {}), environment.get("tags", {})
    yield "environment", environment["computeEnvironmentName"]
    yield "state", _state(environment)
    yield "type", " ".join(filter(None, (environment["type"], resources.get("type"))))
    if (vcpus := resources.get("maxvCpus", environment.get("unmanagedvCpus"))) is not None:
        yield "vCPUs", f"at most {vcpus} for its jobs together"
    if ENGINE_TAG in tags:
        yield "engine", tags[ENGINE_TAG]
    labels = [f"{key.removeprefix(LABEL_TAG)}={tags[key]}" for key in tags if key.startswith(LABEL_TAG)]
    if labels:
        yield "machines", f"with the labels {', '.join(labels)}"
    yield from _tag_fields(environment)


def definition_fields(definition: Document) -> Iterator[Field]:
    yield "definition", f"{definition['jobDefinitionName']}:{definition['revision']}"
    yield "state", str(definition.get("status", ""))
    yield "type", str(definition["type"])
    yield from _container_fields(definition)
    if parameters := definition.get("parameters"):
        yield "parameters", _pairs(parameters)
    if retry := definition.get("retryStrategy"):
        rules = [_words(rule) for rule in retry.get("evaluateOnExit", ())]
        yield "attempts", "; ".join((f"at most {retry.get('attempts', 1)}", *rules))
    if seconds := definition.get("timeout", {}).get("attemptDurationSeconds"):
        yield "time limit", f"{format_long_duration(timedelta(seconds=seconds))} for each attempt"
    if (priority := definition.get("schedulingPriority")) is not None:
        yield "priority", f"{priority} among the jobs of a share"
    author = definition.get("batchq", {}).get("author", {})
    if author.get("user"):
        yield "author", f"{author['user']} of account {author.get('account', '')}"
    yield from _tag_fields(definition)


def definition_use_fields(use: DefinitionUseResponse) -> Iterator[Field]:
    """The median, the 95th percentile and the maximum of each measured figure, and the advice."""
    memory = memory_words(use.memory_mib)
    figures = (
        ("CPU time", use.cpu_seconds, seconds_words, ""),
        ("peak memory", use.peak_memory_bytes, _bytes_words, f" of {memory}"),
        ("working set", use.working_set_bytes, _bytes_words, f" of {memory}"),
    )
    yield "measured", f"{counted(use.measured_attempts, 'attempt')} of the last 100 jobs"
    for label, figure, words, requested in figures:
        if figure is not None:
            numbers = f"median {words(figure.median)}, p95 {words(figure.p95)}, most {words(figure.most)}"
            yield label, f"{numbers}{requested}"
    if use.advice is not None:
        yield "advice", use.advice


def _bytes_words(size: float) -> str:
    return bytes_words(int(size))


def resource_fields(resource: Document) -> Iterator[Field]:
    yield "resource", resource["consumableResourceName"]
    yield "type", resource["resourceType"]
    yield "in use", f"{resource['inUseQuantity']} of {resource['totalQuantity']}"
    yield "available", str(resource["availableQuantity"])
    if created := local_time(resource.get("createdAt")):
        yield "created", iso_text(created)
    yield from _tag_fields(resource)


def _container_fields(definition: Document) -> Iterator[Field]:
    """The container, those of a task, or those of each range of nodes."""
    if single := definition.get("containerProperties"):
        yield from _one_container(single)
    for task in definition.get("ecsProperties", {}).get("taskProperties", ()):
        yield from _several_containers(task.get("containers", ()))
    nodes = definition.get("nodeProperties", {})
    if nodes:
        yield "nodes", f"{nodes['numNodes']}, of which {nodes['mainNode']} is the main node"
    for part in nodes.get("nodeRangeProperties", ()):
        if container := part.get("container"):
            yield f"nodes {part['targetNodes']}", "; ".join(value for _, value in _one_container(container))
        for task in part.get("ecsProperties", {}).get("taskProperties", ()):
            yield from _several_containers(task.get("containers", ()))


def _several_containers(containers: Sequence[Document]) -> Iterator[Field]:
    for container in containers:
        yield f"container {container.get('name', '')}", "; ".join(value for _, value in _one_container(container))


def _one_container(container: Document) -> Iterator[Field]:
    yield "image", str(container.get("image", ""))
    if command := container.get("command"):
        yield "command", shlex.join(command)
    amounts = {item["type"]: item["value"] for item in container.get("resourceRequirements", ())}
    if amounts:
        yield "resources", ", ".join(f"{value} {UNITS.get(kind, kind)}" for kind, value in amounts.items())
    if environment := container.get("environment"):
        yield "variables", _pairs({item["name"]: item.get("value", "") for item in environment})
    if secrets := container.get("secrets"):
        yield "secrets", ", ".join(item["name"] for item in secrets)
    if mounts := container.get("mountPoints"):
        hosts = {item["name"]: item.get("host", {}).get("sourcePath") for item in container.get("volumes", ())}
        yield "volumes", ", ".join(_mount(item, hosts) for item in mounts)
    if user := container.get("user"):
        yield "user", str(user)
    if container.get("privileged"):
        yield "privileged", "yes"


def _mount(mount: Document, hosts: Mapping[str, str | None]) -> str:
    source = hosts.get(mount.get("sourceVolume", "")) or mount.get("sourceVolume", "")
    return f"{source}:{mount.get('containerPath', '')}{':ro' if mount.get('readOnly') else ''}"


def _state(resource: Document) -> str:
    """`ENABLED`; of a resource that is not VALID with its status and the reason."""
    status = resource.get("status", "VALID")
    return str(resource["state"]) if status == "VALID" else f"{resource['state']}, {status}: {resource['statusReason']}"


def _tag_fields(resource: Document) -> Iterator[Field]:
    tags = {key: value for key, value in resource.get("tags", {}).items() if key != ENGINE_TAG}
    if tags := {key: value for key, value in tags.items() if not key.startswith(LABEL_TAG)}:
        yield "tags", _pairs(tags)


def _pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items())


def _words(rule: Mapping[str, str]) -> str:
    """`RETRY if onExitCode is 137`."""
    conditions = " and ".join(f"{name} is {value}" for name, value in rule.items() if name != "action")
    return f"{rule['action']} if {conditions}"


def _name(arn: str) -> str:
    return arn.rpartition("/")[2]
