"""The latest previews and results of orders for several jobs, by user and invocation.

They are in memory: after a restart of the server, a form of an earlier preview shows a new preview and orders nothing.
"""

from collections import OrderedDict
from typing import TypeVar

from batchq.domain.access.accounts import Caller

MAX_KEPT = 32  # previews and results
Kept = TypeVar("Kept")


class RecentResults:
    """The latest previews and results by user and invocation, in memory."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[type, str, str], object] = OrderedDict()

    def keep(self, caller: Caller, invocation: str, value: object) -> None:
        self._kept[type(value), caller.user, invocation] = value
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def find(self, kind: type[Kept], caller: Caller, invocation: str) -> Kept | None:
        found = self._kept.get((kind, caller.user, invocation))
        return found if isinstance(found, kind) else None
