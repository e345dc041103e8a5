"""Jobs that may not start now, though nothing else speaks against it."""

from msgspec import Struct, field

from batchq.domain.placement import Candidate
from batchq.domain.spans import Spans


class Skip(Struct, frozen=True, kw_only=True):
    """Both as orders of jobs."""

    #: Children to which an order to their array has not been applied yet.
    children: Spans = field(default_factory=Spans)
    #: Jobs that a bulk stop under way will stop.
    meant: Spans = field(default_factory=Spans)

    def has(self, it: Candidate) -> bool:
        return it.order in self.children or it.order in self.meant

    def end(self, order: int) -> int:
        """The last of the jobs from this one on that are skipped; itself where it is not."""
        return self.meant.end(self.children.end(order))
