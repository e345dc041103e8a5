"""Acts in memory: the same promises as `acts` keeps in SQL."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from batchq.domain.access.accounts import Owner
from batchq.domain.access.audit import Act, ActQuery, Kept, Noted
from batchq.domain.lifecycle.clock_shift import ClockShift


class MemoryActs:
    def __init__(self) -> None:
        self._acts: dict[int, Act] = {}
        self._marks: set[str] = set()
        self._taken_over: set[int] = set()
        self._next = 1

    def insert(self, acts: Iterable[Act]) -> None:
        for act in acts:
            self._acts[self._next] = act
            self._next += 1

    def take_over(self, noted: Sequence[Noted]) -> None:
        for it in noted:
            if it.mark not in self._marks:
                self._marks.add(it.mark)
                self._taken_over.add(self._next)
                self.insert([it.act])

    def page(self, query: ActQuery) -> tuple[Kept, ...]:
        found = [Kept(number=number, act=act) for number, act in self._acts.items() if _meets(act, number, query)]
        return tuple(sorted(found, key=lambda it: (it.act.at, it.number), reverse=True)[: query.limit])

    def prune(self, before: datetime, limit: int) -> int:
        old = sorted((act.at, number) for number, act in self._acts.items() if act.at < before)[:limit]
        for _, number in old:
            del self._acts[number]
        return len(old)

    def shift(self, shift: ClockShift) -> None:
        """Acts that commands noted were stamped by the machine's clock as it is."""
        for number, act in self._acts.items():
            if number not in self._taken_over:
                self._acts[number] = replace(act, at=shift.of(act.at))


def _meets(act: Act, number: int, query: ActQuery) -> bool:
    asked = ((query.user, act.user), (query.operation, act.operation), (query.about, act.about))
    if any(wanted not in (None, said) for wanted, said in asked):
        return False
    whose = (Owner(user=act.user, account=act.account), Owner(user=act.owner, account=act.owner_account))
    if query.reach is not None and not any(map(query.reach.has, whose)):
        return False
    if query.since is not None and act.at < query.since:
        return False
    return query.before is None or (act.at, number) < query.before
