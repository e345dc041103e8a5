"""A fake engine for the tests of the API: it applies the transition table at once, and starts nothing."""

import asyncio
from datetime import timedelta

from msgspec.structs import replace

from batchq.api.training.modelarts.context import ModelArtsSettings
from batchq.audit import AuditLog
from batchq.domain import events as on
from batchq.domain.access.accounts import Directory
from batchq.domain.bulk_stop import BulkStop, JobOutcome, Progress, has_children, note, standing_order, stop_outcome
from batchq.domain.container import Resources
from batchq.domain.job import Job
from batchq.domain.lifecycle.stopping import steps
from batchq.domain.lifecycle.transitions import step
from batchq.domain.lifecycle.views import PendingArrayOrders
from batchq.domain.machines import LOCAL, Machine
from batchq.domain.scheduling.capacity import Cluster
from batchq.domain.scheduling.dependencies import dependencies_refusal, named
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.domain.scheduling.resources import Usage
from batchq.domain.task import total
from batchq.engine.account_limits import SubmitRateLimiter
from batchq.engine.scheduler_state import Health
from batchq.engine.use import UseSamples
from batchq.errors import Invalid
from batchq.ports.catalog import Snapshot
from batchq.ports.history import HistoryEntry
from batchq.ports.jobs import Changes
from batchq.services.bulk_stop import BulkStopService
from batchq.services.catalog import CatalogService
from batchq.services.explanations import ExplanationService
from batchq.services.job_reads import JobSearchService
from batchq.services.job_views import JobViewService
from batchq.services.jobs import JobService
from batchq.services.overview import OverviewService
from batchq.services.records import AuditRecordService
from batchq.services.submissions import SubmissionService
from batchq.store import job_reads
from batchq.system.host import DiskGuard
from tests.api import modelarts
from tests.support import builders
from tests.support.builders import NO_ACCOUNTS, NOON, scheduler_state
from tests.support.inline import InlineStore
from tests.support.parts import make_parts
from tests.support.stubs import BottomlessCheckpointDisk

ACCOUNT = "123456789012"


class FakeEngine:
    """Implements the methods of `batchq.engine.engine.Engine` that services use.

    `seen` is the snapshot of every queue, `capacity` the cluster and `listed` the machines; None while they are not
    known. `broken` is raised by every request. While `gate` is closed, requests wait; `reached` is set once one waits
    there. `received` are the events that were delivered to jobs.
    """

    def __init__(self, *, store, clock):
        self.gate = asyncio.Event()
        self.gate.set()
        self.reached = asyncio.Event()
        self._store = store
        self._clock = clock
        self._made = {}
        self.mailbox = self
        self._next = 0
        self.broken = None
        self.received = []
        self.accounts = NO_ACCOUNTS
        self.use = UseSamples()
        self.submit_rate = SubmitRateLimiter(NO_ACCOUNTS, clock)
        self.capacity = None
        self.seen = Snapshot(jobs=(), updated_at=NOON, millicpus=0)
        self.listed = (Machine(name=LOCAL, resources=Resources(millicpus=4000, memory_mib=1024), is_enforced=True),)

    def pending_array_orders(self):
        """No pending orders: all are applied at once."""
        return PendingArrayOrders()

    def start_obstacle(self):
        return None

    def cluster(self):
        return self.capacity

    def scheduler_state(self):
        return scheduler_state(now=self._clock.now())

    def queue_heads(self):
        return self.scheduler_state().heads

    def health(self):
        return Health(store=None, engine=None, safe_mode=None, loops={})

    def machines(self):
        return None if self.listed is None else tuple(self.listed)

    def usage(self):
        return Usage(self.active_jobs()).after(())

    def active_jobs(self):
        return [job for job in self._store.all_jobs().values() if job.attempt is not None]

    def job_counts(self):
        """The stored jobs: the fake engine keeps no job in memory."""
        return job_reads.unfinished_counts(self._store.connection)

    async def submit(self, *, job_id, spec, tags, key, caller):
        await self._enter()
        if key is not None and key in self._made:
            return await self.job(self._made[key])
        known = await self._store.jobs(named(spec))
        if why := dependencies_refusal(
            spec, {other_key: job for other_key, job in known.items() if caller.reaches(job.spec.owner)}
        ):
            raise Invalid(why)
        job = Job(id=job_id, sequence=self._next, spec=spec, created_at=self._clock.now(), tags=tags)
        self._next += 1 + (spec.array_size or 0)  # its children's orders come after its own
        self._made[key] = job_id
        await self._store.commit(Changes(inserted=(job,), history=(self._moment(job),)))
        return job

    async def request(self, message):
        """As the mailbox does, for a FindSubmission."""
        job_id = self._made.get(message(None).key)
        return None if job_id is None else await self.job(job_id)

    async def deliver(self, job_id, event, *, caller, expected=None):
        assert expected is None, "only the engine compares states"
        await self._enter()
        self.received.append((job_id, event))
        job = await self.job(job_id)
        if job is not None:
            await self.save(step(job, event, self._clock.now())[0])

    async def deliver_all(self, requests, *, caller, expected=None):
        answers = [self.deliver(job_id, event, caller=caller, expected=expected) for job_id, event in requests]
        return await asyncio.gather(*answers, return_exceptions=True)

    async def update_tags(self, job_id, change, *, caller):
        await self._enter()
        await self.save(change(await self.job(job_id)))

    async def stop_many(self, request, selection, *, caller):
        """All jobs are stopped before the first outcome is returned."""
        await self._enter()
        bulk_stop = BulkStop(number=1, request=request)
        await self._store.commit(Changes(bulk_stops=((bulk_stop, selection),)))
        targets = await self._store.next_targets(1, 10**6)
        over = Progress(bulk_stop=1, sequence=-1, part=None, complete=True)
        for target in targets:
            await self.deliver(target.job.id, request.event(node=target.part), caller=caller)
        await self._store.commit(Changes(progress=(over,)))
        return self._outcomes(request, targets)

    async def _outcomes(self, request, targets):
        for target in targets:
            job, kind = target.job, request.kind
            yield (
                JobOutcome(
                    job_id=job.id,
                    name=job.spec.name,
                    status=job.status,
                    outcome=stop_outcome(kind, job.status, has_children=has_children(job)),
                    note=note(request, job),
                    standing=standing_order(request, job),
                ),
            )

    async def snapshot(self, queue):
        await self._enter()
        return self.seen

    async def happens(self, job_id, *events):
        """Apply the events to the job, one after the other. It is placed at noon, when its containers start."""
        for event in events:
            now = NOON if isinstance(event, on.Placed) else self._clock.now()
            await self.save(step(await self.job(job_id), event, now)[0])

    async def save(self, job):
        before = await self.job(job.id)
        stops = tuple(replace(self._moment(before), stop=other_step) for other_step in steps(before, job))
        moved = () if before.status is job.status else (self._moment(job),)
        await self._store.commit(Changes(updated=(job,), history=(*stops, *moved)))

    async def job(self, job_id):
        return (await self._store.jobs([job_id])).get(job_id)

    async def _enter(self):
        self.reached.set()
        await self.gate.wait()
        if self.broken is not None:
            raise self.broken

    def _moment(self, job):
        attempt = None if job.attempt is None else job.attempt.number
        return HistoryEntry(
            job_id=job.id, at=self._clock.now(), status=job.status, reason=job.status_reason, attempt=attempt
        )


