"""vCPUs in use: whose account is at its limit waits, and holds up nobody else."""

from datetime import timedelta

import pytest

from batchq.domain import status_reasons
from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Directory, Owner
from batchq.domain.catalog import State
from batchq.domain.scheduling.quotas import Quotas
from batchq.engine.scheduling.queue_reader import FIRST_PAGE, PAGE
from tests.domain.lives import runnable, running
from tests.engine.turns import fill, filled, ground, placed_in, stored, turn_over
from tests.support.builders import environment, policy, queue, resources

LAB, TEAM, OTHER = (Owner(user="ada", account=it) for it in ("lab", "team", "other"))
ABOVE = {"lab": ROOT, "team": "lab", "other": ROOT, ROOT: None}
WIDE = [environment(max_millicpus=64_000)]


def quotas(**vcpus):
    limits = {it: AccountLimits(vcpus=vcpus.get(it)) for it in ABOVE}
    return Quotas(Directory(accounts={it: Account(name=it, parent=ABOVE[it], limits=limits[it]) for it in ABOVE}))


def wide(*queues):
    return ground(*queues, environments=WIDE)


async def test_an_account_uses_at_most_its_limit():
    jobs = [runnable(owner=LAB, millicpus=2000) for _ in range(4)]
    store = await stored(running(owner=LAB, millicpus=500), *jobs)

    unit = await filled(store, wide(), quotas=quotas(lab=4.5))

    assert placed_in(unit, *jobs) == ["local", "local", None, None]


async def test_jobs_of_other_accounts_start_behind_a_job_of_a_limited_account():
    many = [runnable(owner=LAB, millicpus=1000) for _ in range(2 * PAGE + FIRST_PAGE)]
    other, below, nobodys = runnable(owner=OTHER), runnable(owner=TEAM), runnable()
    store = await stored(*many, other, below, nobodys)

    unit = await filled(store, wide(), quotas=quotas(lab=1))

    assert placed_in(unit, *many).count("local") == 1
    assert placed_in(unit, other, below, nobodys) == ["local", None, "local"]


async def test_the_first_limited_job_shows_the_reason_and_later_jobs_do_not_pass_it():
    runs = running(owner=LAB, millicpus=1000)
    first, small, below = (
        runnable(owner=LAB, millicpus=2000),
        runnable(owner=LAB, millicpus=10),
        runnable(owner=TEAM, millicpus=10),
    )
    store = await stored(runs, first, small, below)
    unit = turn_over(runs)

    told = await fill(unit, store, wide(), quotas=quotas(lab=2))

    assert placed_in(unit, first, small, below) == [None, None, None]
    (head,) = told.heads.values()
    assert (head.job_id, head.reason) == (first.id, status_reasons.at_limit("lab"))
    assert status_reasons.code(head.reason) == "ACCOUNT_LIMIT:VCPUS"


@pytest.mark.parametrize("dead", [environment("dead", state=State.DISABLED), environment("dead", max_millicpus=1000)])
async def test_a_job_that_cannot_start_does_not_close_its_account(dead):
    never = runnable(owner=LAB, millicpus=2000, queue="nowhere")
    mate, below = runnable(owner=LAB, millicpus=500), runnable(owner=TEAM, millicpus=500)
    store = await stored(running(owner=OTHER, millicpus=2000), never, mate, below)
    there = ground(queue("nowhere", environments=["dead"]), queue(), environments=[*WIDE, dead])

    unit = await filled(store, there, quotas=quotas(lab=2, root=3))

    assert placed_in(unit, never, mate, below) == [None, "local", "local"]


async def test_the_limits_of_all_parent_accounts_apply():
    below, own, other = (runnable(owner=it, millicpus=1000) for it in (TEAM, LAB, OTHER))
    store = await stored(running(owner=TEAM, millicpus=1000), below, own, other)

    unit = await filled(store, wide(), quotas=quotas(team=1, lab=2, root=64))

    assert placed_in(unit, below, own, other) == [None, "local", "local"]


async def test_no_job_starts_when_the_root_account_is_at_its_limit():
    runs, jobs = running(owner=OTHER), [runnable(owner=it) for it in (LAB, OTHER, Owner(user="x", account="gone"))]
    store = await stored(runs, *jobs)
    unit = turn_over(runs)

    told = await fill(unit, store, wide(), quotas=quotas(root=1))

    assert placed_in(unit, *jobs) == [None, None, None]
    assert [it.job_id for it in told.heads.values()] == [jobs[0].id]


