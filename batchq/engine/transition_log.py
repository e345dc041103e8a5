"""What the log tells of jobs: each change is a line, and all of a turn are one record.

A record for each would be a tenth of what a job costs. A server's log gives each line its time, as if it were one, and
is told without any.
"""

import logging
from collections.abc import Sequence

from batchq.ports.jobs import StatusChanged

log = logging.getLogger(__name__)


class Told(tuple[str, ...]):
    """Lines of one moment; for handlers other than a server's they are one text. What callers say may be in them."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(self)


class Straight:
    """A handler that takes lines as they are. To make a record of them is half of what it costs to write them."""

    def tell(self, lines: Told) -> None:
        """As it would write a record of them."""
        raise NotImplementedError


def tell(changed: Sequence[StatusChanged]) -> None:
    if not changed or not log.isEnabledFor(logging.INFO):
        return
    told = Told([_line(it) for it in changed])
    match logging.root.handlers:
        case [Straight() as only]:
            only.tell(told)
        case _:
            log.info(told)


def _line(change: StatusChanged) -> str:
    job = change.job
    told = f"job {job.id}: {change.before or 'new'} -> {job.status} on {job.spec.queue}"
    return f"{told} ({job.status_reason!r})" if job.status_reason else told
