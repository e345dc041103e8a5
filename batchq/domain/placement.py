"""Which RUNNABLE jobs start now, and where. Pure: no overcommit, queue priority, environment order, first in first out.

Jobs are offered to a `Room` in the order they should start. One that does not fit now holds back what it waits for:
no job offered later may take it, so none waits for ever because smaller ones keep slipping past. One that could never
fit is a misfit, and holds back nobody.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from batchq.domain import reasons
from batchq.domain.catalog import ComputeEnvironment, EnvironmentName, State
from batchq.domain.container import Resources
from batchq.domain.job import Job, Need
from batchq.domain.names import JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A RUNNABLE job, as much of it as placing needs. `longest` is its timeout; `priority` its schedulingPriority."""

    job_id: JobId
    order: int
    resources: Resources
    needs: tuple[Need, ...] = ()
    longest: timedelta | None = None
    share: str | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    environment: EnvironmentName


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """There is no room now. Nothing behind it in its queue may start before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Misfit:
    reason: str


def usable(machine: Resources) -> Resources:
    """What jobs may reserve of a machine: all but a tenth of its memory, at most 2 GiB, which the rest of it needs."""
    return replace(machine, memory_mib=machine.memory_mib - min(machine.memory_mib // 10, 2048))


class Room:
    """What is free on the environments and the host, while jobs are offered one after another.

    vCPUs are an environment's own (its maxvCpus); memory and GPUs are the host's, whichever environment asks.
    """

    def __init__(
        self, *, environments: Mapping[EnvironmentName, ComputeEnvironment], host: Resources, active: Iterable[Job]
    ) -> None:
        self._environments = environments
        self._host = host
        self._millicpus = {name: it.max_millicpus for name, it in environments.items()}
        self._memory_mib = host.memory_mib
        self._gpus = host.gpus
        self._held: set[EnvironmentName] = set()
        for job in active:
            assert job.attempt is not None, f"{job.id} holds room and has no attempt"
            self._take(EnvironmentName(job.attempt.environment), job.spec.resources)

    def offer(self, wanted: Resources, names: Sequence[EnvironmentName]) -> Fits | Waits | Misfit:
        """A place in the first of these environments with room; it is taken at once."""
        able = [name for name in self._enabled(names) if self._ever(wanted, name)]
        if not able:
            return self._misfit(wanted, names)
        for name in able:
            if name not in self._held and self._now(wanted, name):
                self._take(name, wanted)
                return Fits(environment=name)
        self._hold(wanted, able)
        return Waits()

    def could_hold(self, wanted: Resources, names: Sequence[EnvironmentName]) -> bool:
        """Whether an enabled one of these environments would hold it if nothing else ran."""
        return any(self._ever(wanted, name) for name in self._enabled(names))

    def _enabled(self, names: Sequence[EnvironmentName]) -> list[EnvironmentName]:
        return [it for it in names if it in self._environments and self._environments[it].state is State.ENABLED]

    def _ever(self, wanted: Resources, name: EnvironmentName) -> bool:
        roomy = wanted.millicpus <= self._environments[name].max_millicpus
        return roomy and wanted.memory_mib <= self._host.memory_mib and wanted.gpus <= self._host.gpus

    def _now(self, wanted: Resources, name: EnvironmentName) -> bool:
        return wanted.millicpus <= self._millicpus[name] and self._host_has(wanted)

    def _host_has(self, wanted: Resources) -> bool:
        return wanted.memory_mib <= self._memory_mib and wanted.gpus <= self._gpus

    def _hold(self, wanted: Resources, able: list[EnvironmentName]) -> None:
        """Hold back where it waits: its environments, or everything when it waits for the host's memory or GPUs."""
        self._held.update(able if self._host_has(wanted) else self._environments)

    def _misfit(self, wanted: Resources, names: Sequence[EnvironmentName]) -> Waits | Misfit:
        """With no environment enabled nobody can say; the job waits."""
        enabled = self._enabled(names)
        if not enabled:
            return Waits()
        most = max(self._environments[name].max_millicpus for name in enabled)
        return Misfit(reason=reasons.TOO_MANY_VCPUS if wanted.millicpus > most else reasons.TOO_LARGE)

    def _take(self, name: EnvironmentName, wanted: Resources) -> None:
        if name in self._millicpus:  # a deleted environment's last jobs may still run
            self._millicpus[name] -= wanted.millicpus
        self._memory_mib -= wanted.memory_mib
        self._gpus -= wanted.gpus
