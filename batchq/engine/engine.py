"""The interface of the engine to the services: submit jobs, send requests about jobs, start and stop the engine.

The health of the engine.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.access.accounts import Caller
from batchq.domain.budgets import Budget, BudgetKey
from batchq.domain.bulk_stop import JobOutcome
from batchq.domain.explanation.facts import BlockedHead, SchedulerState
from batchq.domain.ids import ConsumableName, JobId, QueueName, SubmissionKey, Tag
from batchq.domain.job import Job, JobSpec
from batchq.domain.job_counts import JobGroup
from batchq.domain.job_selection import JobSelection
from batchq.domain.lifecycle.views import PendingArrayOrders
from batchq.domain.machines import Machine
from batchq.domain.scheduling.capacity import Cluster
from batchq.domain.scheduling.resources import UsageSnapshot
from batchq.domain.stop_request import StopRequest
from batchq.engine.account_limits import AccountPolicies, SubmitRateLimiter
from batchq.engine.budgets import BudgetMonitor, BudgetStatus
from batchq.engine.bulk_stops import OutcomeReceiver, outcome_receiver, outcomes_until_end
from batchq.engine.checkpoints import Checkpoints, FinalMetrics, ReadMetrics
from batchq.engine.containers.executor import Executor
from batchq.engine.containers.start_breaker import StartBreakers
from batchq.engine.containers.watcher import RuntimeCheck, VerifiedRuntime, Watcher
from batchq.engine.history_feed import HistoryFeed
from batchq.engine.loop import EngineLoop
from batchq.engine.mailbox import BulkStopRequest, JobEvent, LeaveSafeMode, Mailbox, SetBudget, Submit, UpdateTags
from batchq.engine.scheduler_state import Health, scheduler_state
from batchq.engine.store_monitor import StoreMonitor
from batchq.engine.supervisor import Supervisor, wait_at_most
from batchq.engine.timers import Timers
from batchq.engine.use import UseSampler
from batchq.errors import BatchqError, StaleRead
from batchq.ports.catalog import CatalogView, Snapshot
from batchq.ports.checkpoints import CheckpointStore
from batchq.ports.clock import Clock
from batchq.ports.jobs import JobStore
from batchq.ports.observer import Observer
from batchq.ports.runtime import ContainerRuntime

FIRST_SURVEY_TIMEOUT = 10.0  # seconds for which a start waits for the first survey before it continues without it
SHUTDOWN_TIMEOUT = 5.0  # seconds for which a stop waits for calls in progress

#: The requests of users about one job.
RequestedEvent = on.StopEvent | on.HoldEvent | on.ForceFailed


class Engine:
    """One engine for each database.

    A request is answered when its decision is durable. Cancelling the wait for the answer does not withdraw the
    request.
    """

    def __init__(
        self,
        *,
        mailbox: Mailbox,
        store: JobStore,
        catalog: CatalogView,
        runtime: ContainerRuntime,
        accounts: AccountPolicies,
        checkpoints: CheckpointStore,
        checkpoint_retention: timedelta | None,
        capture_log: Callable[[Tag], Awaitable[bool]],
        follow_logs: Callable[[Job], None],
        read_metrics: ReadMetrics,
        clock: Clock,
        survey_interval: float,
        observer: Observer,
    ) -> None:
        self._clock, self.accounts, self.mailbox, self._catalog = clock, accounts, mailbox, catalog
        self.tasks, post = Supervisor(clock), mailbox.post
        self._breakers, self._engine_check = StartBreakers(clock=clock, tasks=self.tasks), RuntimeCheck()
        self._checkpoints = Checkpoints(
            store=store, files=checkpoints, retention=checkpoint_retention, clock=clock, tasks=self.tasks, post=post
        )
        self._executor, self._follow_logs = self._create_executor(runtime, capture_log, read_metrics), follow_logs
        self._timers, self.submit_rate = Timers(clock=clock, post=post), SubmitRateLimiter(accounts, clock)
        self.loop = EngineLoop(
            mailbox=mailbox,
            store=store,
            catalog=catalog,
            accounts=accounts,
            clock=clock,
            execute=self._executor.execute,
            on_saved=self._on_saved,
            tasks=self.tasks,
            engine_check=self._engine_check,
            observer=observer,
        )
        self._watcher, self.use = self._create_watcher(runtime, survey_interval), self.loop.state.use
        self._sampler, self.exec = UseSampler(runtime=runtime, clock=clock, samples=self.use), runtime.exec
        self.store_monitor, self._budget_monitor = self._create_monitors(store)

    def _create_monitors(self, store: JobStore) -> tuple[StoreMonitor, BudgetMonitor]:
        loop, post = self.loop, self.mailbox.post
        return StoreMonitor(store=store, clock=self._clock, post=post), BudgetMonitor(
            loop.budgets,
            loop.state,
            loop.candidate_reader,
            clock=self._clock,
            survey_now=self._watcher.survey_now,
            post=post,
        )

    def _create_watcher(self, runtime: ContainerRuntime, survey_interval: float) -> Watcher:
        return Watcher(
            runtime=runtime,
            clock=self._clock,
            survey_interval=survey_interval,
            expected=self.loop.state.running,
            on_death=self._executor.on_death,
            post=self.mailbox.post,
        )

    def _create_executor(
        self, runtime: ContainerRuntime, capture_log: Callable[[Tag], Awaitable[bool]], read_metrics: ReadMetrics
    ) -> Executor:
        verified = VerifiedRuntime(
            runtime,
            self._engine_check,
            is_unreachable=lambda tag: self.loop.state.is_unreachable(tag),  # noqa: PLW0108 - the loop is created later
        )

        async def capture_verified(tag: Tag) -> bool:
            await verified.verify()
            return await capture_log(tag)

        return Executor(
            runtime=verified,
            catalog=self._catalog,
            accounts=self.accounts,
            checkpoints=self._checkpoints,
            breaker_of=lambda machine: self._breakers.of_engine(self.loop.state.engine_of(machine)),
            capture_log=capture_verified,
            final_metrics=FinalMetrics(read=read_metrics, post=self.mailbox.post),
            clock=self._clock,
            tasks=self.tasks,
            saved_job=lambda job_id: self.loop.state.active.get(job_id),  # noqa: PLW0108 - the loop is created later
            post=self.mailbox.post,
        )

    def _on_saved(self, job: Job) -> None:
        self._timers.set(job)
        if job.spec.checkpoints is not None:
            self._checkpoints.on_saved(job)
        self._sampler.on_saved(job)
        self._follow_logs(job)

    async def start(self) -> None:
        """Load the stored state, start the background loops, and wait for the first survey or FIRST_SURVEY_TIMEOUT."""
        await self.loop.load()
        self.tasks.supervise("scheduler", self.loop.run)
        self.tasks.supervise("alarms", self._timers.run)
        self.tasks.supervise("time limits", self.loop.scheduler.time_limits.run)
        self.tasks.supervise("shares", self.loop.revisit_shares)
        self.tasks.supervise("accounts", partial(self.accounts.watch, self._clock, self.mailbox.catalog_changed))
        self.tasks.supervise("watch", self._watcher.watch)
        self.tasks.supervise("survey", self._watcher.survey)
        self.tasks.supervise("store", self.store_monitor.run)
        self.tasks.supervise("use", self._sampler.run)
        self.tasks.supervise("checkpoints", self._checkpoints.watch)
        safe_mode = self.loop.state.safe_mode
        self.tasks.supervise("old checkpoints", partial(self._checkpoints.sweep, suspended=lambda: safe_mode.active))
        self.tasks.supervise("budgets", self._budget_monitor.run)
        await wait_at_most(FIRST_SURVEY_TIMEOUT, self._watcher.first_survey_done, self._clock)

    async def stop(self) -> None:
        """Stop placing jobs, wait up to SHUTDOWN_TIMEOUT for calls in progress, and end all tasks.

        Containers are not stopped.
        """
        self.loop.closing = True
        await self.tasks.drain(SHUTDOWN_TIMEOUT)
        await self.tasks.cancel()

    async def submit(
        self,
        *,
        job_id: JobId,
        spec: JobSpec,
        tags: tuple[tuple[str, str], ...],
        key: SubmissionKey | None,
        caller: Caller,
    ) -> Job:
        """Return the new job, or the existing job if the same call was made before. Raises Invalid, StoreFailed."""
        return await self.mailbox.request(
            lambda answer: Submit(job_id=job_id, spec=spec, tags=tags, key=key, caller=caller, answer=answer)
        )

    async def deliver(
        self, job_id: JobId, event: RequestedEvent, *, caller: Caller, expected: str | None = None
    ) -> None:
        """Apply a request to a job and wait until it is saved. A request about an unknown job has no effect.

        `expected`: the `stop_state` in which the request may be applied; None: in any state.
        Raises Invalid if the job's state does not allow the request, StateChanged, and StoreFailed.
        """
        await self.mailbox.request(
            lambda answer: JobEvent(job_id=job_id, event=event, caller=caller, answer=answer, expected=expected)
        )

    async def deliver_all(
        self, requests: Sequence[tuple[JobId, RequestedEvent]], *, caller: Caller, expected: str | None = None
    ) -> Sequence[BatchqError | None]:
        """Apply the requests in their order, with no other message in between.

        Each succeeds or fails independently. Returns for each the error that `deliver` would raise, or None.
        """
        loop = asyncio.get_running_loop()
        messages = [
            JobEvent(job_id=job_id, event=event, caller=caller, answer=loop.create_future(), expected=expected)
            for job_id, event in requests
        ]
        self.mailbox.post(*messages)
        answers = [event.answer for event in messages if event.answer is not None]
        results = await asyncio.gather(*answers, return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException) and not isinstance(error, BatchqError):
                raise error
        return [error if isinstance(error, BatchqError) else None for error in results]

    async def signal(self, job: Job, signal: str) -> None:
        """Send a signal that the job declared to the containers of its main node. Raises Unavailable."""
        await self._executor.signal(job, signal)

    async def update_tags(self, job_id: JobId, change: Callable[[Job], Job], *, caller: Caller) -> None:
        """Change the job's tags and wait until that is saved."""
        await self.mailbox.request(
            lambda answer: UpdateTags(job_id=job_id, change=change, caller=caller, answer=answer)
        )

    async def leave_safe_mode(self, *, purge: bool, new_engine: bool = False, caller: Caller) -> None:
        """Leave safe mode, or accept the container engine that answers (`new_engine`).

        Raises Invalid while the container engine's containers are not known, or while a foreign engine answers that is
        not accepted.
        """
        await self.mailbox.request(
            lambda answer: LeaveSafeMode(purge=purge, new_engine=new_engine, caller=caller, answer=answer)
        )
        self._watcher.survey_now()

    async def set_budget(self, key: BudgetKey, budget: Budget | None, *, caller: Caller) -> None:
        """Set or remove a budget and wait until that is saved. Raises NotFound, Invalid and StoreFailed."""
        await self.mailbox.request(lambda answer: SetBudget(key=key, budget=budget, caller=caller, answer=answer))
        self._budget_monitor.check_soon()

    def budget_statuses(self) -> tuple[BudgetStatus, ...]:
        """All budgets with what is spent of them, by key."""
        return self.loop.budgets.statuses(self.active_jobs(), self._clock.now())

    def charged_until(self, job: Job, now: datetime) -> datetime:
        """Until when the active attempt of a job costs at `now`: as far as it is expected to have run."""
        return self.loop.state.sightings.expected_until(job, now) or now

    async def stop_many(
        self, request: StopRequest, selection: JobSelection, *, caller: Caller
    ) -> AsyncIterator[tuple[JobOutcome, ...]]:
        """Stop the selected jobs.

        When this returns, the selection is durable; the iterator yields the outcomes of the jobs.

        Raises Throttled and StoreFailed.
        """
        outcomes: asyncio.Queue[tuple[JobOutcome, ...] | None] = asyncio.Queue()
        report, as_of = outcome_receiver(outcomes), self.loop.state.next_sequence
        async with self.loop.candidate_reader.after_earlier_of(caller):
            try:
                await self._begin_bulk_stop(request, selection, as_of=as_of, report=report, final=False, caller=caller)
            except StaleRead:
                await self._begin_bulk_stop(request, selection, as_of=as_of, report=report, final=True, caller=caller)
        return outcomes_until_end(outcomes)

    async def _begin_bulk_stop(
        self,
        request: StopRequest,
        selection: JobSelection,
        *,
        as_of: int,
        report: OutcomeReceiver,
        final: bool,
        caller: Caller,
    ) -> None:
        """Begin the bulk stop.

        Raises StaleRead, except when `final`: then the commit examines all jobs changed since the read.
        """
        candidates = await self.loop.candidate_reader.candidates(selection)
        await self.mailbox.request(
            lambda answer: BulkStopRequest(
                request=request,
                selection=selection,
                as_of=as_of,
                report=report,
                candidates=candidates,
                final=final,
                caller=caller,
                answer=answer,
            )
        )

    async def snapshot(self, queue: QueueName) -> Snapshot:
        """The next jobs of a queue in their order, and the resources that its running jobs hold."""
        return await self.loop.snapshot(queue)

    def pending_array_orders(self) -> PendingArrayOrders:
        """The array orders, as last saved, that may not have been applied to all children."""
        return self.loop.arrays.pending_orders

    def start_obstacle(self) -> str | None:
        """The statusReason of every queued job while no job can start; None while jobs can start."""
        if self.loop.state.safe_mode_reason is not None:
            return status_reasons.SAFE_MODE
        return None if self._watcher.engine_failure is None else status_reasons.ENGINE_AWAY

    def in_use(self, name: ConsumableName) -> int:
        """The units of a consumable resource that active jobs hold."""
        return sum(
            requirement.quantity
            for job in self.active_jobs()
            for requirement in job.spec.needs
            if requirement.resource == name
        )

    def steady_since(self, now: datetime) -> datetime:
        """The last jump of the clock, or the start of the server if there was none."""
        return self.loop.state.idempotency.steady_since(now)

    def used_up(self, name: ConsumableName) -> int:
        """The units that jobs took from a consumable resource while it was NON_REPLENISHABLE."""
        return self.loop.scheduler.used_up(name)

    def usage(self) -> UsageSnapshot:
        """The resources that active jobs hold, as last saved."""
        return self.loop.scheduler.usage()

    def scheduler_state(self) -> SchedulerState:
        """The state that explanations read, as last saved. Its collections are views, valid until the next await."""
        return scheduler_state(
            loop=self.loop,
            watcher=self._watcher,
            catalog=self._catalog,
            starts=self._executor.starts(),
            clock=self._clock,
        )

    def cluster(self) -> Cluster | None:
        """The total capacity of all compute environments, as last saved; None before the first survey."""
        machines = self.loop.state.machines
        return None if machines is None else self.loop.scheduler.cluster(machines)

    def queue_heads(self) -> Mapping[QueueName, BlockedHead]:
        """The blocked head of each queue, as last saved."""
        return self.loop.scheduler.heads()

    def blocked_heads(self) -> tuple[tuple[QueueName, str, datetime], ...]:
        """For each blocked head of a queue, or of an account in a queue: the queue, the reason's code, since when."""
        return self.loop.scheduler.blocked_heads()

    def job_counts(self) -> Mapping[JobGroup, int]:
        """The numbers of unfinished jobs, as last saved."""
        return self.loop.state.counts.read()

    def active_jobs(self) -> Collection[Job]:
        """The jobs that are STARTING or RUNNING, as last saved."""
        return self.loop.state.active.values()

    def machines(self) -> tuple[Machine, ...] | None:
        """The machines of the container engine; None while it does not answer."""
        return self.loop.state.machines

    @property
    def history_feed(self) -> HistoryFeed:
        """The saved history entries of all jobs."""
        return self.loop.history_feed

    @property
    def recovered(self) -> bool:
        """Whether the containers that existed at the start of the server are known."""
        return self.loop.state.machines is not None

    def health(self) -> Health:
        return Health(
            store=self.loop.store_failure,
            engine=self._watcher.engine_failure or self._engine_check.error or self._breakers.error,
            safe_mode=self.loop.state.safe_mode_reason,
            loops=self.tasks.health(),
            failing=self.tasks.failing,
        )
