"""A busy day of accounts with limits: none exceeds its limit, and every job runs."""

from random import Random

import pytest

from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Caller, Directory, Role
from batchq.domain.job import ACTIVE, FINISHED, Status
from batchq.domain.scheduling.quotas import Quotas
from tests.support.scripts import Script
from tests.support.store_proxy import StatusChanges
from tests.support.world import simulated

VCPUS = {ROOT: 3.5, "lab": 2.0, "team": 1.0, "other": None}
ABOVE = {ROOT: None, "lab": ROOT, "team": "lab", "other": ROOT}
SIZES = [50, 250, 500, 1000]
JOBS = 80


def people(**changed):
    limits = {name: AccountLimits(vcpus=vcpus) for name, vcpus in (VCPUS | changed).items()}
    return Directory(accounts={it: Account(name=it, parent=ABOVE[it], limits=limits[it]) for it in ABOVE})


class Books:
    """What is in use by each account and all below it, after each change of a status."""

    def __init__(self, limited):
        self._limited = limited
        self._active = {}
        self.most = dict.fromkeys(limited.millicpus, 0)

    def record(self, _, status, job):
        if status in ACTIVE:
            self._active[job.id] = job
        else:
            self._active.pop(job.id, None)
        for name in self.most:
            self.most[name] = max(self.most[name], self._in_use(name))

    def over(self):
        """The accounts that ever had more than they may."""
        return {name for name, most in self._limited.millicpus.items() if self.most[name] > most}

    def _in_use(self, name):
        binding = self._limited.on_millicpus
        return sum(
            it.spec.resources.millicpus for it in self._active.values() if name in binding(it.spec.owner.account)
        )


@pytest.fixture
async def day():
    async with simulated() as world:
        world.people = people()
        await world.queue("urgent", priority=2)
        yield world


async def submit(world, chance):
    account = chance.choice([*ABOVE])
    world.caller = Caller(user="ada", account=account, role=Role.ADMIN)
    return await world.submit(
        Script(seconds=chance.choice([0.2, 1, 3])),
        queue=chance.choice(["default", "default", "urgent"]),
        millicpus=chance.choice(SIZES),
        limit=chance.choice([None, 60]),
        array_size=chance.choice([None, None, 3]),
    )


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(4))
async def test_no_account_exceeds_its_limit_and_every_job_runs(day, seed):
    limited, chance = Quotas(day.people), Random(seed)
    books = Books(limited)
    day.store.after_commit = StatusChanges(books.record)

    jobs = [await submit(day, chance) for _ in range(JOBS)]

    ends = [await day.wait_until(it, lambda job: job.status in FINISHED) for it in jobs]
    assert {it.status for it in ends} == {Status.SUCCEEDED}
    assert books.over() == set()
    assert min(books.most.values()) > 0


async def under(world, chance, **vcpus):
    """A few jobs while limits are so."""
    world.people = people(**vcpus)
    jobs = [await submit(world, chance) for _ in range(10)]
    await world.sleep(5)
    return jobs


async def test_every_job_runs_while_limits_change(day):
    chance = Random(99)

    days = [await under(day, chance, lab=lab) for lab in (2.0, 0.0, 1.0, 3.0)]
    jobs = [it for each in days for it in each]

    ends = [await day.wait_until(it, lambda job: job.status in FINISHED) for it in jobs]

    assert {it.status for it in ends} == {Status.SUCCEEDED}
