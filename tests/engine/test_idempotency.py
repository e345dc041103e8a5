"""The store is searched for the key of a SubmitJob only where it may contain it."""

from asyncio import Future
from datetime import timedelta

import pytest

from batchq.domain.access.accounts import Caller, Owner
from batchq.domain.enums import DependencyType
from batchq.domain.job import Dependency
from batchq.engine.idempotency import LONGEST_STEP, SUBMISSIONS_KEPT_FOR, IdempotencyFilter
from batchq.engine.mailbox import FindSubmission
from batchq.errors import Invalid
from tests.engine.harness import ONE, SURVEYED, TWO, LoopHarness, catalog_of, harness_with, submit
from tests.support.builders import NO_ACCOUNTS, NOON, job, job_id, submission
from tests.support.clock import VirtualClock
from tests.support.inline import InlineStore

MOMENT = timedelta(seconds=1)


class RecordingStore(InlineStore):
    """Records the keys of the submissions that were read."""

    def __init__(self):
        super().__init__()
        self.keys_read = []

    async def submissions(self, keys):
        self.keys_read.extend(keys)
        return await super().submissions(keys)


def beside_an_empty_store():
    repeats = IdempotencyFilter()
    repeats.load(NOON, empty=True)
    return repeats


async def test_a_first_submission_reads_no_idempotency_key():
    store = RecordingStore()
    harness = LoopHarness(store, catalog_of(), NO_ACCOUNTS)
    await harness.loop.load()

    await harness.process(SURVEYED, submit(ONE, key=submission()), submit(TWO, key=submission(invocation_id="another")))

    assert store.keys_read == []
    assert set(await store.jobs([ONE, TWO])) == {ONE, TWO}


async def test_a_repeated_submission_returns_the_first_job():
    harness = await harness_with()
    first, again = submit(ONE, key=submission()), submit(TWO, key=submission())

    await harness.process(first)
    await harness.process(again)

    assert again.answer.result().id == first.answer.result().id == ONE


async def test_a_submission_repeated_after_a_restart_returns_the_first_job():
    store = InlineStore()
    before, harness = LoopHarness(store, catalog_of(), NO_ACCOUNTS), LoopHarness(store, catalog_of(), NO_ACCOUNTS)
    again = submit(TWO, key=submission())
    await before.loop.load()
    await before.process(submit(ONE, key=submission()))

    await harness.loop.load()
    await harness.process(again)

    assert again.answer.result().id == ONE