class EmptyJournal:
    """A journal without records."""

    def read(self):
        return (), 0


class SteppingClock:
    """Noon, and a second later at each call."""

    def __init__(self):
        self._next = NOON

    def now(self):
        self._next += timedelta(seconds=1)
        return self._next


class Backend:
    """All that the API uses: real services on the real store in memory, and a fake engine."""

    def __init__(self):
        self.store = InlineStore()
        self.clock = SteppingClock()
        self.free = 2**40
        self.disk_guard = DiskGuard(free=lambda: self.free, min_free=64 * 2**20)
        self.engine = FakeEngine(store=self.store, clock=self.clock)
        self.catalog = CatalogService(
            store=self.store, jobs=self.store, clock=self.clock, disk_guard=self.disk_guard, changed=lambda: None
        )
        self.explanations = ExplanationService(engine=self.engine, store=self.store)
        self.jobs = JobService(engine=self.engine, store=self.store, catalog=self.catalog)
        self.submissions = SubmissionService(
            engine=self.engine,
            store=self.store,
            catalog=self.catalog,
            clock=self.clock,
            disk_guard=self.disk_guard,
            checkpoint_guard=BottomlessCheckpointDisk(),
            stop_grace=timedelta(seconds=30),
            able_engines=lambda _spec: (),
        )
        self.stopping = BulkStopService(
            engine=self.engine,
            store=self.store,
            directory=Directory,
            queues=self.catalog.queues_of,
            environments=lambda: self.catalog.environments,
        )
        self.searching = JobSearchService(
            engine=self.engine, store=self.store, directory=Directory, queues=self.catalog.queues_of
        )
        self.views = JobViewService(
            jobs=self.jobs,
            definitions=self.catalog.definitions,
            explanations=self.explanations,
            search=self.searching,
            costs=None,
            checkpoints=None,
        )
        self.overviews = OverviewService(engine=self.engine, store=self.store, catalog=self.catalog, clock=self.clock)
        self.audit = AuditLog(store=self.store, journal=EmptyJournal(), clock=self.clock, retention=None)
        self.parts = make_parts(
            jobs=self.jobs,
            views=self.views,
            submissions=self.submissions,
            catalog=self.catalog,
            search=self.searching,
            overviews=self.overviews,
            explanations=self.explanations,
            bulk_stops=self.stopping,
            audit=AuditRecordService(audit=self.audit, jobs=self.jobs),
            clock=self.clock,
            account=ACCOUNT,
            capacity=lambda: total(machine.resources for machine in self.engine.machines()),
            runtime_answers=lambda: True,
            states={ModelArtsSettings: modelarts.SETTINGS},
        )

    def arrange_machines(self):
        """Let the environments select the machines of the engine."""
        environments = self.catalog.environments
        machines = MachineSet(self.engine.listed, environments.values())
        self.engine.capacity = Cluster(environments=environments, machines=machines, stocks={})

    async def create_default_queue(self):
        """Create the environment `local` and the queue `default`."""
        local = replace(builders.environment(), created_at=self.clock.now())
        await self.catalog.compute_environments.create(local, caller=None)
        default = replace(builders.queue(), created_at=self.clock.now())
        await self.catalog.job_queues.create(default, caller=None)

    def stored_rows(self):
        """All stored rows, to compare them with those of an earlier time."""
        return self.store.rows()
