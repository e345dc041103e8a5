"""The server is killed repeatedly under load, by SIGKILL and SIGTERM; the containers themselves record what ran."""

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from tests.faults.job_server import ContainerRecords
from tests.service.waiting import create_queue
from tests.support.service import Service

ROUNDS = int(os.environ.get("KILL_ROUNDS", "16"))
SETTLES_WITHIN = 90.0  # seconds
OVER = {"SUCCEEDED", "FAILED"}
SHAPES = {
    "quick": ("true", 1),
    "slow": ("sleep 1 & wait $!", 1),
    "fails": ("false", 3),
    "long": ("sleep 3000 & wait $!", 1),
}


@dataclass
class Load:
    """A client that submits, cancels and terminates all the time, and stores the replies."""

    service: Service
    seed: int
    submitted: dict[str, str] = field(default_factory=dict)
    terminated: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    names: int = 0

    def run(self, over: threading.Event) -> None:
        chance = random.Random(self.seed)
        batch = self.service.client()
        while not over.is_set():
            shape = chance.choice(["quick", "slow", "fails", "long"])
            self.names += 1
            self._try(lambda shape=shape: self._submit(batch, f"{shape}-{self.names}", shape))
            for job_id in [key for key, of in self.submitted.items() if of == "long" and key not in self.terminated]:
                self._try(lambda job_id=job_id: self._terminate(batch, job_id))
            if self.submitted and chance.random() < 0.3:
                job_id = chance.choice(list(self.submitted))
                self._try(lambda job_id=job_id: self._cancel(batch, job_id))
            over.wait(0.1)

    def _submit(self, batch, name, shape):
        request = {
            "jobName": name,
            "jobQueue": "k9",
            "jobDefinition": shape,
            "retryStrategy": {"attempts": SHAPES[shape][1]},
        }
        self.submitted[batch.submit_job(**request)["jobId"]] = shape

    def _terminate(self, batch, job_id):
        batch.terminate_job(jobId=job_id, reason="terminated by the load")
        self.terminated.add(job_id)

    def _cancel(self, batch, job_id):
        batch.cancel_job(jobId=job_id, reason="cancelled by the load")
        self.cancelled.add(job_id)

    def _try(self, call):
        """A call that is not answered may or may not have been carried out; nothing is noted."""
        with suppress(BotoCoreError, ClientError):
            call()


@dataclass
class Killing:
    """The outcome: how each round ended, and how many containers had ended by then."""

    statuses: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)

    @property
    def in_order(self) -> list[int]:
        """The exit statuses of the servers that got SIGTERM."""
        return [status for status in self.statuses if status != -signal.SIGKILL]

    @property
    def progress(self) -> int:
        """How many rounds saw a container end."""
        return sum(after > before for before, after in pairwise(self.ended))


@pytest.mark.docker
@pytest.mark.fault("ST17", "LC03")
@pytest.mark.timeout(600 + 10 * ROUNDS)
def test_no_job_is_lost_started_twice_or_left_behind(tmp_path):
    records = ContainerRecords(tmp_path / "records")
    service = Service(tmp_path / "data", "--stop-grace", "3").start()
    create_resources(service.client(), records)
    load = Load(service, seed=20261121)

    killing = kill_in_a_loop(service, load, records)
    jobs = settle(service.client(), load)
    names = Counter(names_by_id(service.client()).values())
    left = containers_left(service)
    service.stop()

    assert set(jobs) == set(load.submitted), "a job that was acknowledged is lost"
    assert {job["status"] for job in jobs.values()} <= OVER
    assert left == []
    assert [name for name, count in names.items() if count > 1] == [], "a call that was repeated made two jobs"
    check_against(records, jobs, load)
    ran = sum(records.counts("start").values())
    print(
        f"{ROUNDS} kills, {len(killing.in_order)} of them by SIGTERM; {len(jobs)} jobs, {ran} containers, "
        f"{len(load.terminated)} terminated; containers ended in {killing.progress} rounds"
    )
    assert set(killing.in_order) == {0}
    assert killing.progress > ROUNDS / 2
    assert len(jobs) > ROUNDS
    assert ran > ROUNDS


def kill_in_a_loop(service, load, records):
    """Kill the server at random times; on a slow machine, too, most servers have seen the end of a container."""
    over = threading.Event()
    client = threading.Thread(target=load.run, args=(over,))
    client.start()
    chance = random.Random(load.seed + 1)
    killing = Killing(ended=[0])
    for number in range(ROUNDS):
        if number % 5 < 3:
            until(lambda: records.counts("end").total() > killing.ended[-1])
        time.sleep(chance.uniform(0.1, 0.9))
        killing.statuses.append(service.stop() if chance.random() < 0.3 else service.kill())
        service.start()
        killing.ended.append(records.counts("end").total())
    until(lambda: len(load.submitted) > ROUNDS and records.counts("start").total() > ROUNDS)
    over.set()
    client.join()
    return killing


def until(holds):
    """Or not: what was waited for is asserted when all is over."""
    end = time.monotonic() + SETTLES_WITHIN
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)


def create_resources(batch, records):
    create_queue(batch, "k9", vcpus=6)
    for shape, (work, _) in SHAPES.items():
        batch.register_job_definition(
            jobDefinitionName=shape, type="container", containerProperties=records.container(work)
        )


def settle(batch, load):
    """Terminate what would take long, and wait until everything is over; the jobs that were acknowledged, by id.

    A server that is killed while it replies has stored a job without acknowledging it.
    """
    names = names_by_id(batch)
    for job_id, name in names.items():
        if name.startswith("long-") and job_id not in load.terminated:
            batch.terminate_job(jobId=job_id, reason="terminated by the load")
            load.terminated.add(job_id)
    until(lambda: {job["status"] for job in describe(batch, list(names)).values()} <= OVER)
    return describe(batch, list(load.submitted))


def describe(batch, ids):
    pages = [batch.describe_jobs(jobs=ids[at : at + 100])["jobs"] for at in range(0, len(ids), 100)]
    return {job["jobId"]: job for page in pages for job in page}


def names_by_id(batch):
    """The names of all jobs, acknowledged or not, by id."""
    pages = batch.get_paginator("list_jobs").paginate(jobQueue="k9", filters=[{"name": "JOB_NAME", "values": ["*"]}])
    return {job["jobId"]: job["jobName"] for page in pages for job in page["jobSummaryList"]}


def containers_left(service):
    """The last ones are removed a moment after their jobs are over."""
    until(lambda: not service.containers())
    return [container["Names"] for container in service.containers()]


def check_against(records, jobs, load):
    started, ended = records.counts("start"), records.counts("end")
    assert [key for key, count in started.items() if count > 1] == [], "an attempt was started twice"
    for job_id, job in jobs.items():
        attempts = {number for of, number in started if of == job_id}
        recorded = {
            number for number, attempt in enumerate(job["attempts"], start=1) if "exitCode" in attempt["container"]
        }
        assert attempts <= set(range(1, len(job["attempts"]) + 1)), f"{job_id} ran more than is recorded"
        if job["status"] == "SUCCEEDED":
            assert ended[job_id, len(job["attempts"])] == 1, f"{job_id} succeeded and did not end by itself"
        if job_id in load.terminated and load.submitted[job_id] == "long":
            assert (job["status"], job["isTerminated"] or job["isCancelled"]) == ("FAILED", True), job
        if load.submitted[job_id] == "fails" and job_id not in load.cancelled:
            assert recorded == {1, 2, 3}, job
    unacknowledged = {of for of, _ in started} - set(jobs)
    assert len(unacknowledged) <= load.names - len(jobs), "more jobs ran than were submitted"
