"""The outcomes of a bulk stop, from the event loop of the engine to the client that requested it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from weakref import ref

from batchq.domain.bulk_stop import JobOutcome


def outcome_receiver(
    outcomes: asyncio.Queue[tuple[JobOutcome, ...] | None],
) -> Callable[[tuple[JobOutcome, ...] | None], None]:
    """Holds a weak reference to the queue: outcomes are dropped once the client disconnects."""
    receiver = ref(outcomes)

    def report(some: tuple[JobOutcome, ...] | None) -> None:
        queue = receiver()
        if queue is not None:
            queue.put_nowait(some)

    return report


async def outcomes_until_end(
    outcomes: asyncio.Queue[tuple[JobOutcome, ...] | None],
) -> AsyncIterator[tuple[JobOutcome, ...]]:
    """The outcomes in the queue until the None that ends them."""
    while (some := await outcomes.get()) is not None:
        yield some
