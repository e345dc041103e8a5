"""A command in the container of a running job changes neither the job nor its log, and ends with it. Decision 0110."""

import asyncio

import pytest
from msgspec.structs import replace

from batchq.audit import Journal
from batchq.domain.access.accounts import Account, Caller, ContainerPolicy
from batchq.domain.enums import Status
from batchq.domain.ids import child_id
from batchq.errors import Forbidden, Invalid, NotFound, NotSupported, Throttled
from batchq.ports.exec_session import ExecCommand
from batchq.services.exec_sessions import CHECK_INTERVAL, ExecLimits, ExecService
from tests.support.scripts import lasting

RUNS = lasting(output=("ready",), exec_output=("hello",), exec_exit_code=3)
WRITES = ExecCommand(command=("sh", "-c", "echo hello; exit 3"))
READS = ExecCommand(command=("cat",))
EVE = Caller(user="eve", account="other")
FORBIDS = ContainerPolicy(exec_allowed=False)


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path)


@pytest.fixture
def sessions(world, journal):
    return service(world, journal)


def service(world, journal, *, at_once=2, present_caller=lambda caller: caller):
    return ExecService(
        engine=world.engine,
        jobs=world.jobs,
        journal=journal,
        clock=world.clock,
        limits=ExecLimits(sessions=at_once, idle=60),
        present_caller=present_caller,
    )


async def opened(sessions, world, job, *, container=None):
    return await sessions.target(job, container=container, caller=world.caller)


async def test_a_command_runs_in_a_job_and_does_not_change_the_job(world, sessions, journal):
    job = await world.start(RUNS)
    history = await world.statuses(job)

    target = await opened(sessions, world, job)
    async with sessions.session(target, WRITES, caller=world.caller) as session:
        assert (await session.read()).content == b"hello\n"
        assert await session.read() is None
        assert await session.exit_code() == 3

    assert await world.statuses(job) == history
    assert [entry.record.resource for entry in journal.read()[0]] == [f"job/{job}"]
    await world.finish(job, Status.SUCCEEDED)
    assert "hello" not in await world.output(job)


async def test_a_stop_of_the_job_ends_the_session(world, sessions):
    job = await world.start(replace(RUNS, exec_echoes=True))
    target = await opened(sessions, world, job)

    async with sessions.session(target, READS, caller=world.caller) as session:
        end = asyncio.create_task(sessions.wait_for_end(target, caller=world.caller))
        await world.terminate(job, "enough")
        while await session.read() is not None:
            pass
        assert await end == "the container of the job has ended"

    await world.wait_for(job, Status.FAILED, status_reason="enough")


async def test_a_kill_of_the_container_ends_the_session_before_the_engine_reports_the_end(simulated, journal):
    """Docker reports the end of a container once its sessions have sent all output, and a client may never read it."""
    world, sessions = simulated, service(simulated, journal)
    job = await world.start(replace(RUNS, exec_echoes=True, kill_delay=60))
    target = await opened(sessions, world, job)

    end = asyncio.create_task(sessions.wait_for_end(target, caller=world.caller))
    await world.terminate(job, "enough", force=True)

    async with asyncio.timeout(2 * CHECK_INTERVAL):
        assert await end == "the container of the job was killed"
    assert (await world.job(job)).status is Status.RUNNING
    await world.wait_for(job, Status.FAILED, status_reason="enough")


@pytest.mark.fault("SE92")
@pytest.mark.parametrize(
    ("present", "reason"),
    [
        (None, "the user or the access key of the caller is no longer valid"),
        (EVE, "the caller may not see the job any more"),
        (Caller(user="ada", account="lab", allowance=FORBIDS), "Commands in running containers are not allowed"),
    ],
)
async def test_a_session_ends_soon_after_its_caller_has_lost_the_right(simulated, journal, present, reason):
    world = simulated
    world.caller = Caller(user="ada", account="lab", allowance=ContainerPolicy())
    world.people = replace(world.people, accounts={"lab": Account(name="lab", allowance=ContainerPolicy())})
    presents = [world.caller]
    sessions = service(world, journal, present_caller=lambda caller: presents[-1])
    target = await opened(sessions, world, await world.start(replace(RUNS, exec_echoes=True)))

    end = asyncio.create_task(sessions.wait_for_end(target, caller=world.caller))
    await asyncio.sleep(10 * CHECK_INTERVAL)
    assert not end.done()
    presents.append(present)

    async with asyncio.timeout(2 * CHECK_INTERVAL):
        assert (await end).startswith(reason)


async def test_a_command_is_refused_where_it_cannot_run(simulated, journal):
    world, sessions = simulated, service(simulated, journal)
    job, array = await world.submit_held(), await world.submit(array_size=2)

    with pytest.raises(Invalid, match="is RUNNABLE: a command can only be run in a job that is RUNNING"):
        await opened(sessions, world, job)
    with pytest.raises(Invalid, match=f"is an array: name one of its children, as {child_id(array, 0)}"):
        await opened(sessions, world, array)
    with pytest.raises(NotFound):
        await sessions.target(job, container=None, caller=EVE)
    with pytest.raises(NotSupported, match="--exec-sessions is 0"):
        await opened(service(world, journal, at_once=0), world, job)


async def test_more_sessions_than_the_limit_are_refused(simulated, journal):
    sessions = service(simulated, journal, at_once=1)
    target = await opened(sessions, simulated, await simulated.start(replace(RUNS, exec_echoes=True)))

    async with sessions.session(target, READS, caller=simulated.caller):
        with pytest.raises(Throttled, match="1 commands run in containers at present"):
            async with sessions.session(target, READS, caller=simulated.caller):
                pass
    async with sessions.session(target, READS, caller=simulated.caller):
        pass


@pytest.mark.parametrize(
    ("policy", "of_job", "refusal"),
    [
        (ContainerPolicy(), ContainerPolicy(exec_allowed=False), "not allowed to account lab"),
        (ContainerPolicy(exec_allowed=False), ContainerPolicy(), "not allowed to account above"),
        (ContainerPolicy(root=False), ContainerPolicy(), "who may be root, are not allowed to account above"),
        (ContainerPolicy(registries=("quay.io",)), ContainerPolicy(), "Registry 'docker.io' of image"),
        (ContainerPolicy(), ContainerPolicy(), None),
    ],
)
async def test_a_container_policy_decides_who_may_run_commands(simulated, journal, policy, of_job, refusal):
    """A coordinator whose account may not run the container gets no rights of it."""
    world, sessions = simulated, service(simulated, journal)
    world.people = replace(world.people, accounts={"lab": Account(name="lab", allowance=of_job)})
    world.caller = Caller(user="ada", account="lab", allowance=of_job)
    job = await world.start(RUNS)
    cora = Caller(user="cora", account="above", coordinates=frozenset({"lab"}), allowance=policy)

    if refusal is None:
        assert (await sessions.target(job, container=None, caller=cora)).job.id == job
    else:
        with pytest.raises(Forbidden, match=refusal):
            await sessions.target(job, container=None, caller=cora)
