"""A store with at least one row in every table."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from msgspec.structs import replace

from batchq.domain.access.accounts import AccountName, UserName
from batchq.domain.access.audit import AuditRecord, PendingAudit
from batchq.domain.activity import ActivityKey, ActivityLoad, ActivitySample
from batchq.domain.budgets import Budget, BudgetKey, BudgetScope
from batchq.domain.bulk_stop import BulkStop
from batchq.domain.catalog import ConsumableUpdate, EnvironmentName, QuantityOperation
from batchq.domain.cost import Amounts, Spending
from batchq.domain.enums import Status, StopKind
from batchq.domain.group_terms import GroupTerms
from batchq.domain.groups import new_group
from batchq.domain.ids import ConsumableName, GroupId, QueueName, child_id
from batchq.domain.job import ArrayChild, ArrayState, ConsumableRequirement
from batchq.domain.job_selection import JobSelection
from batchq.domain.scheduling.fairshare import ShareKey, ShareUse
from batchq.domain.stop_request import StopRequest
from batchq.domain.webhooks import DeliveryProgress, Webhook, WebhookId
from batchq.ports.clock import ClockAnchor
from batchq.ports.jobs import Changes, Restoration, SurveyRecord
from batchq.ports.webhooks import StoredWebhook
from batchq.store.database import NAME
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import (
    NOON,
    attempt,
    consumable,
    definition,
    environment,
    job,
    job_id,
    log_stream,
    moment,
    policy,
    queue,
    resources,
    submission,
)

LICENCES = ConsumableName("licences")
RUNNABLE = job(number=1, status=Status.RUNNABLE, share_identifier="red", scheduling_priority=7)
RUNNING = job(number=2, status=Status.RUNNING)
WAITING = job(number=3, status=Status.PENDING, depends_on=[RUNNING])
FINISHED = job(number=4, status=Status.SUCCEEDED, attempts=(attempt(exit_code=0),), stopped_at=NOON)
ARRAY = job(
    number=5,
    status=Status.PENDING,
    array_size=2,
    needs=(ConsumableRequirement(resource=LICENCES, quantity=2),),
    array_state=ArrayState(spawned=1, counts=((Status.RUNNABLE, 1),)),
)
CHILD = job(
    id=child_id(ARRAY.id, 0),
    sequence=6,
    status=Status.RUNNABLE,
    spec=ARRAY.spec,
    child=ArrayChild(parent=ARRAY.id, index=0),
)
UNREADABLE = job(number=8, status=Status.FAILED, stopped_at=NOON)
GROUPED = job(number=9, status=Status.PENDING, group=GroupTerms(id=GroupId("g-1"), name="fit"))
JOBS = (RUNNABLE, RUNNING, WAITING, FINISHED, ARRAY, CHILD, UNREADABLE, GROUPED)

RECORD = AuditRecord(
    at=NOON, user=UserName("ada"), account=AccountName("lab"), operation="SubmitJob", resource=f"job/{job_id(1)}"
)
BULK_STOP = BulkStop(number=1, request=StopRequest(kind=StopKind.CANCEL, reason="enough"), record=RECORD)
UPDATE = ConsumableUpdate(token="a-token", operation=QuantityOperation.ADD, quantity=1, at=NOON)
WEBHOOK = StoredWebhook(
    webhook=Webhook(
        id=WebhookId("wh-1"), name="chat", owner=RUNNABLE.spec.owner, url="https://hooks.example.com/", created_at=NOON
    ),
    progress=DeliveryProgress(position=1),
)
BUDGET = Budget(key=BudgetKey(BudgetScope.ACCOUNT, "lab"), currency="EUR", soft=Decimal(1))
SPENDING = Spending(
    day=NOON.date(),
    owner=RUNNABLE.spec.owner,
    queue=RUNNABLE.spec.queue,
    definition="train",
    currency="EUR",
    amounts=Amounts(gpu=Decimal(1), compute=Decimal(2)),
)


async def fill(data: Path) -> None:
    """Write `data`, and close it. Every row is readable; the damage of one was repaired by the store."""
    store = await SqliteStore.open(data)
    try:
        await _fill_catalog(store)
        await store.commit(_changes())
        await _record_activity(store)
        await store.anchor_clock(ClockAnchor(boot="a-boot", booted_at=NOON, since=NOON), None)
        await store.put_webhook(WEBHOOK, caller=None)
        await store.commit(Changes(bulk_stops=((BULK_STOP, JobSelection(users=frozenset({""}))),)))
        await store.ingest_audit_records(
            [PendingAudit(entry_id="an-entry", record=replace(RECORD, operation="CreateUser", resource="user/ada"))]
        )
        await _damage_and_repair(store, data)
        await store.prune(NOON + timedelta(days=1), keep=(), limit=1)
    finally:
        await store.close()


def _changes() -> Changes:
    return Changes(
        inserted=JOBS,
        history=tuple(moment(other_job) for other_job in JOBS),
        submissions=((submission(), RUNNABLE.id, NOON + timedelta(days=365)),),
        shares=((ShareKey(RUNNABLE.spec.queue, "red"), ShareUse(active=1, used=2.5, as_of=NOON)),),
        used_up=((LICENCES, 7),),
        streams=(log_stream(RUNNING),),
        restoration=Restoration(at=NOON),
        engine_id="an-engine",
        survey=SurveyRecord(began_at=NOON),
        spending=(SPENDING,),
        budgets=((BUDGET.key, BUDGET),),
        groups=(new_group(GROUPED),),
        audit_records=(RECORD,),
    )


async def _fill_catalog(store: SqliteStore) -> None:
    await store.put_resource(environment(), caller=None)
    await store.put_resource(queue(), caller=None)
    await store.put_resource(policy(), caller=None)
    await store.add_definition(definition(), caller=None)
    await store.put_resource(consumable(), caller=None)
    await store.update_consumable(consumable(), UPDATE, forget_before=NOON, caller=None)
    await store.set_flag("a-flag")
    await store.secret()


async def _record_activity(store: SqliteStore) -> None:
    loads = {
        ActivityKey(QueueName("default"), AccountName("lab"), UserName("ada")): ActivityLoad(running=1, millicpus=1000)
    }
    sample = ActivitySample(
        at=NOON, loads=loads, environments={EnvironmentName("local"): 4000}, machines=resources(), environment_loads={}
    )
    await store.record_activity(sample, (), 1)


async def _damage_and_repair(store: SqliteStore, data: Path) -> None:
    with closing(sqlite3.connect(data / NAME, isolation_level=None)) as other:
        other.execute("UPDATE jobs SET state = '{' WHERE id = ?", [UNREADABLE.id])
    await store.jobs([UNREADABLE.id])
