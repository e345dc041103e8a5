"""Which limits apply to which jobs, and as how many jobs a job counts."""

import pytest

from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Directory
from batchq.domain.job import ACTIVE, FINISHED, QUEUED, ArrayChild, ArrayState, Status
from batchq.domain.scheduling.quotas import Quotas, created_jobs, queued_jobs, quota_exceeded
from tests.support.builders import job, job_id

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

    assert [it.name for it in quotas.on(account)] == binding
    assert [it.name for it in quotas.on(account)] == binding


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

    assert quota_exceeded(lab, there=9, more=1) is None
    assert "Account lab may have 10 jobs that wait" in quota_exceeded(lab, there=10, more=1)
    assert "it has 3, and 8 more jobs cannot be taken" in quota_exceeded(lab, there=3, more=8)
    assert quota_exceeded(Account(name="lab"), there=10**6, more=10**6) is None
