"""Which limits apply to which jobs, and as how many jobs a job counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Directory, Owner
from batchq.domain.container import Resources
from batchq.domain.enums import ACTIVE, FINISHED, QUEUED, Status
from batchq.domain.job import ArrayChild, ArrayState
from batchq.domain.machines import one_machine
from batchq.domain.scheduling.capacity import Candidate, Cluster, Fits, FreeCapacity, Insufficient
from batchq.domain.scheduling.machine_rooms import MachineSet
from batchq.domain.scheduling.quotas import ClosedAccounts, Quotas, created_jobs, queued_jobs, quota_exceeded
from batchq.domain.scheduling.resources import Usage
from tests.support.builders import NOON, attempt, environment, job, job_id

FEW, SOME, MANY = AccountLimits(queued=1), AccountLimits(queued=2), AccountLimits(queued=3)


TREE = Directory(
    accounts={
        ROOT: Account(name=ROOT, parent=None, limits=MANY),
        "lab": Account(name="lab", limits=SOME),
        "team": Account(name="team", parent="lab"),
        "crew": Account(name="crew", parent="team", limits=FEW),
    }
)


@pytest.mark.parametrize(
    ("account", "binding"),
    [
        ("crew", ["crew", "lab", ROOT]),
        ("team", ["lab", ROOT]),
        ("lab", ["lab", ROOT]),
        (ROOT, [ROOT]),
        ("gone", [ROOT]),
    ],
)
def test_the_limits_of_an_account_and_its_parents_apply(account, binding):
    quotas = Quotas(TREE)

    assert [item.name for item in quotas.on(account)] == binding
    assert [item.name for item in quotas.on(account)] == binding


def test_without_limits_none_applies():
    assert Quotas(Directory(accounts={"lab": Account(name="lab")})).on("lab") == ()


@pytest.mark.parametrize("status", Status)
def test_a_job_counts_until_it_starts(status):
    assert queued_jobs(job(status=status)) == (status in QUEUED)
    assert status in QUEUED | ACTIVE | FINISHED


@pytest.mark.parametrize(
    ("array", "count"),
    [
        ({}, 5),
        ({"status": Status.PENDING}, 5),
        ({"status": Status.PENDING, "array_state": ArrayState(spawned=2)}, 3),
        ({"status": Status.PENDING, "array_state": ArrayState(spawned=5)}, 0),
        ({"status": Status.FAILED}, 0),
        ({"status": Status.FAILED, "array_state": ArrayState(spawned=3)}, 0),
    ],
)
def test_an_array_counts_as_its_unspawned_children(array, count):
    assert queued_jobs(job(array_size=5, **array)) == count


def test_a_child_counts_as_one_job():
    child = job(array_size=5, child=ArrayChild(parent=job_id(1), index=0), status=Status.RUNNABLE)

    assert queued_jobs(child) == 1
    assert [created_jobs(None), created_jobs(5)] == [1, 5]


def test_exactly_the_limit_may_be_queued():
    lab = Account(name="lab", limits=AccountLimits(queued=10))

    assert quota_exceeded(lab, queued=9, more=1) is None
    assert "Account lab and the accounts below it may have 10 queued jobs" in quota_exceeded(lab, queued=10, more=1)
    assert "they have 3, and 8 more jobs cannot be accepted" in quota_exceeded(lab, queued=3, more=8)
    assert quota_exceeded(Account(name="lab"), queued=10**6, more=10**6) is None


HOST = Resources(millicpus=100_000, memory_mib=1000)
ABOVE = {ROOT: None, "lab": ROOT, "team": "lab", "crew": "team", "other": ROOT}
LOCAL = ["local"]
accounts = some.sampled_from([*ABOVE, "gone"])
sizes = some.integers(0, 6000)
limits = some.none() | some.integers(0, 9).map(float)
trees = some.fixed_dictionaries(dict.fromkeys(ABOVE, limits))
jobs = some.lists(some.tuples(accounts, sizes), max_size=12)


def quotas(vcpus):
    return Quotas(
        Directory(
            accounts={
                name: Account(name=name, parent=above, limits=AccountLimits(vcpus=vcpus[name]))
                for name, above in ABOVE.items()
            }
        )
    )


def room(limited, active=(), *, at_once=100_000):
    local = environment(max_millicpus=at_once)
    site = Cluster(
        environments={"local": local},
        machines=MachineSet(one_machine(HOST), [local]),
        stocks={},
        quotas=limited,
    )
    return FreeCapacity(cluster=site, usage=Usage(under_way(*job) for job in active).after(()), now=NOON)


def under_way(account, millicpus):
    owner = Owner(account=account)
    return job(status=Status.RUNNING, attempt=attempt(), millicpus=millicpus, memory_mib=1, owner=owner)


def offered(number, account, millicpus):
    size = Resources(millicpus=millicpus, memory_mib=1)
    return Candidate(job_id=job_id(number), sequence=number, resources=size, account=account)


def in_use(limited, held):
    """The usage of each account with a limit, with the accounts below it."""
    return {
        name: sum(millicpus for account, millicpus in held if name in {item.name for item in limited.on(account)})
        for name in limited.millicpus
    }


@given(trees, jobs, jobs)
def test_no_account_exceeds_its_limit(vcpus, active, wanting):
    limited = quotas(vcpus)
    its, before = room(limited, active), in_use(limited, active)

    placed = [
        demand
        for number, demand in enumerate(wanting)
        if isinstance(its.place_or_reserve(offered(number, *demand), LOCAL), Fits)
    ]

    after = in_use(limited, [*active, *placed])
    over = {name for name, most in limited.millicpus.items() if after[name] > max(most, before[name])}
    assert over == set()


@given(trees, jobs, jobs)
def test_a_job_of_an_account_below_its_limit_does_not_wait_for_it(vcpus, active, wanting):
    limited = quotas(vcpus)
    its = room(limited, active)

    outcomes = [
        (its.at_limit(one, LOCAL), its.place_or_reserve(one, LOCAL))
        for one in (offered(n, *demand) for n, demand in enumerate(wanting))
    ]

    assert [(at, outcome) for at, outcome in outcomes if isinstance(outcome, Insufficient) and at is None] == []


@given(trees, some.sampled_from([*ABOVE]))
def test_closing_an_account_closes_the_accounts_below_it(vcpus, closes):
    closed = ClosedAccounts(quotas(vcpus))

    closed.close(closes)

    lineages = {name: {above.name for above in closed._quotas.directory.lineage(name)} for name in [*ABOVE, "gone"]}
    assert {name for name in lineages if closed.has(name)} == {
        name for name, lineage in lineages.items() if closes in lineage
    }