async def test_no_capacity_is_reserved_for_a_job_of_an_account_at_its_limit():
    runs = running(owner=LAB, millicpus=2000)
    waits, other = runnable(owner=LAB, millicpus=1000), runnable(owner=OTHER, millicpus=2000)
    store = await stored(runs, waits, other)

    unit = await filled(store, ground(), quotas=quotas(lab=2))

    assert placed_in(unit, waits, other) == [None, "local"]


async def test_a_limit_reserved_for_a_head_is_not_used_by_other_jobs_of_its_account():
    runs = running(owner=OTHER, millicpus=3000)
    head, small = runnable(owner=LAB, millicpus=2000), runnable(owner=LAB, millicpus=500)
    store = await stored(runs, head, small)

    unit = await filled(store, ground(), quotas=quotas(lab=2))

    assert placed_in(unit, head, small) == [None, None]


@pytest.mark.fault("CO06")
async def test_backfill_does_not_bring_the_account_of_a_head_to_its_limit():
    hour = timedelta(hours=1)
    runs = running(owner=OTHER, memory_mib=500, timeout=hour)
    head, short, long = (
        runnable(owner=LAB, memory_mib=600, millicpus=500),
        runnable(owner=LAB, memory_mib=10, millicpus=600, timeout=hour / 2),
        runnable(owner=OTHER, memory_mib=350, millicpus=500),
    )
    of_others = runnable(owner=OTHER, memory_mib=10, millicpus=600, timeout=hour / 2)
    store = await stored(runs, head, short, of_others, long)
    unit = turn_over(runs)

    told = await fill(unit, store, wide(), resources(millicpus=64_000, memory_mib=1000), quotas=quotas(lab=1))

    assert placed_in(unit, head, short, of_others, long) == [None, None, "local", None]
    assert told.heads["default"].job_id == head.id


async def test_the_highest_account_at_its_limit_is_named_and_its_jobs_wait_as_one():
    runs = running(owner=TEAM, millicpus=1000)
    below, own = runnable(owner=TEAM), runnable(owner=LAB)
    store = await stored(runs, below, own)
    unit = turn_over(runs)

    told = await fill(unit, store, wide(), quotas=quotas(team=1, lab=1))

    assert [(it.job_id, it.reason) for it in told.heads.values()] == [(below.id, status_reasons.at_limit("lab"))]


async def test_a_lowered_limit_ends_no_job_and_starts_none():
    runs, waits = running(owner=LAB, millicpus=3000), runnable(owner=LAB, millicpus=1)
    store = await stored(runs, waits)

    unit = await filled(store, wide(), quotas=quotas(lab=1))

    assert placed_in(unit, runs, waits) == ["local", None]


async def test_a_job_above_the_limit_is_unschedulable_and_blocks_no_job_of_its_account():
    large, small = runnable(owner=TEAM, millicpus=3000), runnable(owner=LAB, millicpus=1000)
    store = await stored(large, small)

    unit = await filled(store, wide(), quotas=quotas(lab=2))

    assert placed_in(unit, large, small) == [None, "local"]
    assert unit.get(large.id).unschedulable
    assert unit.get(large.id).status_reason == status_reasons.beyond_limit("lab", 3000, 2000)


async def test_a_limit_applies_to_all_queues_together():
    first, second = (runnable(owner=LAB, queue=it, millicpus=1500) for it in ("default", "other"))
    store = await stored(first, second)

    unit = await filled(store, wide(queue(), queue("other", priority=9)), quotas=quotas(lab=2))

    assert placed_in(unit, first, second) == [None, "local"]


@pytest.mark.parametrize("share", ["red", "blue"])
async def test_fair_share_order_passes_over_jobs_of_a_limited_account(share):
    fair = {"share_identifier": "red", "scheduling_priority": 1}
    many = [runnable(owner=LAB, millicpus=1000, **fair) for _ in range(PAGE + FIRST_PAGE)]
    others = [runnable(owner=OTHER, millicpus=1000, **fair | {"share_identifier": share}) for _ in range(2)]
    store = await stored(*many, *others)
    on_ground = ground(queue(policy="fair"), environments=WIDE, policies=[policy()])

    unit = await filled(store, on_ground, quotas=quotas(lab=1))

    assert placed_in(unit, *others) == ["local", "local"]
    assert placed_in(unit, *many).count("local") == 1


async def test_without_limits_accounts_make_no_difference():
    jobs = [runnable(owner=it, millicpus=1000) for it in (LAB, TEAM, OTHER)]
    store = await stored(*jobs)

    unit = await filled(store, wide(), quotas=quotas())

    assert placed_in(unit, *jobs) == ["local"] * 3
