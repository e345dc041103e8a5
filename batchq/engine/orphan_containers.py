"""Containers of this instance without a known job, and when they are removed."""

import logging
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from batchq.domain.ids import Tag

log = logging.getLogger(__name__)
QUARANTINE = timedelta(seconds=60)  # before an orphan is removed
MAX_ORPHANS = 3  # orphans at once; if there are more, none is removed


class OrphanContainers:
    """Decides which orphans are removed.

    None is removed if there are many at once: probably the database does not belong to the containers. An orphan that
    appears after the first survey is left alone: another server of this instance created it. Decision 0036.
    """

    def __init__(self) -> None:
        #: When each orphan was first seen.
        self._since: dict[Tag, datetime] = {}
        #: Whether the present excess of orphans has been logged.
        self._excess_logged = False
        #: The containers of the first survey; None before it.
        self.first_survey: frozenset[Tag] | None = None
        #: The orphans that appeared after the first survey and have been logged.
        self._logged: set[Tag] = set()

    def record_survey(self, seen: Iterable[Tag]) -> None:
        """Record the containers of the first survey, including those of known jobs."""
        if self.first_survey is None:
            self.first_survey = frozenset(seen)

    def expired(self, seen: Collection[Tag], now: datetime) -> list[Tag]:
        """The orphans whose quarantine is over; empty if there are more than MAX_ORPHANS orphans."""
        first = self.first_survey or frozenset()
        self._log_later([tag for tag in seen if tag not in first])
        seen = [tag for tag in seen if tag in first]
        self._since = {tag: self._since.get(tag, now) for tag in seen}
        if len(seen) > MAX_ORPHANS:
            if not self._excess_logged:
                log.warning("%d containers of this instance have no known job; none of them is removed", len(seen))
            self._excess_logged = True
            return []
        self._excess_logged = False
        return [tag for tag, since in self._since.items() if now - since >= QUARANTINE]

    def _log_later(self, later: Collection[Tag]) -> None:
        for tag in sorted(set(later) - self._logged, key=str):
            log.warning(
                "container %s has no known job and was created after this server started; it is not removed: "
                "another server of this instance may be running",
                tag,
            )
        self._logged.intersection_update(later)
        self._logged.update(later)
