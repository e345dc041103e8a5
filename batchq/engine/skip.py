"""Who may not start now, though nothing else speaks against it."""

from collections.abc import Collection
from dataclasses import dataclass, field

from batchq.domain.names import JobId, parent_of
from batchq.domain.placement import Candidate
from batchq.domain.spans import Spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """The children of arrays that were told something which they have yet to hear, and jobs that an order means."""

    parents: Collection[JobId] = ()
    meant: Spans = field(default_factory=Spans)

    def has(self, it: Candidate) -> bool:
        parent = parent_of(it.job_id) if self.parents else None
        return (parent is not None and parent[0] in self.parents) or it.order in self.meant
