"""The store is searched for the key of a SubmitJob only where it may contain it."""

from datetime import timedelta

from batchq.engine.state import SUBMISSIONS_KEPT_FOR, IdempotencyFilter
from tests.engine.desk import LOOKED, ONE, TWO, Desk, desk_over, submit
from tests.engine.turns import ground
from tests.support.builders import NO_ACCOUNTS, NOON, job_id, submission
from tests.support.clock import VirtualClock
from tests.support.inline import InlineStore

MOMENT = timedelta(seconds=1)


class Watched(InlineStore):
    """It remembers which submissions it was asked for."""

    def __init__(self):
        super().__init__()
        self.looked = []

    async def submissions(self, keys):
        self.looked.extend(keys)
        return await super().submissions(keys)


def beside_an_empty_store():
    repeats = IdempotencyFilter()
    repeats.load(NOON, empty=True)
    return repeats


async def test_a_first_submission_reads_no_idempotency_key():
    store = Watched()
    desk = Desk(store, ground(), NO_ACCOUNTS)
    await desk.loop.load()

    await desk.process(LOOKED, submit(ONE, key=submission()), submit(TWO, key=submission(invocation_id="another")))

    assert store.looked == []
    assert set(await store.jobs([ONE, TWO])) == {ONE, TWO}


async def test_a_repeated_submission_returns_the_first_job():
    desk = await desk_over()
    first, again = submit(ONE, key=submission()), submit(TWO, key=submission())

    await desk.process(first)
    await desk.process(again)

    assert again.answer.result().id == first.answer.result().id == ONE


async def test_a_submission_repeated_after_a_restart_returns_the_first_job():
    store = InlineStore()
    before, desk = Desk(store, ground(), NO_ACCOUNTS), Desk(store, ground(), NO_ACCOUNTS)
    again = submit(TWO, key=submission())
    await before.loop.load()
    await before.process(submit(ONE, key=submission()))

    await desk.loop.load()
    await desk.process(again)

    assert again.answer.result().id == ONE


async def test_a_submission_repeated_after_the_key_expired_is_a_new_job():
    desk = await desk_over()
    late = submit(TWO, key=submission())
    await desk.process(submit(job_id(1_000_002), key=submission(invocation_id="first of all")))
    await VirtualClock().sleep(SUBMISSIONS_KEPT_FOR / MOMENT - 1)
    await desk.process(submit(ONE, key=submission()))
    await VirtualClock().sleep(1)
    await desk.process(submit(job_id(1_000_003), key=submission(invocation_id="another")))

    await VirtualClock().sleep(SUBMISSIONS_KEPT_FOR / MOMENT)
    await desk.process(late)

    assert late.answer.result().id == TWO


def test_an_idempotency_key_is_new_once():
    repeats = beside_an_empty_store()

    assert not repeats.may_be_repeated(submission(), NOON)
    assert repeats.may_be_repeated(submission(), NOON + MOMENT)


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
