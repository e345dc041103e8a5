"""Each webhook receives its events in order, at least once, also from an endpoint that was away and a killed server."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Account, Directory, Owner, User
from batchq.domain.enums import DeliveryKind, EventKind, Role, Status, WebhookState
from batchq.domain.group_terms import GroupTerms
from batchq.domain.ids import child_id
from batchq.domain.job import ArrayChild
from batchq.domain.webhooks import (
    MAX_FAILING,
    MAX_RETRY_AFTER,
    MAX_UNDELIVERED,
    DeliveryProgress,
    EventSelection,
    PendingDelivery,
    after_try,
)
from batchq.server.webhook_parts import webhook_readings
from batchq.webhooks import dispatcher
from tests.support.builders import ADMIN, NOON, job, moment
from tests.webhooks.board import AWAY, EVERYTHING, GONE, OK, REJECTED, group_end, number_of

HOUR = 3600
ADA, EVE = (Owner(user=name, account=name) for name in ("ada", "eve"))
PEOPLE = Directory(
    accounts={"ada": Account(name="ada"), "eve": Account(name="eve")},
    users={name: User(name=name, account=name) for name in ("ada", "eve")},
)


async def test_events_are_delivered_in_order_with_an_id_each(board):
    webhook = await board.webhook()
    before = await board.events(3)
    await board.start()

    later = await board.events(300)
    await board.until(lambda: board.progress(webhook).position == later[-1])

    assert board.numbers == before + later
    ids = [request.headers["webhook-id"] for request in board.sender.requests]
    assert len(set(ids)) == len(ids)
    assert board.progress(webhook).delivered == len(ids)


async def test_a_new_webhook_receives_the_events_from_now_on(board):
    await board.events(5)
    webhook = await board.webhook(position=5)
    await board.start()

    later = await board.events(2)
    await board.until(lambda: board.progress(webhook).position == later[-1])

    assert board.numbers == later


@pytest.mark.fault("SE83")
async def test_an_endpoint_that_is_away_for_an_hour_gets_all_events_after_it_is_back(board):
    webhook = await board.webhook()
    board.sender.answer = lambda _: AWAY
    await board.start()
    events = [number for _ in range(60) for number in await hourly(board)]
    assert board.progress(webhook).state is WebhookState.RETRYING
    assert set(board.numbers) == {events[0]}
    tries = len(board.numbers)
    assert tries < 15

    board.sender.answer = lambda _: OK
    await board.until(lambda: board.progress(webhook).position == events[-1], seconds=700)

    assert board.numbers[tries:] == events
    assert board.progress(webhook).state is WebhookState.ENABLED
    assert board.progress(webhook).failure is None


async def hourly(board):
    await board.pass_by(60)
    return await board.events(2)


@pytest.mark.fault("SE83")
async def test_a_killed_server_delivers_at_least_once_with_the_same_ids(board):
    webhook = await board.webhook()
    await board.start()
    first = await board.events(40)
    await board.until(lambda: board.progress(webhook).position >= first[10])
    await board.kill()
    second = await board.events(10)

    await board.start()
    await board.until(lambda: board.progress(webhook).position == second[-1])

    assert sorted(set(board.numbers)) == first + second
    ids = {(number_of(request), request.headers["webhook-id"]) for request in board.sender.requests}
    assert len(ids) == len(first + second)


@pytest.mark.fault("SE83")
async def test_a_kill_at_any_delivery_loses_no_event(board):
    webhook = await board.webhook()
    events = await board.events(6)
    for at in range(1, 7):

        def answer(_, at=at):
            if len(board.sender.requests) == at:
                raise asyncio.CancelledError
            return OK

        board.sender.requests.clear()
        board.sender.answer = answer
        await board.start()
        await board.until(lambda at=at: len(board.sender.requests) == at)
        await board.kill()

        board.sender.answer = lambda _: OK
        await board.start()
        await board.until(lambda: board.progress(webhook).position == events[-1])
        await board.kill()

        assert sorted(set(board.numbers)) == events


async def test_the_end_of_a_server_saves_the_position(board):
    webhook = await board.webhook()
    await board.start()
    events = await board.events(3)
    await board.until(lambda: board.progress(webhook).position == events[-1])
    await board.stop()
    board.sender.requests.clear()

    await board.start()
    await board.pass_by(30)

    assert board.numbers == []
    assert (await board.saved(webhook)).delivered == 3


async def test_the_position_is_saved_soon_after_a_delivery(board):
    webhook = await board.webhook()
    await board.start()
    events = await board.events(3)
    await board.pass_by(3)

    assert (await board.saved(webhook)).position == events[-1]


async def test_an_endpoint_that_hangs_delays_no_other_webhook(board):
    slow, quick = await board.webhook(1, url="https://slow.example.com/"), await board.webhook(2)
    hanging = asyncio.Event()
    send = board.sender.send

    async def sends(request, *, user):
        if "slow" in request.url:
            await hanging.wait()
        return await send(request, user=user)

    board.sender.send = sends
    await board.start()
    events = await board.events(5)
    await board.until(lambda: board.progress(quick).position == events[-1])

    assert board.progress(slow).position == 0
    hanging.set()
    await board.until(lambda: board.progress(slow).position == events[-1])


@pytest.mark.fault("SE83")
async def test_the_webhooks_of_a_user_compare_one_event_in_each_pass_of_the_event_loop(board, monkeypatch):
    """The patterns of 20 webhooks take 100 ms for one event, and other users' requests would wait so long."""
    passes, compared, done = [0], [], asyncio.Event()

    def selects(webhook, entry):
        compared.append(passes[0])
        if len(compared) == 50:
            done.set()

    monkeypatch.setattr(dispatcher, "selects", selects)

    async def count_passes():
        while True:
            passes[0] += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_passes())
    for number in range(1, 6):
        await board.webhook(number)
    await board.start()
    await board.events(10)
    await done.wait()
    counting.cancel()

    assert len(set(compared)) == 50


