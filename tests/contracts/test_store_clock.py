"""The contract of every store: to shift its times when the machine's clock was set."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.access.audit import AuditQuery, PendingAudit
from batchq.domain.catalog import ConsumableUpdate, JobQueue, QuantityOperation
from batchq.domain.enums import Status
from batchq.domain.ids import ConsumableName, QueueName
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.stop_values import Hold
from batchq.ports.clock import Boot
from batchq.ports.jobs import Changes, SurveyRecord
from batchq.store.sqlite_store import SqliteStore
from batchq.system.clock import align
from tests.contracts.test_store_audit import DONE
from tests.support.builders import NOON, attempt, consumable, job, job_id, moment, queue, submission

DAY = timedelta(days=1)
DAYS_BEHIND = 40 * DAY
SHARE = ShareKey(QueueName("default"), "blue")
LICENCES = ConsumableName("licences")

pytestmark = pytest.mark.fault("CO01")


class AClock:
    """The clock of a server that was started so long after the boot of the machine."""

    def __init__(self, shows, *, up=timedelta(minutes=5), boot="this"):
        self._shows, self._up, self._boot = shows, up, boot

    def now(self):
        return self._shows

    def boot(self):
        return Boot(id=self._boot, at=self._shows - self._up)


async def ended(store, number, at):
    over = job(number=number, status=Status.SUCCEEDED, attempts=(attempt(),))
    await store.commit(Changes(inserted=(over,), history=(moment(over, at=at),)))
    return over.id


async def left(store, *ids):
    """Which of these jobs a retention of thirty days leaves at noon."""
    await store.prune(NOON - 30 * DAY, keep=(), limit=10)
    return list(await store.jobs(ids))


async def test_jobs_that_ended_under_a_slow_clock_are_kept_for_the_whole_period(store):
    await align(store, AClock(NOON - DAYS_BEHIND))
    old = await ended(store, 1, NOON - 35 * DAY)  # by a server of an earlier boot, whose clock was right
    new = await ended(store, 2, NOON - DAYS_BEHIND + timedelta(seconds=10))
    newest = await ended(store, 3, NOON)  # the newest is kept anyhow

    await align(store, AClock(NOON, up=timedelta(minutes=6)))

    assert await left(store, old, new, newest) == [new, newest]


async def test_after_a_reboot_no_time_is_shifted(store):
    await align(store, AClock(NOON - DAYS_BEHIND))
    before = await ended(store, 1, NOON - DAYS_BEHIND + timedelta(seconds=10))
    newest = await ended(store, 2, NOON)

    await align(store, AClock(NOON, boot="another"))

    assert await left(store, before, newest) == [newest]


async def test_all_decisive_times_are_shifted_once(store):
    then = NOON - DAYS_BEHIND
    await align(store, AClock(then))
    key = submission()
    blocked = job(number=1, status=Status.RUNNABLE, unschedulable=True, blocked_at=then, created_at=then)
    waits = job(number=2, status=Status.RUNNABLE, created_at=then)
    held = job(number=4, status=Status.RUNNABLE, created_at=then, hold=Hold(reason="later", held_at=then))
    update = ConsumableUpdate(token="once", operation=QuantityOperation.ADD, quantity=1, at=then)
    requested, noted = (
        replace(DONE, at=then),
        PendingAudit(entry_id="by a command", record=replace(DONE, at=then, user="root")),
    )
    await store.put_resource(queue("default", created_at=then), caller=None)
    await store.put_resource(consumable("licences"), caller=None)
    await store.update_consumable(consumable("licences"), update, forget_before=then, caller=None)
    await store.commit(
        Changes(
            inserted=(blocked, waits, held),
            history=(moment(blocked, at=then), moment(waits, at=then)),
            submissions=((key, blocked.id, then),),
            shares=((SHARE, ShareUse(as_of=then)),),
            audit_records=(requested,),
            survey=SurveyRecord(began_at=then, unseen={blocked.id: then, waits.id: NOON - 2 * DAY, held.id: None}),
        )
    )
    await store.ingest_audit_records([noted])
    next_one = AClock(NOON, up=timedelta(minutes=6))

    await align(store, next_one)
    await align(store, next_one)

    at = NOON - timedelta(minutes=1)
    stored = await store.jobs([blocked.id, waits.id, held.id])
    assert (stored[blocked.id].blocked_at, stored[blocked.id].created_at) == (at, at)
    assert stored[waits.id] == waits
    assert stored[held.id].hold.held_at == at
    assert (await store.shares())[SHARE].as_of == at
    assert await store.last_survey() == SurveyRecord(
        began_at=at, unseen={blocked.id: at, waits.id: NOON - 2 * DAY, held.id: None}
    )
    assert (await store.resources(JobQueue))[0].created_at == at
    assert [record.record.at for record in await store.audit_records(AuditQuery(limit=10))] == [at, then]
    await store.commit(Changes(inserted=(job(number=3),), delete_submissions_before=at))
    assert await store.submissions([key]) == {key: blocked.id}
    other = replace(update, token="another", at=NOON)
    await store.update_consumable(consumable("licences"), other, forget_before=at, caller=None)
    assert await store.consumable_update(LICENCES, "once") == replace(update, at=at)


async def test_unreadable_rows_are_left_to_the_engine(tmp_path):
    store = await SqliteStore.open(tmp_path)
    await align(store, AClock(NOON - DAYS_BEHIND))
    damaged = job(number=1, status=Status.RUNNING, attempt=attempt(), started_at=NOON)
    await store.commit(Changes(inserted=(damaged,), shares=((SHARE, ShareUse(as_of=NOON)),)))
    await store._database.write(lambda connection: connection.execute("UPDATE jobs SET state = '{'"))
    await store._database.write(lambda other_connection: other_connection.execute("UPDATE share_usage SET value = '{'"))

    await align(store, AClock(NOON, up=timedelta(minutes=6)))

    assert await store.clock_anchor() is not None
    await store.close()


@pytest.mark.fault("BU07")
async def test_the_last_survey_is_stored(store):
    assert await store.last_survey() is None

    await store.commit(Changes(survey=SurveyRecord(began_at=NOON - DAY, unseen={job_id(1): None})))
    await store.commit(Changes(survey=SurveyRecord(began_at=NOON, unseen={job_id(2): NOON - DAY})))
    await store.commit(Changes())

    assert await store.last_survey() == SurveyRecord(began_at=NOON, unseen={job_id(2): NOON - DAY})


@pytest.mark.fault("CO03")
async def test_the_engine_of_the_attempts_is_stored(store):
    assert await store.engine_id() is None

    await store.commit(Changes(engine_id="one"))
    await store.commit(Changes(engine_id="another"))
    await store.commit(Changes())

    assert await store.engine_id() == "another"
