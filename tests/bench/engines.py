"""The whole engine on a real database, in this process: simulated containers, the machine's clock, no HTTP."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path

from batchq.cli.serve import log_handler
from batchq.compute.simulated.runtime import SimulatedRuntime
from batchq.domain.container import Resources
from batchq.domain.enums import FINISHED, State, Status
from batchq.domain.ids import Tag
from batchq.domain.job import Job, JobSpec
from batchq.domain.machines import one_machine
from batchq.engine.engine import Engine
from batchq.engine.mailbox import Mailbox
from batchq.logs.service import CloudWatchLogs
from batchq.ports.clock import BootClock
from batchq.store.log_files import LogFiles
from batchq.store.sqlite_store import SqliteStore
from batchq.system.clock import SystemClock
from tests.engine.harness import catalog_of
from tests.support import builders
from tests.support.inline import temporary_checkpoints
from tests.support.proxies import StatusChanges, StoreProxy
from tests.support.stubs import UNLIMITED, NoObserver

HOST = Resources(millicpus=10_000_000, memory_mib=10_000_000)


class Running:
    """An engine on a store, a simulated runtime and a clock. It counts the jobs that end."""

    def __init__(
        self,
        store: SqliteStore,
        runtime: SimulatedRuntime,
        clock: BootClock,
        *,
        vcpus: int,
        capture_log: Callable[[Tag], Awaitable[None]],
        queue: str = "default",
        state: State = State.ENABLED,
        survey_interval: float = 10.0,
    ) -> None:
        """`state` and `vcpus` are those of its environment."""
        self.store = store
        self._ended = 0
        self._wanted = 0
        self._enough = asyncio.Event()
        environment = builders.environment(max_millicpus=1000 * vcpus, state=state)
        self.engine = Engine(
            mailbox=Mailbox(),
            store=StoreProxy(store, after_commit=StatusChanges(self._count)),
            catalog=catalog_of(builders.queue(queue), environments=[environment]),
            runtime=runtime,
            accounts=builders.NO_ACCOUNTS,
            checkpoints=temporary_checkpoints(clock.now),
            checkpoint_retention=None,
            capture_log=capture_log,
            follow_logs=lambda _job: None,
            read_metrics=None,
            clock=clock,
            survey_interval=survey_interval,
            observer=NoObserver(),
        )

    async def wait_for_ends(self, count: int) -> None:
        """Wait until `count` more jobs have ended."""
        self._wanted = self._ended + count
        self._enough.clear()
        await self._enough.wait()

    async def submit(self, number: int, spec: JobSpec) -> None:
        await self.engine.submit(job_id=builders.job_id(number), spec=spec, tags=(), key=None, caller=builders.ADMIN)

    def changes(self) -> int:
        """The number of rows that were written since the database was opened."""
        return self.store._database._writer._conn.total_changes

    def _count(self, _: Status | None, status: Status, __: Job) -> None:
        self._ended += status in FINISHED
        if self._ended >= self._wanted:
            self._enough.set()


@asynccontextmanager
async def running(
    data: Path, *, queue: str, at_once: int, log: Path, state: State = State.ENABLED
) -> AsyncIterator[Running]:
    """An engine with room for `at_once` jobs of a vCPU, which writes its log to `log`. `state`: of its environment."""
    clock, store = SystemClock(), await SqliteStore.open(data)
    runtime = SimulatedRuntime(clock=clock, machines=one_machine(HOST))
    with closing(LogFiles(data / "logs")) as archive, _logging_to(log):
        logs = CloudWatchLogs(store=store, archive=archive, runtime=runtime, clock=clock, quota=UNLIMITED)
        at_work = Running(store, runtime, clock, queue=queue, vcpus=at_once, capture_log=logs.capture, state=state)
        await at_work.engine.start()
        try:
            yield at_work
        finally:
            await at_work.engine.stop()
            await logs.close()
            await runtime.close()
            await store.close()


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Write log lines to a file, as a server does."""
    log, before = logging.root, logging.root.level
    with path.open("w") as file:
        to = log_handler(file)
        log.addHandler(to)
        log.setLevel(logging.INFO)
        try:
            yield
        finally:
            log.removeHandler(to)
            log.setLevel(before)
