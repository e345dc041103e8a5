"""Limits of stored output: for one container, for all containers of an account, and by the free space of the disk.

The total of an account is computed from the stored sizes of its logs when a limit first needs it, and then grows with
each append. Deleted logs make it too high, so it is computed again before a limit refuses output because of it.

The total of all logs is for /metrics: it is computed at the first scrape, and then changes with each append and
deletion.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from batchq.domain.access.accounts import AccountName, UserName, Visibility
from batchq.domain.ids import Tag
from batchq.domain.scheduling.quotas import Quotas
from batchq.errors import StoreFailed
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.ports.logs import LogArchive
from batchq.system.host import MIB, DiskGuard

log = logging.getLogger(__name__)

STREAMS_PER_READ = 500  # log streams read at a time
REPORT_DURATION = timedelta(hours=1)  # how long /healthz reports a stopped capture
COUNT_TIMEOUT = 0.5  # seconds that a scrape waits for the first total of all logs


class LogQuota:
    """The limits of stored output.

    A limit is checked before each append of about one MiB, so each container may exceed it by at most that much.
    """

    def __init__(
        self,
        *,
        container_mib: int | None,
        disk_guard: DiskGuard,
        quotas: Callable[[], Quotas],
        usage: "AccountLogs",
        clock: Clock,
    ) -> None:
        """`container_mib`: the limit for one container in MiB; None: no limit. `quotas`: the limits of accounts."""
        self._container_mib = container_mib
        self._disk_guard = disk_guard
        self._quotas = quotas
        self._usage = usage
        self._clock = clock
        self._stops = 0
        self._last_stop: tuple[datetime, str] | None = None

    async def refusal(self, tag: Tag, stored: int) -> str | None:
        """The reason why no more output of a container is stored; None if there is room. Raises StoreFailed.

        `stored`: the bytes of its output that are stored already.
        """
        if self._container_mib is not None and stored >= self._container_mib * MIB:
            return f"--log-mib {self._container_mib} is the limit of serve for the output of one container"
        if self._disk_guard.problem is not None:
            return "the disk of batchq's data is nearly full (--min-free-mib)"
        return await self._refusal_by_account(tag)

    async def add_appended(self, tag: Tag, appended: int) -> None:
        """Add `appended` bytes to the totals."""
        self._usage.total.add(appended)
        if any(account.limits.log_mib is not None for account in self._quotas().limited.values()):
            self._usage.add(await self._usage.account_of(tag), appended)

    async def stored_bytes(self) -> int | None:
        """The total size of all stored logs; None while it is computed for the first time."""
        return await self._usage.total.read()

    async def close(self) -> None:
        await self._usage.total.close()

    def report_stop(self, tag: Tag, why: str) -> None:
        """Log and report that the capture of a container's output stopped."""
        log.warning("container %s: log capture stopped: %s", tag, why)
        self._stops += 1
        self._last_stop = self._clock.now(), f"container {tag}: {why}"

    @property
    def may_annotate(self) -> bool:
        """Whether the disk has room for a line that reports a stop. Raises StoreFailed."""
        return not self._disk_guard.critical

    @property
    def trouble(self) -> str | None:
        """The text for /healthz if a capture stopped within REPORT_DURATION; else None."""
        if self._last_stop is None or self._clock.now() - self._last_stop[0] > REPORT_DURATION:
            return None
        return f"log capture stopped {self._stops} times since the start; last: {self._last_stop[1]}"

    async def _refusal_by_account(self, tag: Tag) -> str | None:
        quotas = self._quotas()
        if all(account.limits.log_mib is None for account in quotas.limited.values()):
            return None
        own = await self._usage.account_of(tag)
        for account in quotas.on(own):
            limit = account.limits.log_mib
            if limit is not None and await self._usage.reaches(
                quotas.directory.below(account.name) | {own}, limit * MIB
            ):
                return f"--log-mib {limit} is the limit of account {account.name} for all its stored logs"
        return None


class TotalLogs:
    """The total size of all stored logs, in bytes. Nothing is computed before it is read for the first time."""

    def __init__(self, archive: LogArchive) -> None:
        self._archive = archive
        #: The sum of the changes since the computation began.
        self._changes = 0
        #: None before the first read, and after a failed computation.
        self._computation: asyncio.Task[int] | None = None

    @property
    def is_used(self) -> bool:
        return self._computation is not None

    def add(self, change: int) -> None:
        """Add the size of an append, or subtract that of a deleted log."""
        if self.is_used:
            self._changes += change

    async def read(self) -> int | None:
        """The total. None if it cannot be computed, or is not computed within COUNT_TIMEOUT.

        A change during the computation may be missing in the total, or be counted twice.
        """
        if self._computation is None:
            self._changes = 0
            self._computation = asyncio.create_task(self._archive.stored_bytes(), name="size of all logs")
        done, _ = await asyncio.wait([self._computation], timeout=COUNT_TIMEOUT)
        if not done:
            return None
        try:
            return self._computation.result() + self._changes
        except StoreFailed as failure:
            log.warning("the size of all logs is unknown: %s", failure)
            self._computation = None
            return None

    async def close(self) -> None:
        """Cancel the computation."""
        if self._computation is not None:
            self._computation.cancel()
            await asyncio.gather(self._computation, return_exceptions=True)


class AccountLogs:
    """The total size of stored logs by account. Logs are deleted through it, so that the totals stay correct."""

    def __init__(self, *, store: JobStore, archive: LogArchive) -> None:
        self._store = store
        self._archive = archive
        self._totals: dict[AccountName, int] = {}
        self._outdated: set[AccountName] = set()
        self.total = TotalLogs(archive)
        self._lock = asyncio.Lock()

    async def account_of(self, tag: Tag) -> AccountName:
        """The account of the container's job; empty for a deleted job, whose logs are deleted with it."""
        job = (await self._store.jobs([tag.job_id])).get(tag.job_id)
        return AccountName("") if job is None else job.spec.owner.account

    def add(self, account: AccountName, appended: int) -> None:
        if account in self._totals:
            self._totals[account] += appended

    async def discard(self, log_id: str) -> None:
        """Delete a log, and mark the totals of accounts for recomputation."""
        size = await self._archive.total([log_id]) if self.total.is_used else 0
        await self._archive.discard(log_id)
        self.total.add(-size)
        self._outdated = set(self._totals)

    async def reaches(self, accounts: frozenset[AccountName], limit: int) -> bool:
        """Whether the stored logs of these accounts together have at least `limit` bytes."""
        async with self._lock:
            for name in accounts - self._totals.keys():
                await self._count(name)
            if sum(self._totals[name] for name in accounts) < limit:
                return False
            for name in accounts & self._outdated:
                await self._count(name)
            return sum(self._totals[name] for name in accounts) >= limit

    async def _count(self, account: AccountName) -> None:
        self._outdated.discard(account)
        total, after = 0, ""
        visibility = Visibility(user=UserName(""), accounts=frozenset({account}))
        while page := await self._store.streams(after=after, limit=STREAMS_PER_READ, visibility=visibility):
            total += await self._archive.total(
                [stream.tag.log_id for stream in page if stream.owner.account == account]
            )
            after = page[-1].name
        self._totals[account] = total
