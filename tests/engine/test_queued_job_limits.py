"""How many jobs of an account may be queued: decided in the unit of work that accepts them."""

import pytest
from msgspec.structs import replace

from batchq.domain import events as on
from batchq.domain.access.accounts import ROOT, Account, AccountLimits, Directory, Owner
from batchq.domain.job import Dependency, Status
from batchq.engine.account_limits import AccountPolicies
from batchq.errors import Invalid, Unavailable
from tests.domain.lives import exited, pending, running
from tests.engine.desk import LOOKED, desk_over, news, request, submit
from tests.support.builders import container, job, job_id, submission

LAB, TEAM, OTHER = (Owner(user="ada", account=it) for it in ("lab", "team", "other"))
LARGE = container(millicpus=4000)


class Said:
    """What is said of accounts, for the moment."""

    def __init__(self, **limits):
        self.limit(**limits)
        self.unreadable = False

    def limit(self, **limits):
        above = {"lab": ROOT, "team": "lab", "other": ROOT, ROOT: None}
        self.people = Directory(
            accounts={
                it: Account(name=it, parent=above[it], limits=AccountLimits(queued=limits.get(it))) for it in above
            }
        )

    def __call__(self):
        if self.unreadable:
            raise Unavailable("others may read it")
        return self.people


@pytest.fixture
def said():
    return Said(lab=3)


@pytest.fixture
async def desk(said):
    return await desk_over(accounts=AccountPolicies(directory=said, enforced=True))


def asked(number, owner=LAB, **changes):
    return submit(job_id(number), owner=owner, **{"container": LARGE} | changes)


def taken(*messages):
    """Whether each was, and why the first that was not was not."""
    assert all(it.answer.done() for it in messages)
    return [it.answer.exception() is None for it in messages]


async def test_an_account_may_have_as_many_queued_jobs_as_its_limit(desk):
    messages = [asked(number) for number in range(5)]

    await desk.process(*messages)

    assert taken(*messages) == [True, True, True, False, False]
    with pytest.raises(Invalid, match="Account lab and the accounts below it may have 3 queued jobs"):
        messages[3].answer.result()
    assert desk.loop.scheduler.queued_jobs.queued == {"lab": 3}


async def test_a_job_that_started_earlier_is_not_counted(desk):
    first, second, third = [asked(1), asked(2), asked(3)], [asked(4), asked(5)], [asked(6)]

    await desk.process(LOOKED, *first)
    await desk.process(*second)
    await desk.process(*third)

    assert taken(*first, *second, *third) == [True, True, True, True, False, False]


async def test_a_job_that_ended_before_its_start_is_not_counted(desk):
    jobs = [asked(1), asked(2), asked(3)]
    await desk.process(*jobs)

    await desk.process(request(jobs[0].answer.result(), on.CancelRequested(reason="enough")))
    again = asked(4)
    await desk.process(again)

    assert taken(again) == [True]


async def test_jobs_of_child_accounts_count_for_their_parents(desk):
    messages = [asked(1), asked(2, TEAM), asked(3, TEAM), asked(4, TEAM), asked(5), asked(6, OTHER)]

    await desk.process(*messages)

    assert taken(*messages) == [True, True, True, False, False, True]


async def test_the_limits_of_all_parent_accounts_apply(desk, said):
    said.limit(root=2, lab=3, team=1)
    messages = [asked(1, TEAM), asked(2, TEAM), asked(3, OTHER), asked(4)]

    await desk.process(*messages)

    assert taken(*messages) == [True, False, True, False]
    assert "Account team " in str(messages[1].answer.exception())
    assert "Account root " in str(messages[3].answer.exception())


async def test_an_array_counts_as_its_children_before_they_are_spawned(desk):
    held = asked(1, array_size=2)
    too_large = asked(2, array_size=2)
    last = asked(3)

    await desk.process(held, too_large, last)
    await desk.process(LOOKED)

    assert taken(held, too_large, last) == [True, False, True]
    assert desk.loop.scheduler.queued_jobs.queued == {"lab": 2}  # one of the three has started


async def test_a_repeated_submission_is_not_counted_again(desk):
    key = submission()
    first = [asked(1, key=key), asked(2), asked(3)]
    await desk.process(*first)

    again = replace(asked(4), key=key)
    await desk.process(again)

    assert again.answer.result().id == job_id(1)


async def test_a_changed_limit_applies_to_later_submissions(desk, said):
    await desk.process(asked(1), asked(2), asked(3))

    said.limit(lab=1)
    lowered = asked(4)
    await desk.process(lowered)
    said.limit(lab=4)
    raised = asked(5)
    await desk.process(raised)

    assert taken(lowered, raised) == [False, True]


async def test_unreadable_limits_stay_as_they_were(desk, said):
    await desk.process(asked(1), asked(2))
    said.unreadable = True
    messages = [asked(3), asked(4)]

    await desk.process(*messages)

    assert taken(*messages) == [True, False]


async def test_a_restart_counts_the_stored_jobs(said):
    waiting = [job(number=it, owner=TEAM, status=Status.RUNNABLE, container=LARGE) for it in (1, 2)]
    desk = await desk_over(*waiting, accounts=AccountPolicies(directory=said, enforced=True))
    messages = [asked(3), asked(4)]

    await desk.process(*messages)

    assert taken(*messages) == [True, False]


# --------------------------------------------------------------------------------------------------------- for others


async def test_dependents_are_searched_only_while_jobs_are_pending():
    first = running()
    desk = await desk_over(first)
    assert desk.loop.scheduler.queued_jobs.pending_dependencies == 0
    await desk.process(LOOKED, submit(job_id(900), depends_on=(Dependency(job_id=first.id),)))
    assert desk.loop.scheduler.queued_jobs.pending_dependencies == 1

    await desk.process(news(first, exited(0)))

    assert (await desk.store.jobs([job_id(900)]))[job_id(900)].status is Status.STARTING
    assert desk.loop.scheduler.queued_jobs.pending_dependencies == 0


async def test_pending_jobs_from_before_a_restart_are_counted():
    first = running()
    second = pending(depends_on=(Dependency(job_id=first.id),))

    desk = await desk_over(first, second)

    assert desk.loop.scheduler.queued_jobs.pending_dependencies == 1
