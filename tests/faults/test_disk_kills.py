"""The server is killed (SIGKILL) at each of its commits in turn, by strace; the next one keeps what was answered."""

import asyncio
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise

import pytest
from botocore.exceptions import BotoCoreError

from batchq.server.bootstrap import serving as served
from batchq.settings import Settings
from tests.faults.disk import OUTCOMES, SCRIPTS, check_kept, names_kept, register, submit, submit_three
from tests.service.waiting import PATIENCE, reaches
from tests.support.service import Service, serving
from tests.support.tracing import injected, recorded, under

pytestmark = pytest.mark.strace

OF_A_FIRST_START = 20  # fdatasyncs, and some
OF_THREE_JOBS = 26
SURELY_OF_A_START, SURELY = 10, 6  # how many fall together is a matter of time
COMMITS = [("fdatasync", number) for number in range(1, OF_THREE_JOBS + 1)]
WRITES = [("pwrite64", number) for number in range(7, 150, 11)]  # in the middle of transactions
SURE = {*COMMITS[:SURELY], *WRITES[:4]}
SIMULATED = ("--runtime", "simulated")
LOCK = shutil.ignore_patterns("batchq.lock")  # it names its own inode, and a server refuses a copy of it


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Data with the definitions of the jobs, to be copied."""
    data = tmp_path_factory.mktemp("begun") / "data"
    with serving(data, *SIMULATED) as service:
        register(service.client())
    return data


def killed_at(call, number, data):
    """The jobs that a server acknowledged before it died at this call of its writer, and its exit status."""
    service = Service(data, *SIMULATED, under=under(f"{call}:signal=KILL:when={number}"))
    ids = {}
    with suppress(RuntimeError, OSError, BotoCoreError):
        batch = service.start().client(tries=1)
        ids = submit_three(batch)
        wait_for(batch, ids)
    return ids, service.stop()


def wait_for(batch, ids):
    """The jobs when they are over."""
    return {name: reaches(batch, job_id, "SUCCEEDED", "FAILED") for name, job_id in ids.items()}


async def settled(data, ids):
    """The outcome of the jobs under the next server."""
    service = Service(data)
    async with served(Settings(data=data, port=0, runtime="simulated")) as server:
        service.url = server.urls[0]
        jobs = await asyncio.to_thread(wait_for, service.client(), ids)
    return {name: job["status"] for name, job in jobs.items()}


@pytest.mark.fault("ST16", "ST03", "ST04")
@pytest.mark.parametrize(("call", "number"), [*COMMITS, *WRITES])
async def test_a_kill_at_any_commit_loses_no_answered_change(tmp_path, begun, call, number):
    data = tmp_path / "data"
    shutil.copytree(begun, data, ignore=LOCK)

    ids, status = await asyncio.to_thread(killed_at, call, number, data)
    check_kept(data)
    ends = await settled(data, ids)

    check_kept(data)
    assert status == -signal.SIGKILL or (call, number) not in SURE
    assert ends == {name: OUTCOMES[name][0] for name in ids}
    assert set(ids) <= set(names_kept(data))
    assert max(names_kept(data).values(), default=0) <= 1


@pytest.mark.fault("DB11")
@pytest.mark.parametrize("number", range(1, OF_A_FIRST_START + 1))
async def test_after_a_kill_at_any_commit_of_its_first_start_the_server_starts(tmp_path, number):
    service = Service(tmp_path / "data", *SIMULATED, under=under(f"fdatasync:signal=KILL:when={number}"))

    with suppress(RuntimeError, OSError):
        await asyncio.to_thread(service.start)
    status = service.stop()
    await settled(service.data, {})

    check_kept(service.data)
    assert status == -signal.SIGKILL or number > SURELY_OF_A_START


@pytest.mark.fault("ST16", "DB18")
def test_all_commits_were_tried_and_each_is_synced_before_its_answer(tmp_path, begun):
    data, calls = tmp_path / "data", tmp_path / "calls"
    shutil.copytree(begun, data, ignore=LOCK)
    service = Service(data, *SIMULATED, under=recorded(calls, "fdatasync")).start()
    batch = service.client()

    wait_for(batch, submit_three(batch))
    in_all = len(calls.read_text().splitlines())
    before = [len(calls.read_text().splitlines()) for number in range(6) if register(batch) is None]
    service.kill()

    assert SURELY <= in_all < OF_THREE_JOBS
    assert [after - earlier for earlier, after in pairwise(before)] == [len(SCRIPTS)] * 5


@pytest.fixture
def service(tmp_path, begun):
    shutil.copytree(begun, tmp_path / "data", ignore=LOCK)
    service = Service(tmp_path / "data", *SIMULATED).start()
    register(service.client())  # so that SQLite has begun its log of writes
    yield service
    service.kill()


@pytest.mark.parametrize(
    "call",
    [
        pytest.param("pwrite64", marks=pytest.mark.fault("ST01")),  # before the insert is committed
        pytest.param("fdatasync", marks=pytest.mark.fault("ST02")),  # it is, and the answer is not sent
    ],
)
def test_a_submission_repeated_after_a_kill_of_the_server_is_one_job(service, call):
    batch = service.client(tries=20)
    with ThreadPoolExecutor(1) as client, injected(service.process.pid, f"{call}:signal=KILL:when=1"):
        submitted = client.submit(submit, batch, "good")
        status = service.process.wait(PATIENCE)
        kept = names_kept(service.data)["good"]
        service.kill()
        service.start()
        job_id = submitted.result(PATIENCE)

    assert status == -signal.SIGKILL
    assert kept == {"pwrite64": 0, "fdatasync": 1}[call]
    assert names_kept(service.data)["good"] == 1
    assert reaches(service.client(), job_id, "SUCCEEDED")["jobName"] == "good"
