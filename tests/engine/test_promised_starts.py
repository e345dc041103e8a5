"""The check of promised starts accepts a head that an account's limit passes over, and no postponed promise."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.access.accounts import Account, AccountLimits, Directory, Owner
from batchq.engine.account_limits import AccountPolicies
from tests.domain.lives import runnable, starting
from tests.engine.harness import ONE, SURVEYED, catalog_of, harness_with, submit
from tests.simulation.invariants import Invariants
from tests.simulation.run_log import RunLog
from tests.support.builders import NOON, queue

LAB, OTHER = Owner(user="ada", account="lab"), Owner(user="bob", account="other")
HOUR = timedelta(hours=1)


async def promised_head():
    """A loop with the head of a queue, which waits for the end of a job of another account. Returns the head too."""
    people = Directory(
        accounts={"lab": Account(name="lab", limits=AccountLimits(vcpus=3)), "other": Account(name="other")}
    )
    harness = await harness_with(
        starting(owner=OTHER, millicpus=2000, timeout=HOUR),
        head := runnable(owner=LAB, millicpus=3000),
        catalog=catalog_of(queue(), queue("urgent", priority=9)),
        accounts=AccountPolicies(directory=lambda: people, enforced=False),
    )
    await harness.process(SURVEYED)
    stored = await stored_job(harness, head)
    assert stored.promised_start is not None
    return harness, stored


async def stored_job(harness, job):
    return (await harness.store.jobs([job.id]))[job.id]


def failure(before, after):
    run_log = RunLog()
    Invariants(now=lambda: NOON, run_log=run_log)._check_promised_start(before, after)
    return run_log.failure


async def test_a_head_whose_account_reaches_its_limit_at_the_same_time_is_no_head_any_more():
    harness, head = await promised_head()

    await harness.process(submit(ONE, owner=LAB, queue="urgent", millicpus=1000))

    passed_over = await stored_job(harness, head)
    assert passed_over.status_reason == status_reasons.at_limit("lab")
    assert (passed_over.blocked_at, passed_over.promised_start) == (head.blocked_at, None)
    assert failure(head, passed_over) is None


@pytest.mark.parametrize("later", [None, HOUR], ids=["removed", "postponed"])
async def test_a_promised_start_of_a_head_is_neither_removed_nor_postponed(later):
    _, head = await promised_head()
    promise = None if later is None else head.promised_start + later
    same_code = status_reasons.code(head.status_reason) + " - The job waits for memory."

    assert failure(head, replace(head, promised_start=promise, status_reason=same_code)) is not None
