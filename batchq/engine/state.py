"""The state of the loop beside the stored jobs: what surveys and requests change, and repeated submissions."""

import logging
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from batchq.domain.container import Resources
from batchq.domain.ids import JobId, Tag
from batchq.domain.job import Job
from batchq.domain.job_counts import JobCounts
from batchq.domain.lifecycle.forced_failure import is_damaged
from batchq.engine.engine_identity import EngineCheck
from batchq.engine.safe_mode import SafeMode
from batchq.engine.unit_of_work import Committed
from batchq.ports.catalog import CatalogView
from batchq.ports.jobs import JobStore, SubmissionKey

log = logging.getLogger(__name__)
SUBMISSIONS_KEPT_FOR = timedelta(minutes=15)  # how long a submission is stored under its key
FILTER_BYTES = 2**22  # bytes, one for each key's hash: at four hundred calls a second a tenth of them is marked
QUARANTINE = timedelta(seconds=60)  # before an orphan is removed
MAX_ORPHANS = 3  # orphans at once; if there are more, none is removed


class EngineState:
    """Written by the message handlers and `on_committed`; all other code only reads it."""

    def __init__(self, catalog: CatalogView, engine_check: EngineCheck) -> None:
        #: Jobs that are STARTING or RUNNING, as last saved.
        self.active: dict[JobId, Job] = {}
        #: The resources of the host that jobs may use; None while the container engine does not answer.
        self.host: Resources | None = None
        #: The jobs that had containers in the last survey, and their arrays.
        self.jobs_in_survey: frozenset[JobId] = frozenset()
        #: Whether the catalog or the host's capacity has changed since the last placement pass.
        self.catalog_changed = False
        #: `Job.order` of the next submitted job.
        self.next_order = 0
        #: The numbers of unfinished jobs, as last saved.
        self.counts = JobCounts({})
        #: The earliest time that a server of the machine's present boot can have stored; None: not known.
        self.clock_since: datetime | None = None
        #: How far the engine's clock is ahead of this server's; None when the engine does not report its time.
        self.engine_clock_offset: timedelta | None = None
        #: Safe mode after a restore.
        self.safe_mode = SafeMode(catalog)
        #: The identity of the container engine on which the unfinished attempts run.
        self.engine_check = engine_check
        #: Detects submissions that may be repetitions.
        self.idempotency = IdempotencyFilter()
        #: Containers without a known job.
        self.orphans = OrphanContainers()

    async def load(self, store: JobStore, now: datetime) -> None:
        """Load the state from the store.

        Called before the first unit of work, and whenever memory may differ from the store.
        """
        self.active = {job.id: job for job in await store.active() if not is_damaged(job)}
        self.next_order = await store.last_order() + 1
        self.counts = JobCounts(await store.unfinished_counts())
        self.idempotency.load(now, empty=self.next_order == 0)
        self.safe_mode.restoration = await store.restoration()
        self.engine_check.known_id = await store.engine_id()
        anchor = await store.clock_anchor()
        self.clock_since = None if anchor is None else anchor.since

    def on_committed(self, committed: Committed) -> None:
        for job in committed.jobs:
            if job.attempt is not None:
                self.active[job.id] = job
            else:
                self.active.pop(job.id, None)
        self.counts.update((it.before, it.job) for it in committed.transitions)
        self.safe_mode.on_committed(committed)
        self.engine_check.on_committed(committed)

    @property
    def jobs_with_containers(self) -> frozenset[JobId] | None:
        """The jobs that had containers in the last survey; None without a valid survey."""
        return None if self.host is None or self.safe_mode.active else self.jobs_in_survey

    @property
    def safe_mode_reason(self) -> str | None:
        """The reason why safe mode starts no job; None outside safe mode."""
        return str(self.safe_mode) if self.safe_mode.active else None


class IdempotencyFilter:
    """A filter of submission keys with false positives but no false negatives.

    A key marks one byte by its hash. An unmarked key is new; a marked one may be a different key with the same hash.
    Keys are marked before anything is saved, and stay marked longer than the submission is stored. The keys stored by
    an earlier server are not known, so every key may be a repetition until those have expired.
    """

    def __init__(self) -> None:
        #: The marks of the current period, which is SUBMISSIONS_KEPT_FOR long.
        self._marks = bytearray(FILTER_BYTES)
        #: The marks of the previous period.
        self._older = bytearray(FILTER_BYTES)
        #: When the current period began.
        self._since = datetime.min.replace(tzinfo=UTC)
        #: Until when every key may be a repetition.
        self._unsure_until = self._since

    def load(self, now: datetime, *, empty: bool) -> None:
        """Start at `now`. `empty`: no job has ever been saved in the store, so no key is stored either."""
        self._unsure_until = now if empty else now + SUBMISSIONS_KEPT_FOR

    def may_be_repeated(self, key: SubmissionKey, now: datetime) -> bool:
        """Mark the key; whether it may be a repetition and must be looked up in the store."""
        if now - self._since >= SUBMISSIONS_KEPT_FOR:
            self._marks, self._older, self._since = bytearray(FILTER_BYTES), self._marks, now
        place = hash(key) % FILTER_BYTES
        marked = self._marks[place] or self._older[place]
        self._marks[place] = 1
        return bool(marked) or now < self._unsure_until


class OrphanContainers:
    """Decides which orphans are removed.

    None is removed if there are many at once: probably the database does not belong to the containers. An orphan that
    appears after the first survey is left alone: another server of this instance created it. Decision 0036.
    """

    def __init__(self) -> None:
        #: When each orphan was first seen.
        self._since: dict[Tag, datetime] = {}
        #: Whether the present excess of orphans has been logged.
        self._excess_logged = False
        #: The containers of the first survey; None before it.
        self.first_survey: frozenset[Tag] | None = None
        #: The orphans that appeared after the first survey and have been logged.
        self._logged: set[Tag] = set()

    def record_survey(self, seen: Iterable[Tag]) -> None:
        """Record the containers of the first survey, including those of known jobs."""
        if self.first_survey is None:
            self.first_survey = frozenset(seen)

    def expired(self, seen: Collection[Tag], now: datetime) -> list[Tag]:
        """The orphans whose quarantine is over; empty if there are more than MAX_ORPHANS orphans."""
        first = self.first_survey or frozenset()
        self._log_later([it for it in seen if it not in first])
        seen = [it for it in seen if it in first]
        self._since = {tag: self._since.get(tag, now) for tag in seen}
        if len(seen) > MAX_ORPHANS:
            self._log_excess(len(seen))
            return []
        self._excess_logged = False
        return [tag for tag, since in self._since.items() if now - since >= QUARANTINE]

    def _log_later(self, later: Collection[Tag]) -> None:
        for tag in sorted(set(later) - self._logged, key=str):
            log.warning(
                "container %s has no known job and was created after this server started; it is not removed: "
                "another server of this instance may be running",
                tag,
            )
        self._logged.intersection_update(later)
        self._logged.update(later)

    def _log_excess(self, count: int) -> None:
        if not self._excess_logged:
            log.warning("%d containers of this instance have no known job; none of them is removed", count)
        self._excess_logged = True
