"""Until when active attempts are known to have run: the surveys that saw their containers run. Decision 0064.

A server that was down, or whose engine does not answer, does not know whether containers still run. So an attempt costs
until the last survey that saw one of its containers run, and until its end once the container engine has reported that.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from batchq.domain.ids import JobId
from batchq.domain.job import Job
from batchq.domain.lifecycle.reconcile import SurveyedContainer, tags_under_way
from batchq.engine.unit_of_work import Committed, UnitOfWork
from batchq.ports.jobs import SurveyRecord

SAVE_INTERVAL = timedelta(seconds=60)  # between two stored surveys: each is a commit


class Sightings:
    """Written by the handler of surveys and `on_committed`; all other code only reads it."""

    def __init__(self) -> None:
        #: When the last accepted survey of this server began; None before the first one.
        self.surveyed_at: datetime | None = None
        #: Whether the container engine on which the attempts run answers.
        self.engine_answers = False
        #: The last stored survey, of this or an earlier server; None: no survey is stored.
        self._saved: SurveyRecord | None = None
        #: As `_saved` at the start of this server.
        self._of_earlier_server: SurveyRecord | None = None
        #: By job that was active at the last survey of this server: when the last survey began in which one of its
        #: containers ran; None: no such survey is known.
        self._seen: Mapping[JobId, datetime | None] = {}

    def load(self, saved: SurveyRecord | None) -> None:
        """Load the stored survey: at the start, and whenever memory may differ from the store."""
        self._saved = saved
        if self.surveyed_at is None:
            self._of_earlier_server = saved

    def record(self, unit: UnitOfWork, began: datetime, surveyed: Iterable[SurveyedContainer]) -> None:
        """Record an accepted survey, and store it if the stored one is old and jobs with prices run.

        An attempt may have ended unnoticed while others run, so the stored survey names the attempts that did not run.
        """
        running = {container.tag for container in surveyed if container.running}
        priced = [job for job in unit.active().values() if job.spec.prices is not None]
        seen = {job.id: began for job in priced if not running.isdisjoint(tags_under_way(job))}
        unseen = {job.id: self._seen_at(job.id) for job in priced if job.id not in seen}
        self._seen = unseen | seen
        self.surveyed_at, self.engine_answers = began, True
        is_old = self._saved is None or not timedelta() <= began - self._saved.began_at < SAVE_INTERVAL
        if is_old and seen:
            unit.container_engine.store_survey(SurveyRecord(began_at=began, unseen=unseen))

    def known_until(self, job: Job) -> datetime | None:
        """Until when the job's active attempt is known to have run; None: it has not started."""
        started = None if job.attempt is None else job.attempt.started_at
        seen = self._seen_at(job.id)
        return started if started is None or seen is None else max(started, seen)

    def expected_until(self, job: Job, now: datetime) -> datetime | None:
        """As `known_until`, but `now` for an attempt that runs as far as the container engine has reported."""
        known = self.known_until(job)
        if known is None or self.surveyed_at is None or not self.engine_answers:
            return known
        return now if known >= self.surveyed_at else known

    def on_committed(self, committed: Committed) -> None:
        self._saved = committed.unit.container_engine.survey or self._saved

    def _seen_at(self, job_id: JobId) -> datetime | None:
        """When the last survey began that can have seen a container of the job run; None: no such survey is known."""
        if job_id in self._seen or self._of_earlier_server is None:
            return self._seen.get(job_id)
        return self._of_earlier_server.seen_at(job_id)