# --------------------------------------------------------------------------------------------------- failures that last


@pytest.mark.fault("SE84")
async def test_a_webhook_without_a_success_for_days_is_disabled_and_goes_on_when_it_is_enabled(board):
    webhook = await board.webhook()
    board.sender.answer = lambda _: AWAY
    await board.start()
    events = await board.events(3)
    await board.pass_by(MAX_FAILING.total_seconds() + HOUR)
    progress = board.progress(webhook)
    tries = len(board.sender.requests)

    assert progress.state is WebhookState.DISABLED
    assert progress.disabled == "no delivery succeeded for 3 days: connection refused"
    assert 400 < tries < 500
    await board.pass_by(HOUR)
    assert len(board.sender.requests) == tries

    board.sender.answer = lambda _: OK
    await board.service.update(webhook.id, enable=True, rotate=False, caller=ADMIN)
    await board.until(lambda: board.progress(webhook).position == events[-1])
    assert board.numbers[tries:] == events


async def delivers_within_an_hour(board, webhook, events):
    """The endpoint fails for another minute. Then it gets all events."""
    await board.pass_by(60)
    board.sender.answer = lambda _: OK

    await board.until(lambda: board.progress(webhook).position == events, seconds=HOUR)
    assert board.progress(webhook).state is WebhookState.ENABLED


async def test_a_failure_after_days_without_events_does_not_disable_a_webhook(board):
    """The endpoint has rejected the last event, days ago."""
    webhook = await board.webhook()
    board.sender.answer = lambda _: REJECTED
    await board.start()
    await board.events(1)
    await board.pass_by(MAX_FAILING.total_seconds() + HOUR)

    board.sender.answer = lambda _: AWAY
    await board.events(1)
    await delivers_within_an_hour(board, webhook, 2)


async def test_a_failure_after_days_without_a_server_does_not_disable_a_webhook(board):
    """The network of a machine that was off for days may come up after the server."""
    webhook = await board.webhook()
    board.sender.answer = lambda _: AWAY
    await board.start()
    await board.events(1)
    await board.pass_by(HOUR)
    await board.stop()
    await board.pass_by(MAX_FAILING.total_seconds())

    await board.start()
    await delivers_within_an_hour(board, webhook, 1)


