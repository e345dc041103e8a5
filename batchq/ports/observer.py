"""The port to which the engine reports measurements. Metrics are made of them; the engine does not know Prometheus."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from batchq.domain.scheduling.fairshare import Change
from batchq.ports.jobs import StatusChanged


class Observer(Protocol):
    """Receives measurements. No method may raise an error, wait, or keep what it is given."""

    def jobs_changed(self, changes: Collection[Change], transitions: Sequence[StatusChanged], now: datetime) -> None:
        """A unit of work was saved. `transitions`: its status changes in order. Restarts report nothing again."""

    def unit_of_work(self, *, messages: int, seconds: float) -> None:
        """A unit of work took `seconds`, the commit included; `messages`: how many it handled."""

    def commit(self, seconds: float) -> None:
        """A commit of the store took `seconds`, successful or not."""

    def engine_call(self, call: str, *, seconds: float, outcome: str) -> None:
        """A call of the container engine ended. `call`: the method of ContainerRuntime.

        `outcome`: `ok`, `refused`, `unknown` (the container engine may have executed the call) or `cancelled`.
        """
