"""The port of the store for bulk stops."""

from collections.abc import Sequence
from typing import Protocol

from batchq.domain.bulk_stop import BulkStop, JobFilter, Preview, StopTarget, Target


class BulkStopStore(Protocol):
    """Reads of bulk stops. They are created and advanced by `JobStore.commit`. Every method may raise StoreFailed."""

    async def bulk_stops(self) -> tuple[BulkStop, ...]:
        """The bulk stops that are not complete, oldest first."""

    async def target_ranges(self, sweep: int) -> Sequence[tuple[int, int]]:
        """The `order` values of all targets that are not stopped yet and of their children, as disjoint intervals.

        Each interval is (first, last), both included; adjacent intervals are merged.
        """

    async def next_targets(self, sweep: int, limit: int) -> tuple[StopTarget, ...]:
        """The next targets to stop: at most `limit`, by order and node, highest first."""

    async def candidates(self, selection: JobFilter) -> tuple[Target, ...]:
        """The jobs that `selection` matches now, ascending, for `Changes.candidates`. Does not wait for commits."""

    async def preview(
        self, selection: JobFilter, limit: int, after: tuple[int, int | None] | None = None
    ) -> tuple[Preview, ...]:
        """The jobs that `selection` matches now, by order and node: the first `limit` after `after`. Read-only."""
