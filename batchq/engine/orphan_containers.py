"""Orphan containers: containers of this instance without a known job. They are removed after a quarantine."""

import logging
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from batchq.domain.ids import Tag

log = logging.getLogger(__name__)

QUARANTINE = timedelta(seconds=60)  # before an orphan is removed
MOST = 3  # orphans at once; if there are more, none is removed


class OrphanContainers:
    """Decides which orphans are removed.

    None is removed if there are many at once: probably the database does not belong to the containers. An orphan that
    appears after the first survey is left alone: another server of this instance created it. Decision 0036.
    """

    def __init__(self) -> None:
        #: When each orphan was first seen.
        self._since: dict[Tag, datetime] = {}
        #: Whether the present excess of orphans has been logged.
        self._alarmed = False
        #: The containers of the first survey; None before it.
        self.first: frozenset[Tag] | None = None
        #: The orphans that appeared after the first survey and have been logged.
        self._reported: set[Tag] = set()

    def surveyed(self, seen: Iterable[Tag]) -> None:
        """Record the containers of the first survey, including those of known jobs."""
        if self.first is None:
            self.first = frozenset(seen)

    def ripe(self, seen: Collection[Tag], now: datetime) -> list[Tag]:
        """The orphans whose quarantine is over; empty if there are more than MOST orphans."""
        first = self.first or frozenset()
        self._report([it for it in seen if it not in first])
        seen = [it for it in seen if it in first]
        self._since = {tag: self._since.get(tag, now) for tag in seen}
        if len(seen) > MOST:
            self._alarm(len(seen))
            return []
        self._alarmed = False
        return [tag for tag, since in self._since.items() if now - since >= QUARANTINE]

    def _report(self, later: Collection[Tag]) -> None:
        for tag in sorted(set(later) - self._reported, key=str):
            log.warning(
                "container %s belongs to no known job and was created since this server started; it is left alone: "
                "does another server of this instance run?",
                tag,
            )
        self._reported.intersection_update(later)
        self._reported.update(later)

    def _alarm(self, count: int) -> None:
        if not self._alarmed:
            log.warning("%d containers of this instance belong to no known job; they are left alone", count)
        self._alarmed = True
