"""One server from its start to its end, on a database and a container engine that outlive it."""

import asyncio
import sqlite3
from datetime import timedelta

from batchq.errors import StoreFailed
from batchq.ports.checkpoints import CheckpointStore
from batchq.ports.clock import BootClock
from batchq.ports.logs import LogArchive
from batchq.ports.runtime import ContainerRuntime
from tests.simulation import budgets, submissions, webhooks
from tests.simulation.choices import Choices
from tests.simulation.clocks import ServerClock
from tests.simulation.container_engine import FaultyRuntime
from tests.simulation.invariants import Invariants
from tests.simulation.lifetime import Lifetime
from tests.simulation.page_checks import PageChecks
from tests.simulation.planned_faults import SURVEY_INTERVAL
from tests.simulation.run_log import RunLog
from tests.simulation.state_checks import ExplanationChecks, StateChecks
from tests.simulation.store import FaultyDatabase, ObservedStore
from tests.support.in_process_server import InProcessServer


class Server(InProcessServer):
    """`ready`: it accepts requests."""

    def __init__(
        self,
        *,
        connection: sqlite3.Connection,
        runtime: ContainerRuntime,
        archive: LogArchive,
        checkpoints: CheckpointStore,
        clock: BootClock,
        choices: Choices,
        run_log: RunLog,
        invariants: Invariants,
        grace: timedelta,
        receiver: webhooks.Receiver,
    ) -> None:
        self.lifetime = Lifetime(choices=choices, run_log=run_log)
        self._times, self._history, self._budgets = invariants.times, invariants.history, invariants.budgets
        if self._times.machine_clock is not None:
            clock = ServerClock(clock, self._times.machine_clock.skew)
        self.ready = False
        self._leaves = asyncio.Event()
        self._run_log = run_log
        super().__init__(
            store=ObservedStore(FaultyDatabase(connection, lifetime=self.lifetime, choices=choices), invariants),
            runtime=FaultyRuntime(
                runtime,
                clock=clock,
                machine_clock=invariants.times.machine_clock,
                lifetime=self.lifetime,
                choices=choices,
                run_log=run_log,
                invariants=invariants,
            ),
            archive=archive,
            checkpoints=checkpoints,
            clock=clock,
            people=lambda: submissions.directory(invariants.resources.account_limit),
            restricts_accounts=False,
            survey_interval=SURVEY_INTERVAL,
            new_job_id=choices.job_id,
        )
        self._checks = (
            StateChecks(self.engine.loop, jobs=invariants.jobs, run_log=run_log),
            ExplanationChecks(self.engine, jobs=invariants.jobs, run_log=run_log),
            PageChecks(self.engine, connection, jobs=invariants.jobs, run_log=run_log),
        )
        self.store.before_commit = self._check_state
        self._has_webhook = choices.has_webhook
        self.webhooks = webhooks.dispatcher(self, webhooks.Sender(receiver, self.lifetime, choices), clock)
        self.submissions = self.submission_service(stop_grace=grace, prices=budgets.prices(choices))

    def _check_state(self) -> None:
        for checks in self._checks:
            checks.check()
        self._budgets.check_memory(self.engine.loop)

    async def align(self) -> None:
        """Shift stored times as bootstrap does; only where the machine's clock is set."""
        if isinstance(self.clock, ServerClock):
            await super().align()
            self._times.check_alignment()

    async def live(self) -> None:
        """Run until the server is dead and all of its tasks have ended."""
        course = asyncio.create_task(self._course(), name="a server")
        died = asyncio.create_task(self.lifetime.died.wait())
        await asyncio.wait({course, died}, return_when=asyncio.FIRST_COMPLETED)
        self.ready = False
        self.lifetime.end("in order")
        course.cancel()
        await asyncio.gather(course, died, return_exceptions=True)
        await self.kill()
        self._history.check_feed(self.engine.history_feed)

    @property
    def surveyed(self) -> bool:
        """Whether the result of a survey was handled."""
        return self.engine.loop.state.orphans.first_survey is not None

    def leave(self) -> None:
        """Request an orderly stop."""
        self._leaves.set()

    async def _course(self) -> None:
        try:
            await self.align()
            await self.start()
            if self._has_webhook:
                await self.webhooks.load()
                self.engine.tasks.supervise("webhooks", self.webhooks.run)
        except StoreFailed as why:
            self._run_log.write(f"server cannot start: {why}")
            await self.engine.stop()
            return
        self.ready = True
        self._run_log.write("server is ready")
        await self._leaves.wait()
        self.ready = False
        self.engine.history_feed.close()
        await self.engine.stop()
        await self.webhooks.close()
        self._run_log.write("server has stopped")
