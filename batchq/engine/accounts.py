"""What accounts mean to the engine: what their jobs may have of the machine."""

from collections.abc import Callable
from dataclasses import dataclass

from batchq.domain.people import Allowance, Owner, People


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """`people` raises Unavailable; then no job is started. While not `held` none is held to what its account may."""

    people: Callable[[], People]
    held: bool

    def allowance(self, owner: Owner) -> Allowance | None:
        """What this owner's jobs may have now, None whatever the server gives. Raises Unavailable."""
        return self.people().held_to(owner) if self.held else None
