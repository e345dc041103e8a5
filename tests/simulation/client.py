"""Random users: they submit jobs, stop them, repeat requests, and disconnect before the reply."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from datetime import timedelta
from itertools import cycle
from typing import Any

from msgspec.structs import replace

from batchq.domain.access.accounts import Caller, UserName
from batchq.domain.budgets import Budget, BudgetKey
from batchq.domain.catalog import (
    EnvironmentName,
    PolicyName,
    QuantityOperation,
    ResourceKind,
    ShareWeight,
    TimeLimit,
)
from batchq.domain.enums import State, StopKind
from batchq.domain.ids import ENGINE_TAG, LABEL_TAG, ConsumableName, JobId, QueueName, SubmissionKey
from batchq.domain.job import Job
from batchq.domain.job_request import JobRequest
from batchq.domain.job_selection import JobSelection
from batchq.domain.stop_request import StopRequest
from batchq.errors import BatchqError, Invalid
from batchq.ports.clock import Clock
from tests.simulation import budgets, bulk_stops, holds
from tests.simulation.catalog_changes import CatalogChanges
from tests.simulation.choices import Choices
from tests.simulation.invariants import Invariants
from tests.simulation.planned_faults import InjectedError
from tests.simulation.run_log import RunLog
from tests.simulation.server import Server
from tests.simulation.signal_checks import how
from tests.simulation.submissions import (
    DEFINITIONS,
    EAST_LABEL,
    ENVIRONMENTS,
    FAIR,
    LARGEST,
    LICENCES,
    QUEUES,
    TOKENS,
    SubmissionGenerator,
    submitter,
)
from tests.support import builders
from tests.support.builders import ADMIN
from tests.support.combined import THERE

POLICY = PolicyName("in turns")
TOTALS = {LICENCES: 4, TOKENS: 20}


class NoReply(Exception):
    """No reply: the server is not running, was killed, or the client did not wait."""


class Client:
    """`server` returns the present server. Acknowledged requests are passed to the invariants at once."""

    def __init__(
        self,
        *,
        server: Callable[[], Server | None],
        clock: Clock,
        choices: Choices,
        run_log: RunLog,
        invariants: Invariants,
    ) -> None:
        self._server = server
        self._clock = clock
        self._rng = choices.client
        self._choices = choices
        self._run_log = run_log
        self._invariants = invariants
        #: The users who stop jobs, in turns.
        self._users = cycle([ADMIN, replace(ADMIN, user=UserName("cora"))])
        self._keys = 0
        self._changed: set[str] = set()
        self._registered: set[str] = set()
        self.known: dict[JobId, JobRequest] = {}
        self._catalog_changes = CatalogChanges(choices.catalog, POLICY)
        self.submissions = SubmissionGenerator(choices, self.known, self.key)

    async def create_catalog(self) -> None:
        """Create the catalog, without faults."""
        for name in ENVIRONMENTS:
            await self._resize(name, LARGEST, new=True)
        await self._make_policy()
        for name, total in TOTALS.items():
            kind = ResourceKind.REPLENISHABLE if name == LICENCES else ResourceKind.NON_REPLENISHABLE
            await self.request(
                lambda server, name=name, total=total, kind=kind: server.catalog.consumable_resources.create(
                    builders.consumable(name, total=total, kind=kind), caller=ADMIN
                )
            )
        for name, (priority, environments) in QUEUES.items():
            made = builders.queue(
                name,
                priority=priority,
                environments=environments,
                policy=POLICY if name == FAIR else None,
                time_limits=self._limits(name),
            )
            await self.request(
                lambda other_server, made=made: other_server.catalog.job_queues.create(made, caller=ADMIN)
            )
        for name, image in DEFINITIONS.items():
            made = builders.definition(name=name, image=image)
            await self.request(
                lambda one_server, made=made: one_server.catalog.definitions.register(made, caller=ADMIN)
            )

    async def _make_policy(self) -> None:
        reservation = self._rng.choice([0, 0, 40])
        weights = (ShareWeight(identifier="red", weight=0.5), ShareWeight(identifier="bl*", weight=2.0))
        await self.request(
            lambda server: server.catalog.scheduling_policies.create(
                builders.policy(POLICY, shares=weights, reservation=reservation), caller=ADMIN
            )
        )

    def _limits(self, queue: str) -> tuple[TimeLimit, ...]:
        most = self._rng.choice([None, None, timedelta(seconds=15)])
        if most is not None:
            self._invariants.limits[queue] = most
        reasons = ("CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY", "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT")
        return () if most is None else tuple(TimeLimit(reason=reason, most=most) for reason in reasons)

    async def restore_catalog(self) -> None:
        """Give every job enough resources, where the catalog was changed or a resource is used up."""
        if self._choices.catalog_rate:
            await self._until_acknowledged(
                lambda: self.request(lambda server: self._catalog_changes.restore(server.catalog))
            )
        for name in TOTALS:
            await self._until_acknowledged(lambda name=name: self._stock(name, 1000))
        for name in sorted(self._changed.intersection(ENVIRONMENTS)):
            await self._until_acknowledged(lambda name=name: self._resize(name, LARGEST))
        for name in sorted(self._changed.intersection(QUEUES)):
            await self._until_acknowledged(lambda name=name: self._switch(QueueName(name), State.ENABLED))
        if self._choices.hold_rate or self._choices.pause_interval is not None:
            for name in QUEUES:
                await self._until_acknowledged(lambda name=name: self._drain(QueueName(name), drained=False))
            await self.release_all()

    async def act(self) -> None:
        """Make one random request."""
        what = self._rng.choices(
            [self._submit, self._submit_twice, self._terminate, self._cancel, self._change_catalog],
            weights=[10, 1, 3, 3, 1],
        )[0]
        if self._choices.sweeps.random() < self._choices.bulk_stop_rate:
            what = self._sweep
        if self._choices.holds.random() < self._choices.hold_rate:
            what = self._hold
        if self._choices.catalog.random() < self._choices.catalog_rate:
            what = self._change_resource
        if self._choices.budgets.random() < self._choices.budget_rate:
            what = self._budget
        try:
            await what()
        except (NoReply, BatchqError) as why:
            self._run_log.write(f"client {what.__name__} got {type(why).__name__}")

    async def end(self, job_id: JobId, *, by_cancel: bool = False, **how: bool) -> None:
        """Terminate or cancel a job, until that is acknowledged. `how`: checkpoint or force of a terminate."""
        if by_cancel:
            await self._until_acknowledged(lambda: self._request_cancel(job_id))
        else:
            await self._until_acknowledged(lambda: self._request_terminate(job_id, **how))

    async def submit_until_acknowledged(self, submission: JobRequest) -> JobId:
        """Submit a job, until that is acknowledged."""
        return await self._until_acknowledged(lambda: self._request_submit(submission))

    async def request(
        self, what: Callable[[Server], Coroutine[Any, Any, Any]], *, patience: float | None = None
    ) -> Any:
        """The reply of the server. Raises NoReply, and the errors of the service."""
        server = self._server()
        if server is None or not server.ready:
            raise NoReply
        call = asyncio.create_task(what(server), name="a request")
        died = asyncio.create_task(server.lifetime.died.wait())
        try:
            await asyncio.wait({call, died}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if call.done():
                return call.result()
            raise NoReply
        finally:
            call.cancel()
            died.cancel()

    async def _submit(self) -> None:
        """With a key the request is repeated when no reply comes, as boto3 does; without a key it is sent once."""
        submission = self.submissions.next()
        for _ in range(3 if submission.key else 1):
            try:
                await self._request_submit(submission, submitter(submission.name, self._choices.account_limit))
            except NoReply:
                await self._clock.sleep(self._rng.choice([0.1, 1, 4]))
            except Invalid:
                self._check_never_saved(submission)
                raise
            except BatchqError:
                await self._clock.sleep(0.5)
            else:
                return

    def _check_never_saved(self, submission: JobRequest) -> None:
        """A call that is refused has created no job, also when it was sent before."""
        if submission.key and any(job.spec.name == submission.name for job in self._invariants.jobs.values()):
            self._run_log.fail("I2 a repeated submission is answered as the first", submission.name)

    async def _submit_twice(self) -> None:
        """The second request is sent while the first is in progress."""
        submission = replace(self.submissions.next(), key=self.key())
        caller = submitter(submission.name, self._choices.account_limit)
        answers = await asyncio.gather(
            self._request_submit(submission, caller), self._request_submit(submission, caller), return_exceptions=True
        )
        if len({answer for answer in answers if isinstance(answer, str)}) > 1:
            self._run_log.fail("I2 a repeated submission is the same job", submission.name)

    async def _request_submit(self, submission: JobRequest, caller: Caller = ADMIN) -> JobId:
        job = await self.request(
            lambda value: self._define_and_submit(value, submission, caller), patience=self._choices.patience()
        )
        self._invariants.submitted(submission.name, job.id)
        self._run_log.write(f"client has {submission.name}")
        self.known.setdefault(job.id, submission)
        return job.id

    async def _define_and_submit(self, server: Server, submission: JobRequest, caller: Caller) -> Job:
        definition = self.submissions.definitions.get(submission.definition_name)
        if definition is not None and definition.ref.name not in self._registered:
            await server.catalog.definitions.register(definition, caller=ADMIN)
            self._registered.add(definition.ref.name)
        return await server.submissions.submit(submission, caller=caller)

    async def _terminate(self) -> None:
        await self._request_terminate(self.submissions.any_id(), **how(self._choices.stop_steps))

    async def _cancel(self) -> None:
        await self._request_cancel(self.submissions.any_id())

    async def _request_terminate(self, job_id: JobId, *, force: bool = False, **more: bool) -> None:
        request = StopRequest(kind=StopKind.TERMINATE, reason="a user stops it", force=force, **more)
        await self.request(
            lambda server: server.jobs.stop(job_id, request, caller=next(self._users)),
            patience=self._choices.patience(),
        )
        self._invariants.terminated(job_id)
        if force:
            self._invariants.signals.forced(job_id)
        self._run_log.write(f"client terminated {self._run_log.name_of(job_id)} {'by force' if force else more}")

    async def _request_cancel(self, job_id: JobId) -> None:
        request = StopRequest(kind=StopKind.CANCEL, reason="a user cancels it")
        await self.request(
            lambda server: server.jobs.stop(job_id, request, caller=next(self._users)),
            patience=self._choices.patience(),
        )
        self._invariants.cancelled(job_id)
        self._run_log.write(f"client cancelled {self._run_log.name_of(job_id)}")

    async def _sweep(self) -> None:
        rng = self._choices.sweeps
        request = bulk_stops.request(rng, self._choices.stop_steps)
        selection = bulk_stops.selection(rng, list(self.known)[-8:])
        await self.request(
            lambda value: self._receive_reports(value, request, selection), patience=rng.choice([None, None, 30.0, 0.0])
        )
        self._run_log.write(f"client swept {selection}")

    async def _hold(self) -> None:
        """Hold, pause, release or resume a job; now and then drain a queue, or end that."""
        rng = self._choices.holds
        request = holds.request(rng, self.known)
        if request is None or rng.random() < 0.1:
            await self._drain(QueueName(rng.choice(sorted(QUEUES))), drained=rng.random() < 0.5)
            return
        await self.hold(*request, patience=rng.choice([None, None, 30.0, 0.0]))

    async def hold(self, what: str, job_id: JobId, *, patience: float | None) -> None:
        """Hold, pause, release or resume this job."""
        await self.request(lambda server: holds.deliver(server.jobs, what, job_id), patience=patience)
        self._invariants.holds.held(what, job_id)
        self._run_log.write(f"client requested {what} of {self._run_log.name_of(job_id)}")

    async def _budget(self) -> None:
        await self._set_budget(*budgets.change(self._choices.budgets))

    async def set_budget_until_acknowledged(self, budget: Budget) -> None:
        await self._until_acknowledged(lambda: self._set_budget(budget.key, budget))

    async def set_budget(self, budget: Budget) -> None:
        """Set this budget, once."""
        await self._set_budget(budget.key, budget)

    async def _set_budget(self, key: BudgetKey, budget: Budget | None) -> None:
        await self.request(lambda server: server.engine.set_budget(key, budget, caller=ADMIN))
        self._run_log.write(f"client set the budget of {key}")

    async def _drain(self, name: QueueName, *, drained: bool) -> None:
        await self.request(lambda server: server.catalog.drain_queue(name, drained=drained, caller=ADMIN))
        self._run_log.write(f"client {'drains' if drained else 'opens'} {name}")

    async def release_all(self) -> None:
        """Release every job that is held or will be."""
        while held := [other_job for other_job in self._invariants.jobs.values() if other_job.hold is not None]:
            for job in held:
                with suppress(NoReply, BatchqError, InjectedError):
                    await self.request(lambda server, job=job: server.jobs.release(job.id, caller=ADMIN))
            await self._clock.sleep(1)

    async def _receive_reports(self, server: Server, request: StopRequest, selection: JobSelection) -> None:
        async for some in await server.bulk_stops.stop(request, selection, caller=ADMIN):
            self._invariants.bulk_stops.reported(request, some)

    async def _change_catalog(self) -> None:
        which = self._rng.random()
        if which < 0.3:
            await self._stock(self._rng.choice(list(TOTALS)), self._rng.choice([0, 1, 2, 5, 30]))
        elif which < 0.8:
            await self._resize(self._changes(ENVIRONMENTS), self._rng.choice([500, 1000, 2000, LARGEST]))
        else:
            await self._switch(QueueName(self._changes(QUEUES)), self._rng.choice(list(State)))

    async def _change_resource(self) -> None:
        """Change, delete or create again a resource of the catalog."""
        what = await self.request(lambda server: self._catalog_changes.change(server.catalog))
        self._run_log.write(f"client {what}")

    def _changes(self, names: Iterable[str]) -> str:
        """One of the names; it counts as changed from here on."""
        name = self._rng.choice(list(names))
        self._changed.add(name)
        return name

    async def _resize(self, name: str, millicpus: int, *, new: bool = False) -> None:
        of, (key, value) = EnvironmentName(name), EAST_LABEL
        tags = ((f"{LABEL_TAG}{key}", value),) if name == "east" and self._choices.selects_by_label else ()
        tags += ((ENGINE_TAG, THERE),) if name == "west" and self._choices.has_second_engine else ()
        if new:
            await self.request(
                lambda server: server.catalog.compute_environments.create(
                    builders.environment(of, max_millicpus=millicpus, tags=tags), caller=ADMIN
                )
            )
        else:
            await self.request(
                lambda other_server: other_server.catalog.compute_environments.update(
                    of, lambda was: replace(was, max_millicpus=millicpus), caller=ADMIN
                )
            )
        self._run_log.write(f"client gave {name} {millicpus}")

    async def _stock(self, name: ConsumableName, total: int) -> None:
        """Set a total; used-up quantities are not part of it."""
        await self.request(
            lambda server: server.catalog.consumable_resources.change_total(
                name, operation=QuantityOperation.SET, quantity=total, token=None, caller=ADMIN
            )
        )
        self._run_log.write(f"client has {total} {name}")

    async def _switch(self, name: QueueName, state: State) -> None:
        await self.request(
            lambda server: server.catalog.job_queues.update(name, lambda was: replace(was, state=state), caller=ADMIN)
        )
        self._run_log.write(f"client {state} {name}")

    async def _until_acknowledged(self, request: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        while True:
            try:
                return await request()
            except (NoReply, BatchqError, InjectedError):
                await self._clock.sleep(1)

    def key(self) -> SubmissionKey:
        self._keys += 1
        return builders.submission(invocation_id=f"call {self._keys}")
