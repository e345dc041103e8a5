"""Limits of accounts: jobs of an account at its limit wait, show the reason, and delay no other job."""

from random import Random

import pytest
from msgspec.structs import replace

from batchq.domain import status_reasons
from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Caller, Directory, User
from batchq.domain.catalog import Network
from batchq.domain.enums import ACTIVE, FINISHED, Role, Status
from batchq.domain.scheduling.quotas import Quotas
from batchq.errors import Invalid
from tests.support.proxies import StatusChanges
from tests.support.scripts import FOR_EVER, Script
from tests.support.world import simulated

NETWORK = Network.BRIDGE  # which each account may have, and the host's not


LONG = Script(seconds=FOR_EVER, on_term=1, output=("ready",))


AT_LIMIT = status_reasons.at_limit("lab")


@pytest.fixture
async def callers(world):
    """Ada of the lab, which may use one vCPU and have two jobs wait; Bob of another account."""
    users = {name: User(name=name, account=of) for name, of in (("ada", "lab"), ("bob", "other"))}
    world.people = replace(world.people, users=world.people.users | users, accounts={"other": Account(name="other")})
    limit(world, vcpus=1.0, queued=2)
    return [Caller(user=user.name, account=user.account) for user in users.values()]


def limit(world, **limits):
    lab = Account(name="lab", limits=AccountLimits(**limits))
    world.people = replace(world.people, accounts=world.people.accounts | {"lab": lab})


async def submit(world, caller, script, **fields):
    world.caller = caller
    return await world.submit(script, **fields)


async def test_jobs_of_an_account_at_its_limit_wait_and_others_start(world, callers):
    ada, bob = callers
    first = await submit(world, ada, LONG, millicpus=750)
    waits = await submit(world, ada, Script(), millicpus=500)
    small = await submit(world, ada, Script(), millicpus=250)
    other = await submit(world, bob, Script(), millicpus=500)

    await world.wait_for(other, Status.SUCCEEDED)
    await world.wait_for(waits, Status.RUNNABLE, status_reason=AT_LIMIT, unschedulable=False)
    await world.wait_for(small, Status.RUNNABLE, status_reason=None)
    await submit_no_more(world, ada)

    world.caller = ada
    await world.terminate(first)
    await world.wait_for(waits, Status.SUCCEEDED)
    await world.wait_for(small, Status.SUCCEEDED)


async def submit_no_more(world, caller):
    with pytest.raises(Invalid, match="Account lab and the accounts below it may have 2 queued jobs"):
        await submit(world, caller, Script())


async def test_a_raised_limit_lets_waiting_jobs_start(world, callers):
    ada, _ = callers
    first = await submit(world, ada, LONG, millicpus=1000)
    second = await submit(world, ada, LONG, millicpus=1000)
    large = await submit(world, ada, Script(), millicpus=1500)
    await world.wait_until(second, lambda job: job.status_reason == AT_LIMIT)

    limit(world, vcpus=3.5)

    await world.wait_for_output(second, "ready")
    await world.wait_for(large, Status.SUCCEEDED)
    await world.wait_for(first, Status.RUNNING)


async def test_a_job_above_the_limit_shows_the_reason_until_the_limit_is_raised(world, callers):
    ada, _ = callers
    large = await submit(world, ada, Script(), millicpus=2000)
    small = await submit(world, ada, Script(), millicpus=1000)
    await world.wait_for(small, Status.SUCCEEDED)
    await world.wait_for(
        large, Status.RUNNABLE, status_reason=status_reasons.beyond_limit("lab", 2000, 1000), unschedulable=True
    )

    limit(world, vcpus=2.0)

    await world.wait_for(large, Status.SUCCEEDED)


async def test_limits_hold_after_a_restart(world, callers):
    ada, _ = callers
    first = await submit(world, ada, LONG, millicpus=1000)
    await world.wait_for_output(first, "ready")
    waiting = [await submit(world, ada, Script(), millicpus=1000) for _ in range(2)]

    await world.restart()

    await submit_no_more(world, ada)
    await world.wait_for(waiting[0], Status.RUNNABLE)
    await world.terminate(first)
    await world.wait_for(waiting[1], Status.SUCCEEDED)


async def test_limits_apply_to_children_of_an_array(world, callers):
    ada, _ = callers

    array = await submit(world, ada, Script(seconds=0.1), array_size=2, millicpus=600)

    await world.wait_for(array, Status.SUCCEEDED)
    limit(world, queued=1)
    with pytest.raises(Invalid, match="they have 0, and 2 more jobs cannot be accepted"):
        await submit(world, ada, Script(), array_size=2)


VCPUS = {ROOT: 3.5, "lab": 2.0, "team": 1.0, "other": None}


ABOVE = {ROOT: None, "lab": ROOT, "team": "lab", "other": ROOT}


SIZES = [50, 250, 500, 1000]


JOBS = 80


def people(**changed):
    limits = {name: AccountLimits(vcpus=vcpus) for name, vcpus in (VCPUS | changed).items()}
    return Directory(accounts={name: Account(name=name, parent=ABOVE[name], limits=limits[name]) for name in ABOVE})


class Books:
    """The usage of each account with the accounts below it, after each change of a status."""

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
            job.spec.resources.millicpus for job in self._active.values() if name in binding(job.spec.owner.account)
        )


@pytest.fixture
async def day():
    async with simulated() as world:
        world.people = people()
        await world.queue("urgent", priority=2)
        yield world


async def submit_random(world, chance):
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

    jobs = [await submit_random(day, chance) for _ in range(JOBS)]

    ends = [await day.wait_until(other_job, lambda job: job.status in FINISHED) for other_job in jobs]
    assert {end.status for end in ends} == {Status.SUCCEEDED}
    assert books.over() == set()
    assert min(books.most.values()) > 0


async def under(world, chance, **vcpus):
    """A few jobs while limits are so."""
    world.people = people(**vcpus)
    jobs = [await submit_random(world, chance) for _ in range(10)]
    await world.sleep(5)
    return jobs


async def test_every_job_runs_while_limits_change(day):
    chance = Random(99)

    days = [await under(day, chance, lab=lab) for lab in (2.0, 0.0, 1.0, 3.0)]
    jobs = [element for each in days for element in each]

    ends = [await day.wait_until(other_job, lambda job: job.status in FINISHED) for other_job in jobs]

    assert {end.status for end in ends} == {Status.SUCCEEDED}
