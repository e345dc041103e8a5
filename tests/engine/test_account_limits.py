"""vCPUs in use: a job whose account is at its limit waits, and delays no job of other accounts."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain import status_reasons
from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Directory, Owner, User
from batchq.domain.enums import Role, State, Status
from batchq.domain.job import Dependency
from batchq.domain.scheduling.quotas import Quotas
from batchq.engine.account_limits import AccountPolicies
from batchq.engine.scheduling.queue_reader import FIRST_PAGE, PAGE
from batchq.errors import Invalid, Unavailable
from tests.domain.lives import exited, pending, runnable, running
from tests.engine.harness import (
    SURVEYED,
    after_placement,
    catalog_of,
    environments_of,
    event_message,
    harness_with,
    new_unit,
    request,
    run_placement,
    stored,
    submit,
)
from tests.support.builders import (
    container,
    environment,
    job_id,
    policy,
    queue,
    resources,
    spec,
    submission,
)

LAB, TEAM, OTHER = (Owner(user="ada", account=name) for name in ("lab", "team", "other"))
ABOVE = {"lab": ROOT, "team": "lab", "other": ROOT, ROOT: None}
WIDE = [environment(max_millicpus=64_000)]


def quotas(**vcpus):
    limits = {name: AccountLimits(vcpus=vcpus.get(name)) for name in ABOVE}
    return Quotas(
        Directory(accounts={name: Account(name=name, parent=ABOVE[name], limits=limits[name]) for name in ABOVE})
    )


def wide(*queues):
    return catalog_of(*queues, environments=WIDE)


async def test_the_first_limited_job_shows_the_reason_and_later_jobs_do_not_pass_it():
    runs = running(owner=LAB, millicpus=1000)
    first, small, below = (
        runnable(owner=LAB, millicpus=2000),
        runnable(owner=LAB, millicpus=10),
        runnable(owner=TEAM, millicpus=10),
    )
    store = await stored(runs, first, small, below)
    unit = new_unit(runs)

    outcome = await run_placement(unit, store, wide(), quotas=quotas(lab=2))

    assert environments_of(unit, first, small, below) == [None, None, None]
    (head,) = outcome.heads.values()
    assert (head.job_id, head.reason) == (first.id, status_reasons.at_limit("lab"))
    assert status_reasons.code(head.reason) == "ACCOUNT_LIMIT:VCPUS"


@pytest.mark.parametrize("dead", [environment("dead", state=State.DISABLED), environment("dead", max_millicpus=1000)])
async def test_a_job_that_cannot_start_does_not_close_its_account(dead):
    never = runnable(owner=LAB, millicpus=2000, queue="nowhere")
    mate, below = runnable(owner=LAB, millicpus=500), runnable(owner=TEAM, millicpus=500)
    store = await stored(running(owner=OTHER, millicpus=2000), never, mate, below)
    there = catalog_of(queue("nowhere", environments=["dead"]), queue(), environments=[*WIDE, dead])

    unit = await after_placement(store, there, quotas=quotas(lab=2, root=3))

    assert environments_of(unit, never, mate, below) == [None, "local", "local"]


@pytest.mark.parametrize(
    ("limits", "held", "jobs", "placed"),
    [
        ({"team": 1, "lab": 2, "root": 64}, (TEAM, 1000), [(TEAM, 1000), (LAB, 1000), (OTHER, 1000)], "-++"),
        ({"lab": 2}, (LAB, 2000), [(LAB, 1000), (OTHER, 2000)], "-+"),
        ({"lab": 2}, (OTHER, 3000), [(LAB, 2000), (LAB, 500)], "--"),
        ({"lab": 1}, (LAB, 3000), [(LAB, 1)], "-"),
        ({"lab": 2}, None, [(LAB, 1500, "default"), (LAB, 1500, "other")], "-+"),
    ],
    ids=[
        "the limits of all parent accounts apply",
        "no capacity is reserved for a job of an account at its limit",
        "a limit reserved for a head is not used by other jobs of its account",
        "a lowered limit starts no job",
        "a limit applies to all queues together",
    ],
)
async def test_limits_of_vcpus(limits, held, jobs, placed):
    """In `placed` a plus stands for each job that starts."""
    runs = [] if held is None else [running(owner=held[0], millicpus=held[1])]
    waiting = [
        runnable(owner=other_job[0], millicpus=other_job[1], queue=(*other_job, "default")[2]) for other_job in jobs
    ]
    store = await stored(*runs, *waiting)

    unit = await after_placement(store, catalog_of(queue(), queue("other", priority=9)), quotas=quotas(**limits))

    assert environments_of(unit, *waiting) == ["local" if mark == "+" else None for mark in placed]
    assert environments_of(unit, *runs) == ["local"] * len(runs)


async def test_no_job_starts_when_the_root_account_is_at_its_limit():
    runs, jobs = (
        running(owner=OTHER),
        [runnable(owner=owner) for owner in (LAB, OTHER, Owner(user="x", account="gone"))],
    )
    store = await stored(runs, *jobs)
    unit = new_unit(runs)

    outcome = await run_placement(unit, store, wide(), quotas=quotas(root=1))

    assert environments_of(unit, *jobs) == [None, None, None]
    assert [head.job_id for head in outcome.heads.values()] == [jobs[0].id]


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
    unit = new_unit(runs)

    outcome = await run_placement(
        unit, store, wide(), resources(millicpus=64_000, memory_mib=1000), quotas=quotas(lab=1)
    )

    assert environments_of(unit, head, short, of_others, long) == [None, None, "local", None]
    assert outcome.heads["default"].job_id == head.id


async def test_the_highest_account_at_its_limit_is_named_and_its_jobs_wait_as_one():
    runs = running(owner=TEAM, millicpus=1000)
    below, own = runnable(owner=TEAM), runnable(owner=LAB)
    store = await stored(runs, below, own)
    unit = new_unit(runs)

    outcome = await run_placement(unit, store, wide(), quotas=quotas(team=1, lab=1))

    assert [(head.job_id, head.reason) for head in outcome.heads.values()] == [
        (below.id, status_reasons.at_limit("lab"))
    ]


@pytest.mark.parametrize("share", ["red", "blue"])
async def test_fair_share_order_passes_over_jobs_of_a_limited_account(share):
    fair = {"share_identifier": "red", "scheduling_priority": 1}
    many = [runnable(owner=LAB, millicpus=1000, **fair) for _ in range(PAGE + FIRST_PAGE)]
    others = [runnable(owner=OTHER, millicpus=1000, **fair | {"share_identifier": share}) for _ in range(2)]
    store = await stored(*many, *others)
    catalog = catalog_of(queue(policy="fair"), environments=WIDE, policies=[policy()])

    unit = await after_placement(store, catalog, quotas=quotas(lab=1))

    assert environments_of(unit, *others) == ["local", "local"]
    assert environments_of(unit, *many).count("local") == 1


LARGE = container(millicpus=4000)


class StoredDirectory:
    """The accounts as they are stored at present."""

    def __init__(self, **limits):
        self.limit(**limits)
        self.unreadable = False

    def limit(self, **limits):
        self.directory = Directory(
            accounts={
                name: Account(name=name, parent=ABOVE[name], limits=AccountLimits(queued=limits.get(name)))
                for name in ABOVE
            }
        )

    def __call__(self):
        if self.unreadable:
            raise Unavailable("others may read it")
        return self.directory


@pytest.fixture
def directory_of_accounts():
    return StoredDirectory(lab=3)


@pytest.fixture
async def harness(directory_of_accounts):
    return await harness_with(accounts=AccountPolicies(directory=directory_of_accounts, enforced=True))


def new_job(number, owner=LAB, **changes):
    return submit(job_id(number), owner=owner, **{"container": LARGE} | changes)


def accepted(*messages):
    """Whether each submission was accepted."""
    assert all(message.answer.done() for message in messages)
    return [message.answer.exception() is None for message in messages]


async def test_an_account_and_those_below_it_may_have_as_many_queued_jobs_as_its_limit(harness):
    messages = [new_job(1), new_job(2, TEAM), new_job(3, TEAM), new_job(4, TEAM), new_job(5), new_job(6, OTHER)]

    await harness.process(*messages)

    assert accepted(*messages) == [True, True, True, False, False, True]
    with pytest.raises(Invalid, match="Account lab and the accounts below it may have 3 queued jobs"):
        messages[3].answer.result()
    assert harness.loop.scheduler.queued_jobs.queued == {"lab": 1, "team": 2, "other": 1}


async def test_a_job_that_started_earlier_is_not_counted(harness):
    first, second, third = [new_job(1), new_job(2), new_job(3)], [new_job(4), new_job(5)], [new_job(6)]

    await harness.process(SURVEYED, *first)
    await harness.process(*second)
    await harness.process(*third)

    assert accepted(*first, *second, *third) == [True, True, True, True, False, False]


async def test_a_job_that_ended_before_its_start_is_not_counted(harness):
    jobs = [new_job(1), new_job(2), new_job(3)]
    await harness.process(*jobs)

    await harness.process(request(jobs[0].answer.result(), on.CancelRequested(reason="enough")))
    again = new_job(4)
    await harness.process(again)

    assert accepted(again) == [True]


async def test_queued_jobs_count_against_the_limits_of_all_parent_accounts(harness, directory_of_accounts):
    directory_of_accounts.limit(root=2, lab=3, team=1)
    messages = [new_job(1, TEAM), new_job(2, TEAM), new_job(3, OTHER), new_job(4)]

    await harness.process(*messages)

    assert accepted(*messages) == [True, False, True, False]
    assert "Account team " in str(messages[1].answer.exception())
    assert "Account root " in str(messages[3].answer.exception())


async def test_an_array_counts_as_its_children_before_they_are_spawned(harness):
    held = new_job(1, array_size=2)
    too_large = new_job(2, array_size=2)
    last = new_job(3)

    await harness.process(held, too_large, last)
    await harness.process(SURVEYED)

    assert accepted(held, too_large, last) == [True, False, True]
    assert harness.loop.scheduler.queued_jobs.queued == {"lab": 2}  # one of the three has started


async def test_a_repeated_submission_is_not_counted_again(harness):
    key = submission()
    first = [new_job(1, key=key), new_job(2), new_job(3)]
    await harness.process(*first)

    again = replace(new_job(4), key=key)
    await harness.process(again)

    assert again.answer.result().id == job_id(1)


async def test_a_changed_limit_applies_to_later_submissions(harness, directory_of_accounts):
    await harness.process(new_job(1), new_job(2), new_job(3))

    directory_of_accounts.limit(lab=1)
    lowered = new_job(4)
    await harness.process(lowered)
    directory_of_accounts.limit(lab=4)
    raised = new_job(5)
    await harness.process(raised)

    assert accepted(lowered, raised) == [False, True]


async def test_unreadable_limits_stay_as_they_were(harness, directory_of_accounts):
    await harness.process(new_job(1), new_job(2))
    directory_of_accounts.unreadable = True
    messages = [new_job(3), new_job(4)]

    await harness.process(*messages)

    assert accepted(*messages) == [True, False]


async def test_dependents_are_searched_only_while_jobs_are_pending():
    first = running()
    harness = await harness_with(first)
    assert harness.loop.scheduler.queued_jobs.pending_dependencies == 0
    await harness.process(SURVEYED, submit(job_id(900), depends_on=(Dependency(job_id=first.id),)))
    assert harness.loop.scheduler.queued_jobs.pending_dependencies == 1

    await harness.process(event_message(first, exited(0)))

    assert (await harness.store.jobs([job_id(900)]))[job_id(900)].status is Status.STARTING
    assert harness.loop.scheduler.queued_jobs.pending_dependencies == 0


async def test_pending_jobs_from_before_a_restart_are_counted():
    first = running()
    second = pending(depends_on=(Dependency(job_id=first.id),))

    harness = await harness_with(first, second)

    assert harness.loop.scheduler.queued_jobs.pending_dependencies == 1


@pytest.mark.fault("SE60")
def test_a_job_shares_networks_with_jobs_of_the_same_accounts_only():
    people = Directory(
        accounts={name: Account(name=name) for name in ("lab", "other")},
        users={"amy": User(name="amy", role=Role.ADMIN)},
    )
    accounts = AccountPolicies(directory=lambda: people, enforced=True)
    admin, colleague, stranger = Owner(user="amy"), Owner(user="bob", account="lab"), Owner(user="eve", account="other")

    def network(*authors, owner=LAB):
        return accounts.network_account(spec(owner=owner, authors=authors))

    assert network() == network(admin, colleague) == "lab"
    assert network(stranger) == network(stranger, colleague) == "lab+other"
    assert network(stranger, owner=admin) == "root+other"
    assert AccountPolicies(directory=lambda: people, enforced=False).network_account(spec(authors=(stranger,))) == ""
