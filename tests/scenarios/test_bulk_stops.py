"""Bulk stops, by ids and filters. aws-batch.md 5.1, 5.5 and 5.6 have the rule for each job."""

import asyncio
from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Account, Caller, Directory, Owner
from batchq.domain.enums import Status, StopKind
from batchq.domain.stop_request import StopRequest
from batchq.errors import StoreFailed
from tests.support import builders
from tests.support import world as worlds
from tests.support.scripts import LASTING, Script

IGNORES_SIGTERM = Script(seconds=None)
CHILD = "{}:{}".format


# ----------------------------------------------------------------------------------------------- what becomes of each


async def test_a_bulk_cancel_ends_queued_jobs_and_prevents_retries_of_active_ones(world):
    holder, waits = await world.submit_behind()
    pending = await world.submit(after=[waits])
    await world.wait_for(pending, Status.PENDING)

    outcomes = await world.cancel_all(reason="enough", queues=["default"])

    assert outcomes == {holder: "NOT_RETRIED", waits: "CANCELLED", pending: "CANCELLED"}
    for job in (waits, pending):
        await world.wait_for(job, Status.FAILED, status_reason="enough", attempts=(), is_cancelled=True)
    assert (await world.job(holder)).status is Status.RUNNING


async def test_a_bulk_terminate_ends_queued_and_active_jobs(world):
    holder, waits = await world.submit_behind()

    outcomes = await world.terminate_all(reason="enough", queues=["default"])

    assert outcomes == {holder: "STOPPING", waits: "TERMINATED"}
    for job in (waits, holder):
        await world.wait_for(job, Status.FAILED, status_reason="enough", is_terminated=True)
    assert await world.engine_calls(holder) == ["create", "start", "stop", "remove"]


async def test_a_bulk_terminate_has_its_own_signal(world):
    running = await world.start(IGNORES_SIGTERM)

    order = StopRequest(kind=StopKind.TERMINATE, reason="at once", signal="SIGKILL", grace=timedelta(minutes=1))
    await world.stop_many(order, running)

    await world.wait_for(running, Status.FAILED, status_reason="at once", exit_codes=[137])
    assert await world.engine_calls(running) == ["create", "start", "stop", "remove"]


async def test_the_grace_period_of_a_bulk_terminate_survives_a_restart(simulated):
    stubborn = await simulated.start(IGNORES_SIGTERM)

    order = StopRequest(kind=StopKind.TERMINATE, reason="soon", grace=5 * worlds.GRACE, signal="SIGINT")
    await simulated.stop_many(order, stubborn)
    await simulated.restart()

    over = await simulated.wait_for(stubborn, Status.FAILED, status_reason="soon")
    assert [step.signal for step in over.stop.steps] == ["SIGINT"]
    assert over.stop.killed_at - over.stop.ordered_at >= 5 * worlds.GRACE


async def test_an_id_that_cannot_be_stopped_has_a_reason_and_affects_no_other(simulated):
    over, waits = await simulated.submit(), await simulated.submit(LASTING)
    unknown = str(builders.job_id(7))
    await simulated.wait_for(over, Status.SUCCEEDED)

    outcomes = await simulated.terminate_all(over, unknown, waits, f"{waits}:0", f"{waits}#1", statuses=[*Status])

    assert {outcomes.pop(job_id) for job_id in (unknown, f"{waits}:0", f"{waits}#1")} == {"NOT_FOUND"}
    assert (outcomes.pop(over), len(outcomes)) == ("ALREADY_FINISHED", 1)
    await simulated.wait_for(waits, Status.FAILED)


async def test_a_named_job_that_another_filter_excludes_is_unchanged(simulated):
    holder, waits = await simulated.submit_behind()

    outcomes = await simulated.terminate_all(holder, waits, statuses=[Status.RUNNABLE])

    assert outcomes == {holder: "NOT_MATCHED", waits: "TERMINATED"}
    assert (await simulated.job(holder)).stop is None


