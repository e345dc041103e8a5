"""On real Docker: the server is killed at each of its commits in turn, and no container is affected."""

import signal
from contextlib import suppress

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.faults.disk import OUTCOMES, check_kept
from tests.faults.job_server import ContainerRecords
from tests.faults.test_kill_nine import containers_left
from tests.service.waiting import reaches
from tests.support.service import Service
from tests.support.tracing import under

pytestmark = [pytest.mark.docker, pytest.mark.strace]

LIVES = range(3, 17)
WORKS = {"good": "true", "bad": "false", "after": "true"}
ATTEMPTS = {"good": 1, "bad": 2, "after": 1}


class Lives:
    """`submitted` has the name of each acknowledged job by id, `ends` the exit statuses of the servers."""

    def __init__(self, directory):
        self.data = directory / "data"
        self.records = ContainerRecords(directory / "records")
        self.submitted, self.ends = {}, []

    def begin(self):
        service = Service(self.data).start()
        for name, work in WORKS.items():
            self.register(service.client(), name, work)
        service.stop()

    def register(self, batch, name, work):
        properties = self.records.container(work)
        batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)

    def live(self, number):
        """Run the server until this commit kills it, or until all jobs have ended."""
        service = Service(self.data, under=under(f"fdatasync:signal=KILL:when={number}"))
        with suppress(RuntimeError, OSError, BotoCoreError, ClientError):
            batch = service.start().client(tries=1)
            good = self.submit(batch, "good")
            mine = [good, self.submit(batch, "bad"), self.submit(batch, "after", dependsOn=[{"jobId": good}])]
            for job_id in mine:
                reaches(batch, job_id, "SUCCEEDED", "FAILED")
        self.ends.append(service.stop())

    def live_through(self, numbers):
        for number in numbers:
            self.live(number)

    def submit(self, batch, name, **members):
        members |= {"jobName": name, "jobQueue": "default", "jobDefinition": name}
        job_id = batch.submit_job(retryStrategy={"attempts": ATTEMPTS[name]}, **members)["jobId"]
        self.submitted[job_id] = name
        return job_id

    def settle(self):
        """Run a last server without a fault: every job as described at its end, and the containers that are left."""
        self.service = Service(self.data).start()
        batch = self.service.client()
        jobs = [reaches(batch, job_id, "SUCCEEDED", "FAILED") for job_id in self.submitted]
        left = containers_left(self.service)
        self.service.stop()
        return {job["jobId"]: job for job in jobs}, left


@pytest.fixture
def lives(tmp_path):
    lives = Lives(tmp_path)
    lives.begin()
    yield lives
    lives.service.remove_containers()


@pytest.mark.fault("ST03", "ST04", "ST16")
@pytest.mark.timeout(300)
def test_each_attempt_runs_once_and_kills_of_the_server_use_up_none(lives):
    lives.live_through(LIVES)

    jobs, left = lives.settle()

    check_kept(lives.data)
    ran = lives.records.counts("start")
    names = {job_id: name for job_id, name in lives.submitted.items() if job_id in jobs}
    assert lives.ends.count(-signal.SIGKILL) >= len(LIVES) // 2
    assert set(jobs) == set(lives.submitted)
    assert {name: {jobs[job]["status"] for job in jobs if names[job] == name} for name in WORKS} == {
        name: {OUTCOMES[name][0]} for name in WORKS
    }
    assert {job_id: len(job["attempts"]) for job_id, job in jobs.items()} == {job: ATTEMPTS[names[job]] for job in jobs}
    assert set(ran.values()) == {1}
    assert left == []
    assert {job_id for job_id, _ in ran} >= set(jobs)