@pytest.mark.fault("SE84")
async def test_an_endpoint_that_answers_410_gets_no_more_events(board):
    webhook = await board.webhook()
    board.sender.answer = lambda _: GONE
    await board.start()
    await board.events(3)
    await board.pass_by(HOUR)

    assert len(board.sender.requests) == 1
    assert board.progress(webhook).disabled == "answered 410"


async def test_an_event_that_the_endpoint_rejects_is_kept_and_does_not_hold_up_the_next(board):
    webhook = await board.webhook()
    board.sender.answer = lambda request: REJECTED if number_of(request) == 2 else OK
    await board.start()
    events = await board.events(4)
    await board.until(lambda: board.progress(webhook).position == events[-1], seconds=120)

    assert board.numbers == [1, 2, 2, 2, 3, 4]
    assert [(event.number, event.reason) for event in board.progress(webhook).undelivered] == [(2, "answered 400")]

    board.sender.answer = lambda _: OK
    await board.service.redeliver(webhook.id, numbers=(), after=None, caller=ADMIN)
    await board.until(lambda: not board.progress(webhook).again)
    assert board.numbers[6:] == [2]
    assert board.progress(webhook).undelivered == ()


async def test_an_endpoint_that_rejects_everything_counts_as_failing(board):
    webhook = await board.webhook()
    board.sender.answer = lambda _: REJECTED
    await board.start()
    await board.events(50)
    await board.pass_by(10 * HOUR)

    progress = board.progress(webhook)
    assert len(progress.undelivered) == 20
    assert progress.position == 20
    assert progress.state is WebhookState.RETRYING


async def test_events_by_number_are_delivered_again(board):
    webhook = await board.webhook()
    await board.start()
    events = await board.events(4)
    await board.until(lambda: board.progress(webhook).position == events[-1])

    await board.service.redeliver(webhook.id, numbers=[3, 1], after=None, caller=ADMIN)
    await board.until(lambda: not board.progress(webhook).again)
    await board.service.redeliver(webhook.id, numbers=(), after=2, caller=ADMIN)
    await board.until(lambda: board.progress(webhook).position == events[-1])

    assert board.numbers == [1, 2, 3, 4, 1, 3, 3, 4]


async def test_the_progress_keeps_a_bounded_number_of_undelivered_events():
    progress, now = DeliveryProgress(position=0, tries=2), NOON
    for number in range(1, MAX_UNDELIVERED + 50):
        event = PendingDelivery(kind=DeliveryKind.EVENT, number=number)
        progress = after_try(replace(progress, tries=2, rejections=0), event, REJECTED, now=now, jitter=1)

    assert len(progress.undelivered) == MAX_UNDELIVERED
    assert progress.undelivered[-1].number == MAX_UNDELIVERED + 49


@pytest.mark.parametrize(("asked", "waits"), [(None, 5), (2, 5), (40, 40), (10**6, MAX_RETRY_AFTER.total_seconds())])
def test_the_endpoint_may_ask_for_a_later_try(asked, waits):
    outcome = replace(AWAY, retry_after=None if asked is None else timedelta(seconds=asked))
    event = PendingDelivery(kind=DeliveryKind.EVENT, number=1)

    after = after_try(DeliveryProgress(position=0), event, outcome, now=NOON, jitter=1)

    assert after.next_at == NOON + timedelta(seconds=waits)


async def test_a_gap_in_the_events_is_reported_once(board):
    webhook = await board.webhook(position=1)
    await board.events(3, status=Status.SUCCEEDED, stopped_at=NOON)
    await board.store.prune(NOON + timedelta(days=1), keep=(), limit=2)
    await board.start()
    later = await board.events(2)
    await board.until(lambda: board.progress(webhook).position == later[-1])

    assert board.numbers == [None, 3, *later]
    assert b'"type":"events.gap"' in board.sender.requests[0].body