async def test_a_bulk_stop_without_a_match_changes_nothing(simulated):
    job = await simulated.submit(LASTING)

    assert await simulated.cancel_all(names=["unknown*"]) == {}
    assert (await simulated.wait_for(job, Status.RUNNING)).stop_orders == ()


async def test_a_preview_and_an_order_count_the_unfinished_children_of_arrays(simulated):
    array = await simulated.submit(LASTING, array_size=30)
    waits = await simulated.submit(after=[array], array_size=4)
    await simulated.finish(f"{array}:0", Status.SUCCEEDED)
    order = StopRequest(kind=StopKind.TERMINATE, reason="enough")

    previewed = await simulated.outcomes(order, array, waits, f"{array}:3", preview=True)
    stopped = await simulated.outcomes(order, array, waits)

    assert {job.job_id: job.children for job in previewed if job.children} == {array: 29, waits: 4}
    assert {job.job_id: job.children for job in stopped if job.children} == {array: 29, waits: 4}


async def test_a_preview_has_the_outcomes_and_changes_nothing(simulated):
    holder, waits = await simulated.submit_behind(name="Sim-7")
    order = StopRequest(kind=StopKind.CANCEL, reason="tried")

    outcomes = await simulated.stop_many(order, preview=True, queues=["default"])
    named = await simulated.stop_many(order, waits, str(builders.job_id(7)), preview=True, names=["sim*"])

    assert outcomes == {holder: "NOT_RETRIED", waits: "CANCELLED"}
    assert named == {waits: "CANCELLED", str(builders.job_id(7)): "NOT_FOUND"}
    assert ((await simulated.job(waits)).status, (await simulated.job(holder)).stop_orders) == ("RUNNABLE", ())


# -------------------------------------------------------------------------------------------------- arrays and gangs


async def test_a_matching_array_is_stopped_as_a_whole(world):
    array = await world.submit(LASTING, array_size=5, millicpus=2000, name="Sim")
    await world.wait_for(CHILD(array, 1), Status.RUNNING)

    outcomes = await world.terminate_all(names=["sim"])

    assert outcomes == {array: "STOPPING"}
    await world.wait_for(array, Status.FAILED, status_reason="stop it")
    assert (await world.wait_for(CHILD(array, 4), Status.FAILED)).is_terminated


async def test_a_filter_on_statuses_stops_the_children_that_have_them(simulated):
    array = await simulated.submit(LASTING, array_size=5, millicpus=2000)
    await simulated.wait_for(CHILD(array, 1), Status.RUNNING)

    outcomes = await simulated.cancel_all(statuses=[Status.RUNNABLE])

    assert outcomes == {CHILD(array, index): "CANCELLED" for index in (2, 3, 4)}
    assert (await simulated.job(CHILD(array, 0))).stop_orders == ()


async def test_a_bulk_stop_includes_children_that_are_not_spawned_yet(simulated):
    array = await simulated.submit(LASTING, array_size=600, millicpus=4000)

    outcomes = await simulated.terminate_all(children=True)

    assert set(outcomes) == {CHILD(array, index) for index in range(600)}
    await simulated.wait_for(array, Status.FAILED)


async def test_a_child_that_is_not_spawned_yet_can_be_named(simulated):
    array = await simulated.submit(LASTING, array_size=600, millicpus=4000)

    assert await simulated.cancel_all(f"{array}.599") == {CHILD(array, 599): "CANCELLED"}


async def test_a_filter_on_an_environment_stops_all_its_jobs_and_children(simulated):
    await simulated.environment("big", max_millicpus=2000)
    await simulated.queue("there", environments=("big",))
    here = await simulated.submit(LASTING, millicpus=1000)
    array = await simulated.submit(LASTING, array_size=3, millicpus=1000, queue="there")
    await simulated.wait_for(CHILD(array, 1), Status.RUNNING)
    await simulated.wait_for(here, Status.RUNNING)

    outcomes = await simulated.terminate_all(environments=["big"])

    assert outcomes == {CHILD(array, 0): "STOPPING", CHILD(array, 1): "STOPPING"}
    await simulated.wait_for(CHILD(array, 2), Status.RUNNING)
    assert (await simulated.job(here)).stop is None


