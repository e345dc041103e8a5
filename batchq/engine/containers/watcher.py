"""Watches the container engine: its identity, its stream of container deaths, and surveys of all containers.

A survey runs at intervals and whenever the stream of deaths begins again. Only the container engine on which the
unfinished attempts were placed is called (decision 0037).
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import timedelta

from batchq.domain.ids import Tag
from batchq.domain.job import Job
from batchq.domain.lifecycle.reconcile import SurveyedContainer, tags_under_way
from batchq.domain.task import total
from batchq.engine.mailbox import RuntimeLost, SurveyCompleted
from batchq.engine.supervisor import wait_at_most
from batchq.engine.unit_of_work import Committed
from batchq.errors import RuntimeUnknown
from batchq.ports.clock import Clock
from batchq.ports.runtime import (
    ContainerRuntime,
    ContainerState,
    Created,
    DeathReport,
    Inspection,
    LaunchSpec,
    joined_ids,
    separate_ids,
)

log = logging.getLogger(__name__)

RECONNECT_DELAY = 1.0  # seconds before the stream is opened again, and between surveys without an answer


class Watcher:
    """Reports deaths and surveys of containers."""

    def __init__(
        self,
        *,
        runtime: ContainerRuntime,
        clock: Clock,
        survey_interval: float,
        expected: Callable[[], frozenset[Tag]],
        on_death: Callable[[Tag | DeathReport], None],
        post: Callable[[SurveyCompleted | RuntimeLost], None],
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        #: Seconds between surveys.
        self._survey_interval = survey_interval
        #: Returns the containers that a survey should find.
        self._expected = expected
        #: Called for each container that may have ended.
        self._on_death = on_death
        self._post = post
        #: Set when a survey is due.
        self._survey_due = asyncio.Event()
        #: Why the last survey failed; None if it succeeded.
        self.engine_failure: str | None = "no survey yet"
        #: When the surveys began to fail; stays at that time after they succeed again.
        self.failing_since = clock.now()
        #: Set after the first survey, successful or not.
        self.first_survey_done = asyncio.Event()

    async def watch(self) -> None:
        """Follow the stream of deaths.

        A survey follows each time the stream opens, so no death in between is missed.
        """
        while True:
            try:
                async with self._runtime.deaths() as deaths:
                    self._survey_due.set()
                    async for death in deaths:
                        self._on_death(death)
                self._survey_due.set()
            except RuntimeUnknown as unknown:
                log.debug("the container engine's event stream failed: %s", unknown)
            await self._clock.sleep(RECONNECT_DELAY)

    async def survey(self) -> None:
        """Survey all containers whenever a survey is due."""
        while True:
            await self._survey_once()
            self.first_survey_done.set()
            await self._until_due()

    def survey_now(self) -> None:
        """Make a survey due at once."""
        self._survey_due.set()

    async def _survey_once(self) -> None:
        self._survey_due.clear()
        expected, began_at = self._expected(), self._clock.now()
        try:
            found = await self._runtime.survey()
            machines = await self._runtime.machines()
            lost_before = await self._runtime.lost_before()
            engine = await self._runtime.identity()
        except RuntimeUnknown as unknown:
            self._engine_lost(str(unknown))
            return
        if self.engine_failure is not None:
            resources = total(machine.resources for machine in machines)
            log.info("the container engine answers: machines=%d %s", len(machines), resources)
        self.engine_failure = None
        seen = tuple(
            SurveyedContainer(
                tag=inspection.tag,
                running=inspection.state is ContainerState.RUNNING,
                started=inspection.state is not ContainerState.CREATED,
                machine=inspection.machine,
            )
            for inspection in found
            if inspection.state is not ContainerState.GOING or inspection.tag in expected
        )
        self._post(
            SurveyCompleted(
                engine=engine,
                containers=seen,
                began_at=began_at,
                expected=expected,
                machines=machines,
                lost_before=lost_before,
            )
        )

    def _engine_lost(self, why: str) -> None:
        if self.engine_failure is None:
            self.failing_since = self._clock.now()
        if self.engine_failure != why:
            log.warning("the container engine does not answer; no container is started until it does: %s", why)
        self.engine_failure = why
        self._post(RuntimeLost())

    async def _until_due(self) -> None:
        """Wait for the interval, or until a survey is due; RECONNECT_DELAY without an answer of the engine."""
        pause = self._survey_interval if self.engine_failure is None else RECONNECT_DELAY
        await wait_at_most(pause, self._survey_due, self._clock)


class RuntimeCheck:
    """Compares the ids of container engines. A container is lost only if its own engine lacks it."""

    def __init__(self) -> None:
        #: The container engine's id as last saved; None before the first survey.
        self.known_id: str | None = None
        #: Whether the container engine that answers may be asked about attempts.
        self.accepted = False
        #: The id of an engine that answers but is not the known one; None: no such engine answers.
        self.foreign_id: str | None = None
        #: The id of the container engine that the last survey accepted; None: no survey was accepted, or the container
        #: engine has no id.
        self._accepted_id: str | None = None
        #: The active jobs at the last survey.
        self._active_jobs = 0

    @property
    def error(self) -> str | None:
        """The error to report while a foreign engine answers, else None."""
        if self.foreign_id is None:
            return None
        return (
            f"this is not the container engine that {self._active_jobs} jobs run on (this id {self.foreign_id}, known "
            f"id {self.known_id}): no container is started and no job counts as lost until the known engine answers "
            "or `batchq leave-safe-mode --new-engine` accepts this one"
        )

    def matches(self, engine: str | None) -> bool:
        """Whether the id matches the known id. An engine without a permanent id always matches.

        If the server has several engines, those that answer are compared. If it had another number of engines before,
        all known ones must answer: an absent container is lost only if its own engine answers.
        """
        reported, known = separate_ids(engine), separate_ids(self.known_id)
        if reported and known and self._is_of_several(engine) != self._is_of_several(self.known_id):
            return set(known.values()) <= set(reported.values())
        return all(known.get(name, own) == own for name, own in reported.items())

    def _is_of_several(self, engine: str | None) -> bool:
        return "" not in separate_ids(engine)

    @property
    def unsaved_id(self) -> str | None:
        """The id of the accepted engine, if it must still be saved; else None.

        Every unit of work saves it, not only that of the survey: that one may fail, and the next may place a job.
        """
        return None if self._accepted_id == self.known_id else self._accepted_id

    def check_survey(self, engine: str | None, *, seen: Collection[Tag], active: Collection[Job]) -> None:
        """Accept the container engine of a survey, or not.

        An engine that has a container of an unfinished attempt is accepted: it has changed its id. That proves nothing
        about the others of several engines.
        """
        under_way = {tag for job in active for tag in tags_under_way(job)}
        is_one = not self._is_of_several(engine) and not self._is_of_several(self.known_id)
        self.accepted = self.matches(engine) or not active or (is_one and not under_way.isdisjoint(seen))
        self._active_jobs = len(active)
        self.foreign_id = None if self.accepted else engine
        self._accepted_id = self._with_silent_engines(engine) if self.accepted else None

    def _with_silent_engines(self, engine: str | None) -> str | None:
        """The ids of the engines of a survey, and the known ids of the others."""
        if engine is None or not self._is_of_several(engine) or not self._is_of_several(self.known_id):
            return engine
        return joined_ids(separate_ids(self.known_id) | separate_ids(engine))

    def on_committed(self, committed: Committed) -> None:
        engine = committed.unit.container_engine.engine_id
        if engine is None:
            return
        self.known_id = engine
        if self.foreign_id == engine:
            self.foreign_id = None


class VerifiedRuntime:
    """Raises RuntimeUnknown from each call while an engine other than the known one answers."""

    def __init__(
        self, runtime: ContainerRuntime, check: RuntimeCheck, *, is_unreachable: Callable[[Tag], bool]
    ) -> None:
        self._runtime = runtime
        self._check = check
        #: Whether the machine of a container does not answer the container engine.
        self._is_unreachable = is_unreachable

    async def verify(self) -> None:
        """Raise RuntimeUnknown if another container engine answers. Before the first survey this requests its id."""
        if not self._check.accepted:
            await self._compare_ids()
            self._check.accepted = True

    async def create(self, launch: LaunchSpec) -> Created:
        await self.verify()
        return await self._runtime.create(launch)

    async def pull(self, image: str, platform: str | None, *, account: str = "") -> None:
        await self.verify()
        await self._runtime.pull(image, platform, account=account)

    async def start(self, tag: Tag) -> None:
        await self.verify()
        await self._runtime.start(tag)

    async def inspect(self, tag: Tag) -> Inspection | None:
        """The state of a container; None if it is absent.

        Absence is reported only after the container engine's id was compared again: the container engine may have been
        replaced in between. A container that was removed while its machine does not answer may still run there, so its
        absence is not known.
        """
        await self.verify()
        found = await self._runtime.inspect(tag)
        if found is None:
            await self._compare_ids()
            if self._is_unreachable(tag):
                raise RuntimeUnknown(f"the machine of container {tag} does not answer: its program may still run")
        return found

    async def signal_stop(self, tag: Tag, signal: str | None = None, *, grace: timedelta | None = None) -> None:
        await self.verify()
        await self._runtime.signal_stop(tag, signal, grace=grace)

    async def kill(self, tag: Tag) -> None:
        await self.verify()
        await self._runtime.kill(tag)

    async def remove(self, tag: Tag) -> None:
        await self.verify()
        await self._runtime.remove(tag)

    async def _compare_ids(self) -> None:
        if self._check.foreign_id is None and self._check.matches((await self._runtime.identity()).id):
            return
        self._check.accepted = False
        raise RuntimeUnknown("a different container engine answers than the one on which jobs run")
