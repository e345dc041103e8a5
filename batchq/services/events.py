"""The event service: the status changes of all jobs that a caller may see, in the order of their commits."""

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.engine.history_feed import HistoryFeed
from batchq.ports.history import FeedFilter, FeedPage


class EventService:
    """Reads the history feed. Entries of jobs that are not visible to the caller are left out."""

    def __init__(self, feed: HistoryFeed) -> None:
        self._feed = feed

    async def page(self, after: int | None, wanted: FeedFilter, *, limit: int, wait: float, caller: Caller) -> FeedPage:
        """Entries above the number `after` (None: the newest number): at once if there are any, else within `wait` s.

        Raises StoreFailed.
        """
        start = self._feed.last if after is None else after
        visible = replace(wanted, visibility=caller.visibility)
        return await self._feed.page(start, visible, limit=limit, wait=wait)
