"""The container engines of a server, and what the engines of a queue can never run."""

from collections.abc import Sequence

from batchq.compute.kubernetes.pod_policy import PodPolicy, unavailable_on_kubernetes
from batchq.domain.catalog import engine_of
from batchq.domain.ids import ContainerEngineName
from batchq.domain.job import JobSpec
from batchq.errors import Invalid
from batchq.ports.catalog import CatalogView
from batchq.settings import Runtime, Settings


def engines_of(settings: Settings) -> tuple[Runtime, ...]:
    """The container engines. Compute environments that name no engine are on the first one."""
    own = () if settings.runtime is Runtime.DOCKER else (settings.runtime,)
    return (Runtime.DOCKER, *own) if settings.docker or not own else own


def able_engines(
    kinds: Sequence[Runtime], catalog: CatalogView, policy: PodPolicy, spec: JobSpec
) -> tuple[ContainerEngineName, ...]:
    """The container engines of the server that can run the job; empty: all of them.

    Raises Invalid if none of them is the container engine of a compute environment of the job's queue.
    """
    why = unavailable_on_kubernetes(spec, policy=policy) if Runtime.KUBERNETES in kinds else None
    if why is None:
        return ()
    feasible = tuple(ContainerEngineName(kind) for kind in kinds if kind is not Runtime.KUBERNETES)
    queue, known = catalog.queues.get(spec.queue), catalog.environments
    environments = () if queue is None else [known[name] for name in queue.environments if name in known]
    engines = {engine_of(environment.tags) or kinds[0] for environment in environments}
    if engines.isdisjoint(feasible):
        raise Invalid(why)
    return feasible
