"""A job may use of the machine what its account may when it starts: faults.md 3, SE10."""

import pytest
from msgspec.structs import replace

from batchq.domain.access.accounts import Account, Caller, ContainerPolicy, Owner, User
from batchq.domain.catalog import Network
from batchq.domain.enums import Status
from batchq.domain.ids import child_id
from batchq.errors import Invalid, NotFound
from batchq.logs.pages import StreamOrder, StreamQuery
from batchq.services.client_requests import ORIGIN_TAGS, RERUN_OF
from tests.support.builders import ADMIN, gang, job_id, task
from tests.support.scripts import LASTING, Script, contained, lasting

NETWORK = Network.BRIDGE  # which each account may have, and the host's not
LOOSE, TIGHT = ContainerPolicy(), ContainerPolicy(root=False)
REFUSED = (
    "CannotCreateContainerError: User '0' of a container, whose user and group are not numbers above 0, "
    "is not allowed to account lab."
)
AS_ROOT = {"user": "0", "millicpus": 4000}


@pytest.fixture
async def ada(world):
    """She submits from now on, for a lab whose containers may run as root."""
    world.people = replace(world.people, users=world.people.users | {"ada": User(name="ada", account="lab")})
    world.caller = Caller(user="ada", account="lab", allowance=LOOSE)
    allow(world, LOOSE)


def allow(world, allowance):
    lab = Account(name="lab", allowance=allowance)
    world.people = replace(world.people, accounts={"lab": lab})


@pytest.mark.fault("SE10")
async def test_a_job_that_waits_while_its_policy_is_tightened_is_not_started(world, ada):
    first = await world.start(Script(seconds=60, on_term=1, output=("ready",)), **AS_ROOT)
    job = await world.submit(Script(), attempts=3, **AS_ROOT)

    allow(world, TIGHT)
    await world.terminate(first)

    done = await world.wait_for(job, Status.FAILED, status_reason="Task failed to start")
    (attempt,) = done.attempts
    assert attempt.reason == REFUSED
    assert "create" not in await world.engine_calls(job)


@pytest.mark.fault("SE10")
async def test_a_policy_loosened_again_before_the_start_has_no_effect(world, ada):
    first = await world.start(Script(seconds=60, on_term=1, output=("ready",)), **AS_ROOT)
    job = await world.submit(Script(), **AS_ROOT)

    allow(world, TIGHT)
    allow(world, LOOSE)
    await world.terminate(first)

    await world.wait_for(job, Status.SUCCEEDED)


async def test_a_running_container_continues_and_is_not_retried(world, ada):
    job = await world.start(lasting(7, output=("ready",)), attempts=3, **AS_ROOT)

    allow(world, TIGHT)
    await world.finish(job)

    await world.wait_for(job, Status.FAILED, status_reason="Task failed to start", exit_codes=[7, None])


async def test_a_job_of_an_admin_has_the_rights_of_its_submitters_present_role(world, ada):
    allow(world, TIGHT)
    world.caller = Caller(user="tester", account="lab", role="ADMIN")

    job = await world.submit(Script(), **AS_ROOT)

    await world.wait_for(job, Status.SUCCEEDED)


@pytest.mark.fault("SE09")
async def test_a_forbidden_submission_is_refused(world, ada):
    submission = await world.submission(**AS_ROOT)
    world.caller = replace(world.caller, allowance=TIGHT)

    with pytest.raises(Invalid, match="is not allowed to account lab"):
        await world.submissions.submit(submission, caller=world.caller)
    with pytest.raises(Invalid, match="is not allowed to account lab"):
        await world.submission(**AS_ROOT)


async def test_a_container_started_before_a_crash_continues(world, ada):
    job = await world.submit_until("start", LASTING, **AS_ROOT)
    await world.crash_after("start")

    allow(world, TIGHT)
    await world.boot()
    await world.finish(job)

    await world.wait_for(job, Status.SUCCEEDED)


BY_ADA = REFUSED.removesuffix(".") + " of ada, who wrote what the job runs."


def _run_by(name, user):
    container = contained(name, Script())
    return replace(container, spec=replace(container.spec, user=user))


#: Of two containers the second one runs as root.
WITH_ROOT = task(_run_by("app", "1000"), _run_by("side", "0"))
FORMS = {
    "container": {},
    "array": {"array_size": 2},
    "task": {"task": WITH_ROOT},
    "gang": {"nodes": gang(2, each=WITH_ROOT)},
}


@pytest.mark.fault("SE60")
@pytest.mark.parametrize("form", FORMS)
async def test_a_job_of_an_admin_has_no_right_that_the_author_of_its_definition_lost(world, ada, form):
    submission = await world.submission(Script(), **FORMS[form], **AS_ROOT)
    blocker = await world.start(Script(seconds=60, on_term=1, output=("ready",)), **AS_ROOT)
    job = (await world.submissions.submit(submission, caller=ADMIN)).id

    allow(world, TIGHT)
    with pytest.raises(Invalid, match="lab of ada, who wrote what the job runs"):
        await world.submissions.submit(submission, caller=ADMIN)
    await world.terminate(blocker)

    await world.wait_for(job, Status.FAILED)
    (attempt,) = (await world.job(child_id(job, 0) if form == "array" else job)).attempts
    assert attempt.reason == BY_ADA