async def test_a_node_is_stopped_alone(world):
    gang = await world.submit(
        nodes=builders.gang(2, each=builders.task(builders.task_container(command=("sleep", "60"))))
    )
    await world.wait_for(gang, Status.RUNNING)

    outcomes = await world.terminate_all(f"{gang}.1")

    assert outcomes == {f"{gang}#1": "STOPPING"}
    assert (await world.job(gang)).stop is None


# -------------------------------------------------------------------------------------------------- whose jobs they are


async def test_no_user_stops_jobs_outside_their_reach(simulated):
    mine, theirs = await of(simulated, "ann", "physics"), await of(simulated, "bob", "maths")
    simulated.caller = Caller(user="ann", account="physics")

    outcomes = await simulated.terminate_all(mine, theirs)
    all_of = await simulated.terminate_all(users=["bob"])

    assert (outcomes, all_of) == ({mine: "STOPPING", theirs: "NOT_FOUND"}, {})
    assert (await simulated.job(theirs)).stop is None


async def test_a_filter_on_an_account_includes_the_accounts_below_it(simulated):
    below, beside = await of(simulated, "ann", "optics"), await of(simulated, "bob", "maths")
    simulated.people = Directory(accounts={"optics": Account(name="optics", parent="physics")})
    simulated.caller = builders.ADMIN

    assert await simulated.terminate_all(accounts={"physics"}) == {below: "STOPPING"}
    assert (await simulated.job(beside)).stop is None


async def of(world, user, account):
    world.caller = replace(builders.ADMIN, user=user, account=account)
    job = await world.start()
    assert (await world.job(job)).spec.owner == Owner(user=user, account=account)
    return job


# --------------------------------------------------------------------------------- many at once, crashes and the disk


async def test_no_selected_job_starts_after_the_order_and_others_do(simulated):
    holder = await simulated.submit(LASTING, millicpus=4000)
    many = await simulated.submit_many(700, LASTING, name="sim")
    other = await simulated.submit(LASTING)
    await simulated.wait_for(other, Status.RUNNABLE)

    outcomes, _ = await asyncio.gather(simulated.cancel_all(names=["sim"]), simulated.terminate(holder))

    assert outcomes == dict.fromkeys(many, "CANCELLED")
    await simulated.wait_for(other, Status.RUNNING)
    assert {tag.job_id for tag, _ in simulated.runtime.all_calls} == {holder, other}


async def test_a_durable_bulk_stop_stands_without_an_answer(simulated):
    _, waits = await simulated.submit_behind()
    await simulated.crash_in_commit(simulated.cancel_all(waits))

    await simulated.boot()

    await simulated.wait_for(waits, Status.FAILED, status_reason="not needed")


async def test_a_bulk_stop_that_is_not_saved_is_refused_and_stops_no_job(simulated):
    _, waits = await simulated.submit_behind()
    simulated.store.failing = True

    with pytest.raises(StoreFailed):
        await simulated.cancel_all(waits)

    simulated.store.failing = False
    assert await simulated.store.bulk_stops() == ()
    assert (await simulated.job(waits)).status is Status.RUNNABLE


async def test_a_bulk_stop_continues_when_the_disk_accepts_writes_again(simulated):
    many = await simulated.submit_many(700, LASTING, name="sim", millicpus=4000)
    await simulated.wait_for(many[-1], Status.RUNNABLE)
    request = asyncio.create_task(simulated.cancel_all(names=["sim"]))
    await simulated.wait_for(many[-1], Status.FAILED)
    simulated.store.failing = True
    await simulated.sleep(5)

    simulated.store.failing = False
    outcomes = await request

    assert set(outcomes) == set(many)
    assert set(outcomes.values()) == {"CANCELLED", "NOT_RETRIED"}
