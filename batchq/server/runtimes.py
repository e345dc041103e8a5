"""The container runtimes of a server, as its settings choose them, and what jobs may request of them."""

import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress

from batchq.accounts.files import AccountsFile
from batchq.compute.combined_runtime import CombinedRuntime
from batchq.compute.docker import host
from batchq.compute.docker.client import ClientFactory
from batchq.compute.docker.policy import ServerPolicy
from batchq.compute.docker.runtime import DockerRuntime
from batchq.compute.kubernetes.connection import load_cluster
from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.compute.kubernetes.runtime import KubernetesRuntime
from batchq.compute.secrets import Secrets
from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.compute.simulated.script import Outcomes
from batchq.domain.ids import ContainerEngineName
from batchq.domain.machines import one_machine
from batchq.domain.task import total
from batchq.errors import RuntimeUnknown, StartImpossible
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerRuntime
from batchq.server.engines import engines_of
from batchq.server.listeners import (
    uses_accounts,
)
from batchq.settings import Runtime, Settings
from batchq.system.host import host_resources


def check_engine(settings: Settings) -> None:
    """Raise StartImpossible for an invalid DOCKER_HOST, `--container-runtime` or kubeconfig, before data is created."""
    if settings.docker and settings.runtime is Runtime.SIMULATED:
        raise StartImpossible("simulated containers and --docker exclude each other")
    if Runtime.DOCKER in engines_of(settings):
        ClientFactory(None)
        if settings.container_runtime is not None:
            host.check_runtime(settings.container_runtime)
    if settings.kubernetes is not None:
        load_cluster(settings.kubernetes)


async def open_runtime(
    stack: AsyncExitStack, make: Callable[[Runtime], ContainerRuntime], kinds: Sequence[Runtime], clock: Clock
) -> ContainerRuntime:
    """The runtimes as one, which are closed with the stack. Raises StartImpossible for an unsupported server."""
    runtimes: dict[ContainerEngineName, ContainerRuntime] = {}
    for kind in kinds:
        runtime = runtimes[ContainerEngineName(kind)] = make(kind)
        stack.push_async_callback(runtime.close)
        if isinstance(runtime, KubernetesRuntime):
            with suppress(RuntimeUnknown):  # a server without a reply is checked later
                await runtime.check_server()
    if len(runtimes) > 1:
        return CombinedRuntime(runtimes, clock)
    return next(iter(runtimes.values()))


def make_runtime(
    kind: Runtime, *, settings: Settings, instance: str, clock: Clock, outcomes: Outcomes
) -> ContainerRuntime:
    """Raises StartImpossible for a kubeconfig that cannot be used."""
    if kind is Runtime.SIMULATED:
        machines = one_machine(host_resources(), Runtime.SIMULATED)
        return SimulatedRuntime(clock=clock, machines=machines, network=settings.network, outcomes=outcomes)
    secrets = Secrets(file=settings.secrets_file, environment=os.environ)
    if kind is Runtime.DOCKER or settings.kubernetes is None:
        policy = make_policy(settings)
        return DockerRuntime(instance=instance, policy=policy, secrets=secrets, network=settings.network)
    return KubernetesRuntime(
        instance=instance,
        cluster=load_cluster(settings.kubernetes),
        clock=clock,
        policy=make_pod_policy(settings),
        secrets=secrets,
        allow_old=settings.kubernetes_unsupported,
    )


async def most_millicpus(settings: Settings, runtime: ContainerRuntime) -> int:
    """The vCPUs of the first compute environment: those of the machine, or of the cluster if it answers."""
    if engines_of(settings)[0] is Runtime.KUBERNETES:
        with suppress(RuntimeUnknown):
            return max(1000, total(machine.resources for machine in await runtime.machines()).millicpus)
    return host_resources().millicpus


def make_pod_policy(settings: Settings) -> PodPolicy:
    return PodPolicy(
        privileged=settings.privileged,
        volumes=settings.volumes,
        private=settings.private_paths,
        missing_host_paths=settings.missing_host_paths,
        registries=settings.registries,
        network=settings.network,
        checkpoints=settings.kubernetes_checkpoints,
        drain_grace=settings.kubernetes_drain_grace,
        refuses_drains=settings.kubernetes_refuse_drains,
    )


def make_policy(settings: Settings) -> ServerPolicy:
    return ServerPolicy(
        privileged=settings.privileged,
        volumes=settings.volumes,
        missing_host_paths=settings.missing_host_paths,
        private=settings.private_paths,
        given=AccountsFile(settings.data).volumes if uses_accounts(settings) else tuple,
        registries=settings.registries,
        oci_runtime=settings.container_runtime,
        engine_socket=settings.engine_socket,
    )
