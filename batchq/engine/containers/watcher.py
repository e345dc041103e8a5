"""Eyes on the engine: its news of deaths as hints, and a survey whenever that stream begins anew, and now and then."""

import asyncio
import logging
from collections.abc import Callable

from batchq.domain.ids import Tag
from batchq.domain.lifecycle.reconcile import Seen
from batchq.engine.messages import EngineLost, SurveyCompleted
from batchq.engine.supervisor import within
from batchq.errors import EngineUnknown
from batchq.ports.clock import Clock
from batchq.ports.runtime import ContainerRuntime, ContainerState, DeathReport

log = logging.getLogger(__name__)

RECONNECT_AFTER = 1.0  # seconds


class Watcher:
    """`on_death` is told of containers that may have ended; `running` tells the attempts that a survey must find."""

    def __init__(
        self,
        *,
        runtime: ContainerRuntime,
        clock: Clock,
        survey_every: float,
        running: Callable[[], frozenset[Tag]],
        on_death: Callable[[Tag | DeathReport], None],
        post: Callable[[SurveyCompleted | EngineLost], None],
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._survey_every = survey_every
        self._running = running
        self._on_death = on_death
        self._post = post
        self._due = asyncio.Event()
        self.engine_fails: str | None = "not asked yet"
        self.asked = asyncio.Event()

    async def watch(self) -> None:
        """Listen first, then survey: what happens in between is heard."""
        while True:
            try:
                async with self._runtime.deaths() as news:
                    self._due.set()
                    async for it in news:
                        self._on_death(it)
                self._due.set()
            except EngineUnknown as unknown:
                log.debug("the engine's news cannot be heard: %s", unknown)
            await self._clock.sleep(RECONNECT_AFTER)

    async def survey(self) -> None:
        """Look at everything, whenever it is due."""
        while True:
            await self._survey_once()
            self.asked.set()
            await self._until_due()

    def survey_now(self) -> None:
        self._due.set()

    async def _survey_once(self) -> None:
        self._due.clear()
        expected = self._running()
        try:
            found = await self._runtime.survey()
            capacity = await self._runtime.capacity()
            lost_before = await self._runtime.lost_before()
            engine = await self._runtime.identity()
        except EngineUnknown as unknown:
            self._lost(str(unknown))
            return
        if self.engine_fails is not None:
            log.info("the container engine answers: %s", capacity)
        self.engine_fails = None
        seen = tuple(
            Seen(tag=it.tag, lives=it.state is ContainerState.RUNNING, begun=it.state is not ContainerState.CREATED)
            for it in found
            if it.state is not ContainerState.GOING or it.tag in expected
        )
        self._post(
            SurveyCompleted(engine=engine, seen=seen, expected=expected, capacity=capacity, lost_before=lost_before)
        )

    def _lost(self, why: str) -> None:
        if self.engine_fails != why:
            log.warning("the container engine does not answer; nothing is started until it does: %s", why)
        self.engine_fails = why
        self._post(EngineLost())

    async def _until_due(self) -> None:
        """The next survey comes after a while, sooner when the stream of news began anew or the engine is away."""
        pause = self._survey_every if self.engine_fails is None else RECONNECT_AFTER
        await within(pause, self._due, self._clock)
