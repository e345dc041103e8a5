"""Containers that carry our label and that no job remembers: they are watched a while before they are cleared away."""

import logging
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from batchq.domain.ids import Tag

log = logging.getLogger(__name__)

QUARANTINE = timedelta(seconds=60)
MOST = 3


class OrphanContainers:
    """Many at once look like a database that is not the containers' own: then nothing is touched.

    Nor is one that appears later than the first survey: this server did not make it, so another server of the instance
    did. Decision 0036.
    """

    def __init__(self) -> None:
        self._since: dict[Tag, datetime] = {}
        self._alarmed = False
        #: The containers of the first survey, None before it.
        self.first: frozenset[Tag] | None = None
        self._reported: set[Tag] = set()

    def surveyed(self, seen: Iterable[Tag]) -> None:
        """The containers that the engine has, those of known jobs included."""
        if self.first is None:
            self.first = frozenset(seen)

    def ripe(self, seen: Collection[Tag], now: datetime) -> list[Tag]:
        """Those that have been there for the whole quarantine, unless there are too many."""
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
