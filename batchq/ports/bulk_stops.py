"""The port of the store for bulk stops."""

from collections.abc import Sequence
from typing import Protocol

from batchq.domain.bulk_stop import Preview, Selection, StopTarget, Sweep, Target


class SweepStore(Protocol):
    """Orders come, and go on, by `commit`. Every method raises StoreFailed, as a JobStore's do."""

    async def sweeps(self) -> tuple[Sweep, ...]:
        """Those that are not carried out yet, the oldest first."""

    async def meant_orders(self, sweep: int) -> Sequence[tuple[int, int]]:
        """The orders of the jobs that are yet to be told, with those of their children: as few runs as they come to."""

    async def next_meant(self, sweep: int, limit: int) -> tuple[StopTarget, ...]:
        """The next to be told, the last by order and node first."""

    async def candidates(self, selection: Selection) -> tuple[Target, ...]:
        """The jobs that an order would mean now, ascending, for `Changes.candidates`. Waits for no commit."""

    async def preview(
        self, selection: Selection, limit: int, after: tuple[int, int | None] | None = None
    ) -> tuple[Preview, ...]:
        """Whom an order would mean now, by order and node, from the first behind `after`. It changes nothing."""