async def test_a_submission_repeated_after_the_key_expired_is_a_new_job():
    harness = await harness_with()
    late = submit(TWO, key=submission())
    await harness.process(submit(job_id(1_000_002), key=submission(invocation_id="first of all")))
    await VirtualClock().sleep(SUBMISSIONS_KEPT_FOR / MOMENT - 1)
    await harness.process(submit(ONE, key=submission()))
    await VirtualClock().sleep(1)
    await harness.process(submit(job_id(1_000_003), key=submission(invocation_id="another")))

    for _ in range(2 * SUBMISSIONS_KEPT_FOR // LONGEST_STEP):
        await VirtualClock().sleep(LONGEST_STEP / MOMENT)
        await harness.process(SURVEYED)
    await harness.process(submit(job_id(1_000_004), key=submission(invocation_id="a third")))
    await harness.process(late)

    assert late.answer.result().id == TWO


def test_a_key_is_known_while_the_store_may_contain_it():
    repeats = beside_an_empty_store()
    repeats.may_be_repeated(submission(invocation_id="first of all"), NOON)
    repeats.may_be_repeated(submission(), NOON + SUBMISSIONS_KEPT_FOR - MOMENT)

    repeats.may_be_repeated(submission(invocation_id="another"), NOON + SUBMISSIONS_KEPT_FOR)

    assert repeats.may_be_repeated(submission(), NOON + 2 * SUBMISSIONS_KEPT_FOR - 2 * MOMENT)


def test_an_expired_key_is_forgotten():
    repeats = beside_an_empty_store()
    repeats.may_be_repeated(submission(), NOON)

    repeats.may_be_repeated(submission(invocation_id="another"), NOON + SUBMISSIONS_KEPT_FOR)

    assert not repeats.may_be_repeated(submission(), NOON + 2 * SUBMISSIONS_KEPT_FOR)


def test_any_key_may_be_stored_from_before_the_start_until_it_expires():
    repeats = IdempotencyFilter()
    repeats.load(NOON, empty=False)

    assert repeats.may_be_repeated(submission(), NOON + SUBMISSIONS_KEPT_FOR - MOMENT)
    assert not repeats.may_be_repeated(submission(invocation_id="another"), NOON + SUBMISSIONS_KEPT_FOR)


def test_no_key_expires_for_a_whole_period_after_the_machine_was_suspended():
    repeats, woken = beside_an_empty_store(), NOON + 4 * SUBMISSIONS_KEPT_FOR
    repeats.may_be_repeated(submission(), NOON)

    repeats.step(woken)

    assert repeats.may_be_repeated(submission(invocation_id="any"), woken)
    assert repeats.expired_before(woken + SUBMISSIONS_KEPT_FOR - MOMENT) is None
    assert repeats.expired_before(woken + SUBMISSIONS_KEPT_FOR) == woken


def test_the_clock_is_steady_since_the_start_or_the_last_jump_even_before_a_unit_of_work_notices_it():
    repeats, woken = beside_an_empty_store(), NOON + LONGEST_STEP + MOMENT

    assert repeats.steady_since(NOON + LONGEST_STEP) == NOON
    assert repeats.steady_since(woken) == woken
    repeats.step(woken)
    assert repeats.steady_since(woken + LONGEST_STEP) == woken


async def test_a_search_for_a_submission_finds_one_of_the_same_unit_of_work():
    harness = await harness_with()
    answer, unknown = Future(), Future()

    await harness.process(
        submit(ONE, key=submission()),
        FindSubmission(key=submission(), answer=answer),
        FindSubmission(key=submission(invocation_id="another"), answer=unknown),
    )

    assert (answer.result().id, unknown.result()) == (ONE, None)


ADA = Caller(user="ada", account="team")
CORA = Caller(user="cora", account="lab", coordinates=frozenset({"lab", "team"}))
BOB = Owner(user="bob", account="team")
UNKNOWN = job_id(77)


async def answered(harness, message):
    """The reply to a submission: the id of the job, or the text of the error."""
    await harness.process(message)
    try:
        return (await message.answer).id
    except Invalid as why:
        return str(why)


@pytest.mark.fault("SE08")
@pytest.mark.parametrize("more", [{}, {"array_size": 3}])
@pytest.mark.parametrize("kind", [None, DependencyType.N_TO_N, DependencyType.SEQUENTIAL])
async def test_a_dependency_on_an_invisible_job_is_refused_as_missing(kind, more):
    theirs = job(owner=BOB, **more)
    harness = await harness_with(theirs)

    refused = await answered(
        harness, submit(ONE, caller=ADA, depends_on=[Dependency(job_id=theirs.id, type=kind)], **more)
    )
    unknown = await answered(
        harness, submit(TWO, caller=ADA, depends_on=[Dependency(job_id=UNKNOWN, type=kind)], **more)
    )

    assert refused.replace(theirs.id, UNKNOWN) == unknown == f"Job {UNKNOWN} in dependsOn does not exist."


@pytest.mark.fault("SE08")
async def test_a_dependency_on_an_unspawned_child_of_an_invisible_array_is_refused():
    theirs = job(owner=BOB, array_size=3)
    harness = await harness_with(theirs)

    assert "does not exist" in await answered(harness, submit(ONE, caller=ADA, depends_on=[f"{theirs.id}:1"]))


async def test_a_coordinator_may_depend_on_jobs_of_the_accounts_below():
    theirs = job(owner=BOB)
    harness = await harness_with(theirs)

    assert await answered(harness, submit(ONE, caller=CORA, depends_on=[theirs.id])) == ONE


@pytest.mark.fault("SE08")
async def test_a_queue_that_became_invisible_before_the_unit_of_work_is_not_found():
    harness = await harness_with()
    barred = Caller(user="ada", queues=frozenset({"night"}))

    await harness.process(SURVEYED)

    assert await answered(harness, submit(ONE, caller=barred)) == "JobQueue default not found."
    assert await answered(harness, submit(TWO, caller=ADA)) == TWO
