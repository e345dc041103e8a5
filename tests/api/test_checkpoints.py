"""Jobs with checkpoints through the API's services: tags of SubmitJob, and the checkpoint service."""

import asyncio
import threading
from contextlib import closing

import pytest
from msgspec.structs import replace

from batchq.audit import Journal
from batchq.domain.access.accounts import Caller, Owner, UserName
from batchq.domain.enums import Role, Status, StopKind
from batchq.domain.job_request import JobRequest
from batchq.domain.stop_values import StopOrder
from batchq.domain.training import CheckpointRules
from batchq.errors import DiskFull, Invalid, NotFound, StoreFailed
from batchq.ports.checkpoints import CheckpointType
from batchq.ports.jobs import Changes
from batchq.services.training import CheckpointService
from batchq.store import checkpoint_files
from batchq.store.checkpoint_files import CheckpointFiles
from batchq.system.host import NetworkDiskGuard
from tests.api.fakes import Backend
from tests.support import builders
from tests.support.builders import ADMIN, NOON
from tests.support.clock import VirtualClock
from tests.support.inline import InlineStore, temporary_checkpoints

ADA = Caller(user=UserName("ada"), role=Role.USER)
BOB = Caller(user=UserName("bob"), role=Role.USER)
RULES = CheckpointRules(signal="USR1")


class Signals:
    """The engine of the service: it records the signals."""

    def __init__(self):
        self.sent = []

    async def signal(self, job, signal):
        self.sent.append((job.id, signal))


class CheckpointsOfADirectory:
    def __init__(self, data):
        clock = VirtualClock()
        self.store, self.files, self.engine = InlineStore(), temporary_checkpoints(clock.now), Signals()
        self.journal = Journal(data)
        self.service = CheckpointService(
            engine=self.engine, store=self.store, checkpoints=self.files, journal=self.journal, clock=clock
        )

    async def job(self, *names, status=Status.RUNNING, rules=RULES, **changes):
        """A job of ada with these checkpoints."""
        spec = builders.spec(owner=Owner(user=ADA.user), checkpoints=rules)
        job = builders.job(spec=spec, status=status, **changes)
        await self.store.commit(Changes(inserted=(job,)))
        folder = (await self.files.prepare(job.id, ended=True)).path
        for name in names:
            (folder / name).write_text("x")
        return job.id

    def audited(self):
        return [(entry.record.user, entry.record.resource) for entry in self.journal.read()[0]]


@pytest.fixture
def context(tmp_path):
    return CheckpointsOfADirectory(tmp_path)


async def test_the_owner_lists_the_checkpoints_of_a_job(context):
    job = await context.job("epoch-1", "epoch-2")

    found = await context.service.list(job, caller=ADA)
    summary = await context.service.summary(job, caller=ADA)

    assert {checkpoint.epoch for checkpoint in found} == {1, 2}
    assert (summary.count, summary.size_bytes) == (2, 2)
    assert await context.service.get(job, found[0].id, caller=ADA) == found[0]


async def test_jobs_of_others_and_unknown_ones_are_missing(context):
    job = await context.job("a")
    (found,) = await context.service.list(job, caller=ADA)

    for caller, name in ((BOB, job), (ADMIN, builders.job_id(999)), (ADMIN, "../x"), (ADMIN, "")):
        for call in (
            context.service.list(name, caller=caller),
            context.service.get(name, found.id, caller=caller),
            context.service.request(name, caller=caller),
            context.service.delete(name, found.id, caller=caller),
        ):
            with pytest.raises(NotFound):
                await call
    assert (context.engine.sent, context.audited()) == ([], [])


async def test_checkpoints_outlive_the_record_of_their_job_for_operators_and_admins(context):
    forgotten = builders.job_id(77)
    ((await context.files.prepare(forgotten, ended=True)).path / "a").write_text("x")

    (found,) = await context.service.list(forgotten, caller=ADMIN)
    with pytest.raises(NotFound):
        await context.service.list(forgotten, caller=ADA)
    await context.service.delete(forgotten, found.id, caller=ADMIN)

    assert await context.service.list(forgotten, caller=ADMIN) == ()


