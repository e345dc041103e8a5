"""Until when active attempts are known to have run: the surveys that saw their containers run. Decision 0064.

A server that was down, or whose engine does not answer, does not know whether containers still run. So an attempt costs
until the last survey that saw one of its containers run, and until its end once the engine has reported that.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.reconcile import SurveyedContainer, tags_under_way
from batchq.engine.unit_of_work import Committed, UnitOfWork

SAVE_INTERVAL = timedelta(seconds=60)  # between two stored surveys: each is a commit


class Sightings:
    """Written by the handler of surveys and `on_committed`; all other code only reads it."""

    def __init__(self) -> None:
        #: When the last accepted survey of this server began; None before the first one.
        self.surveyed_at: datetime | None = None
        #: Whether the container engine on which the attempts run answers.
        self.engine_answers = False
        #: When the last stored survey began, of this or an earlier server; None: no survey is stored.
        self._saved_at: datetime | None = None
        #: As `_saved_at` at the start of this server.
        self._of_earlier_server: datetime | None = None
        #: By active job: when the last survey of this server began in which one of its containers ran.
        self._seen: Mapping[JobId, datetime] = {}

    def load(self, saved_at: datetime | None) -> None:
        """Load the stored survey: at the start, and whenever memory may differ from the store."""
        self._saved_at = saved_at
        if self.surveyed_at is None:
            self._of_earlier_server = saved_at

    def record(self, unit: UnitOfWork, began: datetime, surveyed: Iterable[SurveyedContainer]) -> None:
        """Record an accepted survey, and store its time if the stored one is old and jobs with prices run."""
        running = {container.tag for container in surveyed if container.running}
        priced = [job for job in unit.active().values() if job.spec.prices is not None]
        seen = {job.id: began for job in priced if not running.isdisjoint(tags_under_way(job))}
        earlier = {job.id: self._seen[job.id] for job in priced if job.id in self._seen}
        self._seen = earlier | seen
        self.surveyed_at, self.engine_answers = began, True
        is_old = self._saved_at is None or not timedelta() <= began - self._saved_at < SAVE_INTERVAL
        if is_old and seen:
            unit.surveyed_at = began

    def known_until(self, job: Job) -> datetime | None:
        """Until when the job's active attempt is known to have run; None: it has not started."""
        started = None if job.attempt is None else job.attempt.started_at
        seen = self._seen.get(job.id, self._of_earlier_server)
        return started if started is None or seen is None else max(started, seen)

    def expected_until(self, job: Job, now: datetime) -> datetime | None:
        """As `known_until`, but `now` for an attempt that runs as far as the engine has reported."""
        known = self.known_until(job)
        if known is None or self.surveyed_at is None or not self.engine_answers:
            return known
        return now if known >= self.surveyed_at else known

    def on_committed(self, committed: Committed) -> None:
        self._saved_at = committed.unit.surveyed_at or self._saved_at
