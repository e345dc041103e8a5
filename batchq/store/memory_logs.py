"""LogArchive in memory: its promises but durability. For the pretended world."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from batchq.errors import Invalid, StoreFailed
from batchq.ports.logs import KeptLine, LogLine, LogPage
from batchq.store.log_files import TASK_ID


class MemoryArchive:
    """A position is a line's number. While `failing`, no append is taken: each raises StoreFailed."""

    def __init__(self) -> None:
        self.failing = False
        self._logs: dict[str, list[KeptLine]] = {}

    async def last(self, log_id: str) -> int:
        return _latest(self._log(log_id))

    async def append(self, log_id: str, lines: Sequence[LogLine]) -> int:
        return sum(self._add(log_id, line, stamped=line.at) for line in lines)

    async def annotate(self, log_id: str, line: LogLine) -> None:
        self._add(log_id, line, stamped=0)

    def _add(self, log_id: str, line: LogLine, *, stamped: int) -> int:
        if self.failing:
            raise StoreFailed("the archive was told to fail")
        log = self._log(log_id)
        added = KeptLine(position=len(log), at=max(_latest(log), line.at), stamped=stamped, message=line.message)
        log.append(added)
        self._logs[log_id] = log
        return _size(added)

    async def read(self, log_id: str, *, position: int, limit: int, max_bytes: int) -> LogPage:
        log = self._log(log_id)
        _check_boundary(log, position)
        count = _some(log[position : position + limit], max_bytes)
        return LogPage(lines=tuple(log[position : position + count]), start=position, end=position + count)

    async def read_back(self, log_id: str, *, position: int | None, limit: int, max_bytes: int) -> LogPage:
        log = self._log(log_id)
        end = len(log) if position is None else position
        _check_boundary(log, end)
        count = _some(reversed(log[max(end - limit, 0) : end]), max_bytes)
        return LogPage(lines=tuple(log[end - count : end]), start=end - count, end=end)

    async def seek(self, log_id: str, at: int) -> int:
        return bisect_left(self._log(log_id), at, key=lambda line: line.at)

    async def size(self, log_id: str) -> int:
        return sum(map(_size, self._log(log_id)))

    async def total(self, log_ids: Sequence[str]) -> int:
        return sum([await self.size(it) for it in log_ids])

    async def discard(self, log_id: str) -> None:
        self._log(log_id)
        self._logs.pop(log_id, None)

    def _log(self, log_id: str) -> list[KeptLine]:
        if not TASK_ID.fullmatch(log_id):
            raise Invalid("a log id is 32 hexadecimal digits")
        return self._logs.get(log_id, [])


def _latest(log: list[KeptLine]) -> int:
    return log[-1].at if log else 0


def _size(line: KeptLine) -> int:
    return len(line.message.encode("utf-8", "replace"))


def _check_boundary(log: list[KeptLine], position: int) -> None:
    if not 0 <= position <= len(log):
        raise Invalid(f"no line of the log begins or ends at {position}")


def _some(lines: Iterable[KeptLine], max_bytes: int) -> int:
    """How many of the first of them the limit allows; one at least."""
    count = 0
    for line in lines:
        max_bytes -= _size(line)
        if count and max_bytes < 0:
            break
        count += 1
    return count