async def test_a_second_gap_is_reported_too(board):
    webhook = await board.webhook(position=1)
    await board.events(8, status=Status.SUCCEEDED, stopped_at=NOON)
    await board.store.prune(NOON + timedelta(days=1), keep=(), limit=2)
    board.sender.answer = lambda request: AWAY if number_of(request) == 4 else OK
    await board.start()
    await board.until(lambda: board.progress(webhook).failing_since is not None)
    await board.store.prune(NOON + timedelta(days=1), keep=(), limit=3)

    board.sender.answer = lambda request: OK
    later = await board.events(1)
    await board.until(lambda: board.progress(webhook).position == later[-1], seconds=60)

    assert board.numbers == [None, 3, 4, None, 6, 7, 8, *later]
    assert [b'"after":1' in board.sender.requests[0].body, b'"after":3' in board.sender.requests[3].body] == [
        True,
        True,
    ]


async def test_nothing_is_delivered_while_restored_data_is_examined(board):
    webhook = await board.webhook()
    board.is_suspended = True
    await board.start()
    events = await board.events(2)
    await board.pass_by(HOUR)
    assert board.sender.requests == []

    board.is_suspended = False
    await board.until(lambda: board.progress(webhook).position == events[-1], seconds=60)
    assert board.numbers == events


# ------------------------------------------------------------------------------------------------ which events are sent


@pytest.mark.fault("SE85")
async def test_a_user_gets_no_events_of_jobs_of_other_users(board):
    board.users = PEOPLE
    of_ada, of_eve = await board.webhook(1, owner=ADA, url="https://a/"), await board.webhook(2, owner=EVE)
    await board.start()
    private = await board.events(3, owner=ADA)
    other = await board.events(2, owner=EVE)
    await board.until(lambda: board.progress(of_ada).position == board.progress(of_eve).position == other[-1])

    sent = {(request.url, number_of(request)) for request in board.sender.requests}
    assert sent == {("https://a/", number) for number in private} | {(of_eve.url, number) for number in other}


@pytest.mark.fault("SE85")
async def test_a_user_who_loses_a_right_gets_no_further_events_of_it(board):
    operator = replace(PEOPLE.users["eve"], role=Role.OPERATOR)
    board.users = replace(PEOPLE, users={**PEOPLE.users, "eve": operator})
    webhook = await board.webhook(owner=EVE)
    await board.start()
    first = await board.events(2, owner=ADA)
    await board.until(lambda: board.progress(webhook).position == first[-1])
    board.sender.answer = lambda _: AWAY
    await board.events(2, owner=ADA)
    await board.pass_by(60)
    before = len(board.numbers)

    board.users = PEOPLE
    board.sender.answer = lambda _: OK
    await board.pass_by(HOUR)

    assert board.progress(webhook).position == 4
    assert board.numbers[before:] == []


@pytest.mark.fault("SE85")
async def test_the_webhook_of_a_deleted_user_is_disabled(board):
    board.users = PEOPLE
    webhook = await board.webhook(owner=EVE)
    await board.start()
    await board.pass_by(1)

    board.users = replace(PEOPLE, users={"ada": PEOPLE.users["ada"]})
    await board.events(2, owner=EVE)
    await board.pass_by(60)
    board.users = PEOPLE
    await board.events(2, owner=EVE)
    await board.pass_by(60)

    assert board.sender.requests == []
    assert board.progress(webhook).disabled == "user eve was deleted"


@pytest.mark.fault("SE85")
async def test_an_event_of_another_user_is_not_delivered_again(board):
    board.users = PEOPLE
    webhook = await board.webhook(owner=EVE)
    await board.start()
    (private,) = await board.events(1, owner=ADA)

    caller = PEOPLE.caller("eve")
    for number in (private, 99):
        with pytest.raises(Exception, match=f"Event {number} not found"):
            await board.service.redeliver(webhook.id, numbers=[number], after=None, caller=caller)

    assert board.sender.requests == []