async def test_the_final_checkpoint_is_named_by_the_stop_order(context):
    order = StopOrder(
        kind=StopKind.TERMINATE, reason="x", ordered_at=NOON, final_checkpoint_requested=True, final_checkpoint="b"
    )
    job = await context.job("a", "b", status=Status.FAILED, stop_orders=(order,), stopped_at=NOON)

    types = {item.name: item.type for item in await context.service.list(job, caller=ADA)}

    assert types == {"a": CheckpointType.AUTOMATIC, "b": CheckpointType.FINAL}


async def test_a_request_sends_the_declared_signal_and_is_audited(context):
    job = await context.job()

    await context.service.request(job, caller=ADA)

    assert context.engine.sent == [(job, "SIGUSR1")]
    assert context.audited() == [("ada", f"job/{job}")]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rules": None}, "declared no checkpoint signal"),
        ({"rules": CheckpointRules()}, "declared no checkpoint signal"),
        ({"status": Status.RUNNABLE}, "is not RUNNING"),
        ({"status": Status.SUCCEEDED, "stopped_at": NOON}, "is not RUNNING"),
        ({"stop_orders": (StopOrder(kind=StopKind.TERMINATE, reason="x", ordered_at=NOON),)}, "is being stopped"),
    ],
)
async def test_a_checkpoint_cannot_be_requested(context, changes, why):
    job = await context.job(**changes)

    with pytest.raises(Invalid, match=why):
        await context.service.request(job, caller=ADA)

    assert (context.engine.sent, context.audited()) == ([], [])


async def test_a_deleted_checkpoint_is_gone_and_audited(context):
    job = await context.job("a", "b")
    first, second = await context.service.list(job, caller=ADA)

    await context.service.delete(job, first.id, caller=ADA)

    assert await context.service.list(job, caller=ADA) == (second,)
    assert context.audited() == [("ada", f"job/{job}")]
    with pytest.raises(NotFound):
        await context.service.delete(job, first.id, caller=ADA)


@pytest.mark.fault("CK09")
async def test_jobs_with_checkpoints_are_rejected_while_their_disk_is_nearly_full():
    backend = Backend()
    await backend.create_default_queue()
    await backend.catalog.definitions.register(builders.definition(name="train"), caller=ADMIN)
    backend.submissions._checkpoint_guard = NetworkDiskGuard(
        free=lambda: 0, min_free=1, directory="checkpoint directory", rejected="jobs with checkpoints are rejected"
    )
    plain = JobRequest(name="train", queue="default", definition_name="train")

    await backend.submissions.submit(plain, caller=ADMIN)
    with pytest.raises(DiskFull, match="checkpoint directory"):
        await backend.submissions.submit(replace(plain, tags=(("batchq:checkpoints", "true"),)), caller=ADMIN)


@pytest.mark.fault("CK13")
async def test_a_checkpoint_disk_that_hangs_delays_no_other_submission(tmp_path, monkeypatch):
    answer, results = threading.Event(), []
    monkeypatch.setattr(checkpoint_files, "free_disk", lambda _: 2**40 if answer.wait(60) else 0)
    backend = Backend()
    await backend.create_default_queue()
    await backend.catalog.definitions.register(builders.definition(name="train"), caller=ADMIN)
    with closing(CheckpointFiles(tmp_path)) as store:
        backend.submissions._checkpoint_guard = store.disk_guard(min_free=1)

    async def submit(name, **members):
        request = JobRequest(name=name, queue="default", definition_name="train", **members)
        try:
            await backend.submissions.submit(request, caller=ADMIN)
            results.append(f"{name}: accepted")
        except StoreFailed as failure:
            results.append(f"{name}: {failure}")

    await asyncio.gather(submit("resumable", tags=(("batchq:checkpoints", "true"),)), submit("plain"))
    answer.set()

    assert results == ["plain: accepted", "resumable: the disk of the checkpoint directory does not respond"]
