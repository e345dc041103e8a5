"""The latest previews and results of bulk stops, by user and invocation.

They are in memory: after a restart of the server, a form of an earlier preview shows a new preview and orders nothing.
"""

from collections import Counter, OrderedDict
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain.access.accounts import Caller
from batchq.domain.bulk_stop import JobOutcome, Kind
from batchq.domain.stop_words import WOULD_BE_DONE
from batchq.services.bulk_stop import JobSelector, Outcomes

MAX_NAMED = 5000  # jobs that an order names
MAX_SHOWN = 100  # jobs that a page lists
MAX_KEPT = 64  # previews and results
_CHANGES = frozenset(WOULD_BE_DONE)
Kept = TypeVar("Kept")


class OutcomeCounts(Struct, kw_only=True):
    """The outcomes of an order or of a preview: all are counted, and the first are kept."""

    kind: Kind
    counts: Counter[str] = field(default_factory=Counter)
    first: list[JobOutcome] = field(default_factory=list)

    @property
    def changed(self) -> int:
        """The jobs that the order changes."""
        return sum(count for outcome, count in self.counts.items() if outcome in _CHANGES)

    def add(self, outcomes: Outcomes) -> None:
        self.counts.update(it.outcome.value for it in outcomes)
        self.first += outcomes[: MAX_SHOWN - len(self.first)]


class StopPreview(OutcomeCounts, kw_only=True):
    """A preview that a user has seen."""

    selector: JobSelector
    #: The ids of the jobs that the order would change; None: more than MAX_NAMED.
    ids: list[str] | None = field(default_factory=list)

    def add(self, outcomes: Outcomes) -> None:
        """Count the outcomes, and keep the ids while they are few."""
        super().add(outcomes)
        if self.ids is not None:
            self.ids += [it.job_id for it in outcomes if it.outcome.value in _CHANGES]
            self.ids = self.ids if len(self.ids) <= MAX_NAMED else None

    def target(self) -> JobSelector:
        """The jobs to stop: no others than those of the preview, or those of its filters that are as old."""
        return self.selector if self.ids is None else replace(self.selector, ids=tuple(self.ids))


class RecentStops:
    """The latest previews and results by user and invocation, in memory."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[type, str, str], object] = OrderedDict()

    def keep(self, caller: Caller, invocation: str, value: OutcomeCounts) -> None:
        self._kept[type(value), caller.user, invocation] = value
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def find(self, kind: type[Kept], caller: Caller, invocation: str) -> Kept | None:
        found = self._kept.get((kind, caller.user, invocation))
        return found if isinstance(found, kind) else None
