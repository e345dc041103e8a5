"""The log of state transitions: one line for each change of a job's status."""

import logging
from collections.abc import Iterable

from batchq.ports.jobs import StatusChanged

log = logging.getLogger(__name__)


def log_transitions(changes: Iterable[StatusChanged]) -> None:
    """Log each change of a job's status."""
    for change in changes:
        job = change.job
        reason = f" ({job.status_reason!r})" if job.status_reason else ""
        log.info("job %s: %s -> %s on %s%s", job.id, change.before or "new", job.status, job.spec.queue, reason)