CHILD = {"id": child_id(job(number=77).id, 0), "child": ArrayChild(parent=job(number=77).id, index=0)}


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (EVERYTHING, "array child failed grouped group_end other"),
        (EventSelection(), "failed group_end"),
        (EventSelection(kinds=()), ""),
        (EventSelection(kinds=(EventKind.FAILED,)), "failed"),
        (replace(EVERYTHING, children=False), "array failed grouped group_end other"),
        (replace(EVERYTHING, names=("TRAIN-*",)), "failed"),
        (replace(EVERYTHING, groups=("f*",)), "grouped group_end"),
        (replace(EVERYTHING, queues=frozenset({"gpu"})), "other"),
        (replace(EVERYTHING, users=frozenset({"eve"})), "other"),
        (replace(EVERYTHING, accounts=frozenset({"eve"})), "other"),
        (replace(EVERYTHING, accounts=frozenset({"eve"}), queues=frozenset({"a-queue"})), ""),
    ],
)
async def test_a_webhook_selects_events(board, selection, expected):
    webhook = await board.webhook(selection=selection)
    array = job(number=77, status=Status.PENDING, array_size=9)
    child = job(number=78, status=Status.RUNNABLE, spec=array.spec, **CHILD)
    failed = job(number=79, status=Status.FAILED, name="train-1", stopped_at=NOON)
    grouped = job(number=80, status=Status.RUNNABLE, group=GroupTerms(id="g-1", name="fit"))
    other = job(number=81, status=Status.RUNNABLE, owner=EVE, queue="gpu")
    jobs = [array, child, failed, grouped, other]
    entries = [*(moment(each) for each in (array, child, failed, grouped)), group_end(grouped), moment(other)]
    await board.start()
    numbers = await board.save(jobs, entries)
    await board.until(lambda: board.progress(webhook).position == numbers[-1])

    names = dict(zip(numbers, ["array", "child", "failed", "grouped", "group_end", "other"], strict=True))
    assert [names[number] for number in board.numbers] == expected.split()


async def test_the_end_of_a_job_is_sent_to_the_webhook_that_the_job_names(board):
    webhook = await board.webhook(selection=EventSelection(kinds=()), owner=ADA)
    group = GroupTerms(id="g-1", name="fit")
    named = {"notify": webhook.name, "status": Status.SUCCEEDED, "stopped_at": NOON}
    alone, grouped = job(number=79, owner=ADA, **named), job(number=80, owner=ADA, group=group, **named)
    other, child = job(number=81, owner=EVE, **named), job(number=78, **CHILD | named | {"owner": ADA})
    jobs = [alone, grouped, other, job(number=77, array_size=9), child]
    begun = moment(alone, status=Status.RUNNING)
    await board.start()
    numbers = await board.save(
        jobs, [begun, moment(alone), moment(grouped), group_end(grouped), moment(other), moment(child)]
    )
    await board.until(lambda: board.progress(webhook).position == numbers[-1])

    assert board.numbers == [numbers[1], numbers[3]]


async def test_the_selection_is_the_same_for_stored_events(board):
    webhook = await board.webhook(selection=EventSelection(groups=("fit",)), owner=ADA, name="chat")
    group = GroupTerms(id="g-1", name="fit")
    ended = {"status": Status.FAILED, "stopped_at": NOON, "owner": ADA}
    jobs = [job(group=group, **ended), job(notify="chat", **ended), job(**ended)]
    numbers = await board.save(jobs, [moment(each) for each in jobs])
    await board.start()
    await board.until(lambda: board.progress(webhook).position == numbers[-1])

    assert board.numbers == numbers[:2]


async def test_the_metrics_count_tries_and_what_waits(board):
    webhook = await board.webhook()
    board.sender.answer = lambda request: OK if len(board.sender.requests) == 1 else AWAY
    numbers = await board.events(3)
    await board.start()
    await board.until(lambda: board.progress(webhook).failing_since is not None)

    since, now = board.progress(webhook).failing_since, board.clock.now() + timedelta(hours=1)
    readings = webhook_readings(board.dispatcher, newest=board.feed.last, now=now)
    values = {" ".join((reading.gauge, *reading.labels)): reading.value for reading in readings}

    assert values == {
        "batchq_webhook_deliveries_total delivered": 1,
        "batchq_webhook_deliveries_total rejected": 0,
        "batchq_webhook_deliveries_total failed": 1,
        "batchq_webhook_deliveries_total gone": 0,
        "batchq_webhook_waiting_events": len(numbers) - 1,
        "batchq_webhook_oldest_failure_seconds": (now - since).total_seconds(),
    }
