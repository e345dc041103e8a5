"""A disk that is never full, and logs without a quota."""

from batchq.clock import SystemClock
from batchq.domain.scheduling.quotas import NO_QUOTAS
from batchq.host import DiskGuard
from batchq.logs.quota import AccountLogs, LogQuota
from tests.support.inline import InlineLogFiles, InlineStore

BOTTOMLESS = DiskGuard(free=lambda: 2**40, min_free=0)
UNLIMITED = LogQuota(
    container_mib=None,
    disk_guard=BOTTOMLESS,
    quotas=lambda: NO_QUOTAS,
    usage=AccountLogs(store=InlineStore(), archive=InlineLogFiles()),
    clock=SystemClock(),
)