@pytest.mark.fault("SE60")
async def test_a_definition_of_an_admin_gives_the_rights_of_the_submitter(world, ada):
    world.people = replace(
        world.people,
        accounts={
            "lab": Account(name="lab", allowance=LOOSE),
            "root": Account(name="root", parent=None, allowance=TIGHT),
        },
    )
    submission = await definition_of(world, ADMIN)

    done = await world.submissions.submit(submission, caller=replace(world.caller, lineage=("lab", "root")))

    await world.wait_for(done.id, Status.SUCCEEDED)


@pytest.mark.fault("SE61")
@pytest.mark.parametrize("tag", sorted(ORIGIN_TAGS))
async def test_a_repeated_job_has_only_the_rights_of_all_authors_of_the_first_job(world, ada, tag):
    """The authors of a repeated job are those of each job before it."""
    first = await world.submit_held(script=Script(), **AS_ROOT)
    own = await definition_of(world, ADMIN)
    second = (await world.submissions.submit(replace(own, tags=((tag, first),)), caller=ADMIN)).id

    third = await world.submissions.submit(replace(own, tags=((tag, second),)), caller=ADMIN)
    allow(world, TIGHT)

    assert [author.user for author in third.spec.authors] == ["ada"]
    with pytest.raises(Invalid, match="of ada, who wrote what the job runs"):
        await world.submissions.submit(replace(own, tags=((tag, second),)), caller=ADMIN)


@pytest.mark.fault("SE61")
async def test_a_tag_that_names_no_visible_job_is_refused(world, ada):
    hidden = await world.submit(Script())
    stranger = Caller(user="bob", account="other")
    own = await definition_of(world, stranger)

    for job in (hidden, job_id(999)):
        with pytest.raises(Invalid, match=f"Job {job} of the tag batchq:rerun-of not found."):
            await world.submissions.submit(replace(own, tags=((RERUN_OF, job),)), caller=stranger)


async def definition_of(world, caller):
    """A submission of a definition of the caller that runs as root."""
    before, world.caller = world.caller, replace(caller, allowance=LOOSE)
    try:
        return await world.submission(Script(), **AS_ROOT)
    finally:
        world.caller = before


ADA = Caller(user="ada", account="team", lineage=("team", "root"))
BOB = Caller(user="bob", account="team", lineage=("team", "root"))
CORA = Caller(user="cora", account="lab", coordinates=frozenset({"lab", "team"}))
STREAMS = StreamQuery(order=StreamOrder.NAME, descending=False)


@pytest.fixture
def world(world):
    """A world in which ada is the caller."""
    world.caller = ADA
    return world


@pytest.mark.fault("SE08")
async def test_a_job_is_stopped_by_its_coordinator_and_not_by_others(world):
    job = await world.start(Script(seconds=600, on_term=1, output=("ready",)))

    await world.terminate(job, "not mine", caller=BOB)
    await world.cancel(job, "not mine", caller=BOB)
    await world.terminate(job, "stopped by another user", caller=CORA)

    await world.wait_for(job, Status.FAILED, status_reason="stopped by another user", is_cancelled=False)


@pytest.mark.fault("SE08")
async def test_a_log_is_read_by_users_who_reach_the_job(world):
    job = await world.run(Script(seconds=0, output=("secret",)))

    (listed,), _ = await world.logs.streams(STREAMS, after=None, limit=9, caller=ADA)
    unseen = await world.logs.streams(STREAMS, after=None, limit=9, caller=BOB)

    assert (listed.stream.tag.job_id, listed.stream.owner) == (job, Owner(user="ada", account="team"))
    assert unseen == ((), None)
    assert await world.logs.stream(listed.stream.name, caller=CORA) == listed.stream
    with pytest.raises(NotFound):
        await world.logs.stream(listed.stream.name, caller=BOB)


async def test_children_and_jobs_after_a_restart_keep_their_owner(world):
    array = await world.submit(Script(seconds=600, on_term=1), array_size=2)
    await world.wait_for(f"{array}:1", Status.RUNNING)

    await world.restart()
    await world.terminate(f"{array}:1", "not mine", caller=BOB)
    await world.terminate(array, "mine", caller=ADA)

    await world.wait_for(array, Status.FAILED, status_reason="mine")
    assert await world.jobs.describe([array, f"{array}:0"], caller=BOB) == ()


async def test_a_coordinator_may_depend_on_a_job_that_is_hidden_from_others(world):
    first = await world.submit(LASTING)

    world.caller = CORA
    second = await world.submit(Script(seconds=0), after=[first])
    world.caller = BOB
    with pytest.raises(Invalid, match=f"Job {first} in dependsOn does not exist"):
        await world.submit(Script(seconds=0), after=[first])

    await world.finish(first)
    await world.wait_for(second, Status.SUCCEEDED)
