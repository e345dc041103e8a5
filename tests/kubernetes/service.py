"""A `batchq serve` in a process of its own whose jobs run on the cluster that BATCHQ_TEST_KUBERNETES names."""

import asyncio
import os
import time
from contextlib import suppress

from batchq.compute.kubernetes.connection import load_cluster
from batchq.compute.kubernetes.pod_policy import PodPolicy
from batchq.compute.kubernetes.runtime import KubernetesRuntime
from batchq.domain.catalog import Network
from batchq.errors import RuntimeUnknown
from batchq.settings import Privileged
from batchq.system.clock import SystemClock
from tests.kubernetes.bed.__main__ import PROGRAMS
from tests.support.service import PATIENCE, Service

CLUSTER = "BATCHQ_TEST_KUBERNETES"


class ClusterService(Service):
    def __init__(self, data, *extra, **options):
        flags = ("--kubernetes", os.environ[CLUSTER], "--kubernetes-unsupported")
        # A server refuses variables that look like misspelt settings.
        under = ("env", "-u", CLUSTER, "-u", PROGRAMS, *options.pop("under", ()))
        super().__init__(data, *flags, *extra, under=under, **options)

    def containers(self):
        """The containers of the jobs on the cluster, in any state."""
        return asyncio.run(self._survey())

    def remove_containers(self):
        end = time.monotonic() + PATIENCE
        while left := asyncio.run(self._survey(removes=True)):
            assert time.monotonic() < end, f"they cannot be removed: {left}"
            time.sleep(0.2)

    async def _survey(self, *, removes=False):
        """The containers; `removes`: request the removal of each."""
        runtime = KubernetesRuntime(
            instance=self.instance,
            cluster=load_cluster(os.environ[CLUSTER]),
            clock=SystemClock(),
            policy=PodPolicy(privileged=Privileged.ALLOW, network=Network.BRIDGE),
            allow_old=True,
        )
        try:
            found = await runtime.survey()
            if removes:
                await remove(runtime, found)
            return [str(inspection.tag) for inspection in found]
        finally:
            await runtime.close()


async def remove(runtime, found):
    """Request the removal of each container."""
    for inspection in found:
        with suppress(RuntimeUnknown):
            await runtime.remove(inspection.tag)


def service_kind():
    """How a test serves: on the cluster, if one is named, else on Docker."""
    return ClusterService if CLUSTER in os.environ else Service
