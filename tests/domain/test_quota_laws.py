"""For every sequence of jobs: no account, with those below it, ever has more vCPUs in use than its limit."""

from hypothesis import given
from hypothesis import strategies as some

from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Directory, Owner
from batchq.domain.container import Resources
from batchq.domain.job import Status
from batchq.domain.scheduling.capacity import Candidate, Cluster, Fits, FreeCapacity, Insufficient
from batchq.domain.scheduling.quotas import ClosedAccounts, Quotas
from batchq.domain.scheduling.resources import Usage
from tests.support.builders import NOON, attempt, environment, job, job_id

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
    site = Cluster(environments={"local": environment(max_millicpus=at_once)}, host=HOST, stocks={}, quotas=limited)
    return FreeCapacity(site=site, held=Usage(under_way(*it) for it in active).after(()), now=NOON)


def under_way(account, millicpus):
    owner = Owner(account=account)
    return job(status=Status.RUNNING, attempt=attempt(), millicpus=millicpus, memory_mib=1, owner=owner)


def offered(number, account, millicpus):
    size = Resources(millicpus=millicpus, memory_mib=1)
    return Candidate(job_id=job_id(number), order=number, resources=size, account=account)


def in_use(limited, held):
    """By each account that has a limit, and all below it."""
    return {
        name: sum(millicpus for account, millicpus in held if name in {it.name for it in limited.on(account)})
        for name in limited.millicpus
    }


@given(trees, jobs, jobs)
def test_no_account_exceeds_its_limit(vcpus, active, wanting):
    limited = quotas(vcpus)
    its, before = room(limited, active), in_use(limited, active)

    placed = [
        it for number, it in enumerate(wanting) if isinstance(its.place_or_reserve(offered(number, *it), LOCAL), Fits)
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
        for one in (offered(n, *it) for n, it in enumerate(wanting))
    ]

    assert [(at, it) for at, it in outcomes if isinstance(it, Insufficient) and at is None] == []


@given(trees, some.sampled_from([*ABOVE]))
def test_closing_an_account_closes_the_accounts_below_it(vcpus, closes):
    closed = ClosedAccounts(quotas(vcpus))

    closed.close(closes)

    lineages = {name: {above.name for above in closed._quotas.people.lineage(name)} for name in [*ABOVE, "gone"]}
    assert {name for name in lineages if closed.has(name)} == {name for name, it in lineages.items() if closes in it}
