"""Containers that carry our label and that no job remembers: they are watched a while before they are cleared away."""

import logging
from collections.abc import Collection
from datetime import datetime, timedelta

from batchq.domain.names import Tag

log = logging.getLogger(__name__)

QUARANTINE = timedelta(seconds=60)
MOST = 3


class Strays:
    """Many at once look like a database that is not the containers' own: then nothing is touched."""

    def __init__(self) -> None:
        self._since: dict[Tag, datetime] = {}
        self._alarmed = False

    def ripe(self, seen: Collection[Tag], now: datetime) -> list[Tag]:
        """Those that have been there for the whole quarantine, unless there are too many."""
        self._since = {tag: self._since.get(tag, now) for tag in seen}
        if len(seen) > MOST:
            self._alarm(len(seen))
            return []
        self._alarmed = False
        return [tag for tag, since in self._since.items() if now - since >= QUARANTINE]

    def _alarm(self, count: int) -> None:
        if not self._alarmed:
            log.warning("%d containers of this instance belong to no known job; they are left alone", count)
        self._alarmed = True
