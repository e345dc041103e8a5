"""The outcomes of a bulk stop and of its preview, as the pages show them."""

from collections import Counter

from msgspec import Struct, field
from msgspec.structs import replace

from batchq.domain.bulk_stop import JobOutcome, Kind, Outcome
from batchq.domain.stop_words import WOULD_BE_DONE
from batchq.services.bulk_stop import JobSelector, Outcomes

MAX_NAMED = 5000  # jobs that an order names
MAX_SHOWN = 100  # jobs that a page lists
_CHANGES = frozenset(WOULD_BE_DONE)


def outcome_name(it: JobOutcome) -> str:
    """The name of the outcome; another one for a job that an earlier order stops already."""
    if it.standing is None:
        return it.outcome.value
    return "ALREADY_CANCELLED" if it.outcome is Outcome.NOT_RETRIED else "ALREADY_STOPPING"


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
        self.counts.update(map(outcome_name, outcomes))
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
            self.ids += [it.job_id for it in outcomes if outcome_name(it) in _CHANGES]
            self.ids = self.ids if len(self.ids) <= MAX_NAMED else None

    def target(self) -> JobSelector:
        """The jobs to stop: no others than those of the preview, or those of its filters that are as old."""
        return self.selector if self.ids is None else replace(self.selector, ids=tuple(self.ids))
