"""Many jobs stopped by one request, by ids and filters. aws-batch.md 5.1, 5.5 and 5.6 say what it is for each."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Account, Caller, Directory, Owner
from batchq.domain.bulk_stop import BulkStopOrder, Kind
from batchq.domain.job import Status
from batchq.errors import StoreFailed
from tests.support import builders
from tests.support import world as worlds
from tests.support.scripts import LASTING, Script

DEAF = Script(seconds=None)
CHILD = "{}:{}".format


@pytest.fixture
async def pretended():
    async with worlds.pretended() as living:
        yield living


async def queued(world, *, holding=4000, **asked):
    """A job that runs and holds the room, and one that waits for it."""
    holder = await world.submit(LASTING, millicpus=holding)
    await world.then(holder, Status.RUNNING)
    waits = await world.submit(millicpus=4000, **asked)
    await world.then(waits, Status.RUNNABLE)
    return holder, waits


# ----------------------------------------------------------------------------------------------- what becomes of each


async def test_a_cancel_ends_what_waits_and_what_runs_is_not_retried(world):
    holder, waits = await queued(world)
    pending = await world.submit(after=[waits])
    await world.then(pending, Status.PENDING)

    told = await world.cancel_all(reason="enough", queues=["default"])

    assert told == {holder: "NOT_RETRIED", waits: "CANCELLED", pending: "CANCELLED"}
    assert (await world.then(waits, Status.FAILED, status_reason="enough", attempts=())).is_cancelled
    assert (await world.then(pending, Status.FAILED, status_reason="enough")).is_cancelled
    assert (await world.job(holder)).status is Status.RUNNING


async def test_a_terminate_ends_all_of_them_each_in_its_way(world):
    holder, waits = await queued(world)

    told = await world.terminate_all(reason="enough", queues=["default"])

    assert told == {holder: "STOPPING", waits: "TERMINATED"}
    assert (await world.then(waits, Status.FAILED, status_reason="enough", attempts=())).is_terminated
    assert (await world.then(holder, Status.FAILED, status_reason="enough")).is_terminated
    assert await world.asked(holder) == ["create", "start", "stop", "remove"]


async def test_a_terminate_has_a_signal_and_a_grace_of_its_own(world):
    hears = await world.submit(LASTING)
    await world.then(hears, Status.RUNNING)

    order = BulkStopOrder(kind=Kind.TERMINATE, reason="at once", signal="SIGKILL")
    await world.sweep(order, hears)

    over = await world.then(hears, Status.FAILED, status_reason="at once")
    assert over.attempts[0].exit_code == 137
    assert await world.asked(hears) == ["create", "start", "stop", "remove"]


async def test_a_grace_of_an_order_counts_though_the_server_is_another_by_then(pretended):
    deaf = await pretended.submit(DEAF)
    await pretended.then(deaf, Status.RUNNING)

    order = BulkStopOrder(kind=Kind.TERMINATE, reason="soon", grace=5 * worlds.GRACE, signal="SIGINT")
    await pretended.sweep(order, deaf)
    await pretended.restart()

    over = await pretended.then(deaf, Status.FAILED, status_reason="soon")
    assert over.stop.signal == "SIGINT"
    assert over.stop.killed_at - over.stop.ordered_at >= 5 * worlds.GRACE


async def test_what_is_named_and_cannot_be_stopped_is_told_why_and_hinders_nobody(pretended):
    over, waits = await pretended.submit(), await pretended.submit(LASTING)
    nobody = str(builders.job_id(7))
    await pretended.then(over, Status.SUCCEEDED)

    told = await pretended.terminate_all(over, nobody, waits, f"{waits}:0", f"{waits}#1", statuses=[*Status])

    assert {told.pop(it) for it in (nobody, f"{waits}:0", f"{waits}#1")} == {"NOT_FOUND"}
    assert (told.pop(over), len(told)) == ("ALREADY_FINISHED", 1)
    await pretended.then(waits, Status.FAILED)


async def test_what_is_named_and_does_not_match_another_filter_is_left_alone(pretended):
    holder, waits = await queued(pretended)

    told = await pretended.terminate_all(holder, waits, statuses=[Status.RUNNABLE])

    assert told == {holder: "NOT_MATCHED", waits: "TERMINATED"}
    assert (await pretended.job(holder)).stop is None


async def test_no_match_is_nothing_done(pretended):
    job = await pretended.submit(LASTING)

    assert await pretended.cancel_all(names=["nobody*"]) == {}
    assert (await pretended.then(job, Status.RUNNING)).cancelled is None


async def test_what_would_be_done_is_told_and_nothing_is(pretended):
    holder, waits = await queued(pretended, name="Sim-7")
    order = BulkStopOrder(kind=Kind.CANCEL, reason="tried")

    told = await pretended.sweep(order, preview=True, queues=["default"])
    named = await pretended.sweep(order, waits, str(builders.job_id(7)), preview=True, names=["sim*"])

    assert told == {holder: "NOT_RETRIED", waits: "CANCELLED"}
    assert named == {waits: "CANCELLED", str(builders.job_id(7)): "NOT_FOUND"}
    assert ((await pretended.job(waits)).status, (await pretended.job(holder)).cancelled) == ("RUNNABLE", None)


# -------------------------------------------------------------------------------------------------- arrays and gangs


async def test_an_array_that_matches_is_stopped_as_one(world):
    array = await world.submit(LASTING, array_size=5, millicpus=2000, name="Sim")
    await world.then(CHILD(array, 1), Status.RUNNING)

    told = await world.terminate_all(names=["sim"])

    assert told == {array: "STOPPING"}
    await world.then(array, Status.FAILED, status_reason="stop it")
    assert (await world.then(CHILD(array, 4), Status.FAILED)).is_terminated


async def test_where_a_state_is_asked_for_those_children_stop_that_are_in_it(pretended):
    array = await pretended.submit(LASTING, array_size=5, millicpus=2000)
    await pretended.then(CHILD(array, 1), Status.RUNNING)

    told = await pretended.cancel_all(statuses=[Status.RUNNABLE])

    assert told == {CHILD(array, index): "CANCELLED" for index in (2, 3, 4)}
    assert (await pretended.job(CHILD(array, 0))).cancelled is None


async def test_children_that_are_yet_to_come_are_waited_for(pretended):
    array = await pretended.submit(LASTING, array_size=600, millicpus=4000)

    told = await pretended.terminate_all(statuses=[*Status])

    assert set(told) == {CHILD(array, index) for index in range(600)}
    await pretended.then(array, Status.FAILED)


async def test_a_child_that_is_yet_to_come_can_be_named(pretended):
    array = await pretended.submit(LASTING, array_size=600, millicpus=4000)

    assert await pretended.cancel_all(f"{array}.599") == {CHILD(array, 599): "CANCELLED"}
    await pretended.terminate(array)


async def test_an_environment_is_cleared_of_what_runs_there_children_too(pretended):
    await pretended.environment("big", max_millicpus=2000)
    await pretended.queue("there", environments=("big",))
    here = await pretended.submit(LASTING, millicpus=1000)
    array = await pretended.submit(LASTING, array_size=3, millicpus=1000, queue="there")
    await pretended.then(CHILD(array, 1), Status.RUNNING)
    await pretended.then(here, Status.RUNNING)

    told = await pretended.terminate_all(environments=["big"])

    assert told == {CHILD(array, 0): "STOPPING", CHILD(array, 1): "STOPPING"}
    await pretended.then(CHILD(array, 2), Status.RUNNING)
    assert (await pretended.job(here)).stop is None


async def test_a_node_is_stopped_by_itself(world):
    gang = await world.submit(
        nodes=builders.gang(2, each=builders.task(builders.task_container(command=("sleep", "60"))))
    )
    await world.then(gang, Status.RUNNING)

    told = await world.terminate_all(f"{gang}.1")

    assert told == {f"{gang}#1": "STOPPING"}
    assert (await world.job(gang)).stop is None


# -------------------------------------------------------------------------------------------------- whose jobs they are


async def test_nobody_stops_what_he_does_not_reach(pretended):
    mine, theirs = await of(pretended, "ann", "physics"), await of(pretended, "bob", "maths")
    pretended.caller = Caller(user="ann", account="physics")

    told = await pretended.terminate_all(mine, theirs)
    all_of = await pretended.terminate_all(users=["bob"])

    assert (told, all_of) == ({mine: "STOPPING", theirs: "NOT_FOUND"}, {})
    assert (await pretended.job(theirs)).stop is None
    pretended.caller = builders.ADMIN


async def test_an_account_stands_for_those_below_it(pretended):
    below, beside = await of(pretended, "ann", "optics"), await of(pretended, "bob", "maths")
    pretended.people = Directory(accounts={"optics": Account(name="optics", parent="physics")})
    pretended.caller = builders.ADMIN

    assert await pretended.terminate_all(accounts={"physics"}) == {below: "STOPPING"}
    assert (await pretended.job(beside)).stop is None


async def of(world, user, account):
    world.caller = replace(builders.ADMIN, user=user, account=account)
    job = await world.submit(LASTING)
    await world.then(job, Status.RUNNING)
    assert (await world.job(job)).spec.owner == Owner(user=user, account=account)
    return job


# --------------------------------------------------------------------------------- many at once, crashes and the disk


async def test_none_of_many_starts_once_it_is_decided_and_others_do(pretended):
    holder = await pretended.submit(LASTING, millicpus=4000)
    many = await pretended.submit_many(700, LASTING, name="sim")
    other = await pretended.submit(LASTING)
    await pretended.then(other, Status.RUNNABLE)

    told, _ = await asyncio.gather(pretended.cancel_all(names=["sim"]), pretended.terminate(holder))

    assert told == dict.fromkeys(many, "CANCELLED")
    await pretended.then(other, Status.RUNNING)
    assert {tag.job_id for tag, _ in pretended.runtime.all_calls} == {holder, other}


async def test_an_order_goes_on_where_it_was_when_the_server_is_gone(pretended):
    holder = await pretended.submit(LASTING, millicpus=4000)
    many = await pretended.submit_many(700, LASTING, name="sim")
    await pretended.then(many[-1], Status.RUNNABLE)
    asking = asyncio.create_task(pretended.cancel_all(names=["sim"], reason="for ever"))
    await pretended.then(many[-1], Status.FAILED)

    await pretended.restart()
    asking.cancel()
    await pretended.terminate(holder)

    await pretended.then(many[0], Status.FAILED, status_reason="for ever", attempts=())
    assert await pretended.store.sweeps() == ()


async def test_an_order_that_is_durable_stands_though_nobody_heard_so(pretended):
    _, waits = await queued(pretended)
    pretended.store.withholds_replies = True
    asking = asyncio.create_task(pretended.cancel_all(waits))
    await pretended.passes(1)

    await pretended.crash()
    pretended.store.withholds_replies = False
    await pretended.boot()
    asking.cancel()

    await pretended.then(waits, Status.FAILED, status_reason="not needed")


async def test_an_order_that_is_not_saved_is_refused_and_means_nobody(pretended):
    _, waits = await queued(pretended)
    pretended.store.failing = True

    with pytest.raises(StoreFailed):
        await pretended.cancel_all(waits)

    pretended.store.failing = False
    assert await pretended.store.sweeps() == ()
    assert (await pretended.job(waits)).status is Status.RUNNABLE


async def test_an_order_under_way_goes_on_when_the_disk_takes_writes_again(pretended):
    many = await pretended.submit_many(700, LASTING, name="sim", millicpus=4000)
    await pretended.then(many[-1], Status.RUNNABLE)
    asking = asyncio.create_task(pretended.cancel_all(names=["sim"]))
    await pretended.then(many[-1], Status.FAILED)
    pretended.store.failing = True
    await pretended.passes(5)

    pretended.store.failing = False
    told = await asking

    assert set(told) == set(many)
    assert set(told.values()) == {"CANCELLED", "NOT_RETRIED"}
