"""Watches the container engine: follows its stream of container deaths, and surveys all containers.

A survey runs at intervals and whenever the stream of deaths begins again.
"""

import asyncio
import logging
from collections.abc import Callable

from batchq.domain.ids import Tag
from batchq.domain.lifecycle.reconcile import SurveyedContainer
from batchq.engine.mailbox import EngineLost, SurveyCompleted
from batchq.engine.supervisor import wait_at_most
from batchq.errors import EngineUnknown
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerRuntime, ContainerState, DeathReport

log = logging.getLogger(__name__)

RECONNECT_DELAY = 1.0  # seconds before the stream is opened again, and between surveys while the engine is away


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
        post: Callable[[SurveyCompleted | EngineLost], None],
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
                    async for it in deaths:
                        self._on_death(it)
                self._survey_due.set()
            except EngineUnknown as unknown:
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
        expected = self._expected()
        try:
            found = await self._runtime.survey()
            capacity = await self._runtime.capacity()
            lost_before = await self._runtime.lost_before()
            engine = await self._runtime.identity()
        except EngineUnknown as unknown:
            self._engine_lost(str(unknown))
            return
        if self.engine_failure is not None:
            log.info("the container engine answers: %s", capacity)
        self.engine_failure = None
        seen = tuple(
            SurveyedContainer(
                tag=it.tag, running=it.state is ContainerState.RUNNING, started=it.state is not ContainerState.CREATED
            )
            for it in found
            if it.state is not ContainerState.GOING or it.tag in expected
        )
        self._post(
            SurveyCompleted(
                engine=engine, containers=seen, expected=expected, capacity=capacity, lost_before=lost_before
            )
        )

    def _engine_lost(self, why: str) -> None:
        if self.engine_failure is None:
            self.failing_since = self._clock.now()
        if self.engine_failure != why:
            log.warning("the container engine does not answer; no container is started until it does: %s", why)
        self.engine_failure = why
        self._post(EngineLost())

    async def _until_due(self) -> None:
        """Wait for the interval, or until a survey is due; only RECONNECT_DELAY while the engine does not answer."""
        pause = self._survey_interval if self.engine_failure is None else RECONNECT_DELAY
        await wait_at_most(pause, self._survey_due, self._clock)
