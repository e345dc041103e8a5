"""Three jobs on a simulated engine: one that succeeds, one that fails twice, one that waits for the first."""

import json
import sqlite3
from collections import Counter
from contextlib import closing, suppress
from itertools import pairwise

from botocore.exceptions import BotoCoreError, ClientError

from batchq.domain.enums import Status
from batchq.domain.lifecycle.status import EDGES
from batchq.store.backup import check_file
from tests.service.waiting import container

OVER = {"SUCCEEDED", "FAILED"}
OUTCOMES = {"good": ("SUCCEEDED", 0), "bad": ("FAILED", 1), "after": ("SUCCEEDED", 0)}
SCRIPTS = {"good": {"seconds": 0}, "bad": {"seconds": 0, "exit_code": 1}, "slow": {"seconds": 5}}


def register(batch):
    for name, script in SCRIPTS.items():
        properties = container("true") | {"environment": [{"name": "BATCHQ_SIMULATED", "value": json.dumps(script)}]}
        batch.register_job_definition(jobDefinitionName=name, type="container", containerProperties=properties)


def submit(batch, name, definition=None, **members):
    members |= {"jobName": name, "jobQueue": "default", "jobDefinition": definition or name}
    return batch.submit_job(**members)["jobId"]


def submit_three(batch):
    """The ids of the jobs by name, as far as the server replied."""
    ids = {}
    with suppress(BotoCoreError, ClientError):
        ids["good"] = submit(batch, "good", retryStrategy={"attempts": 5})
        ids["bad"] = submit(batch, "bad", retryStrategy={"attempts": 2})
        waits_for = [{"jobId": ids["good"]}]
        ids["after"] = submit(batch, "after", "good", dependsOn=waits_for, retryStrategy={"attempts": 5})
    return ids


def names_kept(data):
    """How many jobs of each name there are."""
    with closing(_database(data)) as database:
        return Counter(name for (name,) in database.execute("SELECT name FROM jobs"))


def check_kept(data):
    """The stored data is complete, every status change is legal, and no job ran before its dependencies."""
    assert check_file(data / "batchq.db").problems == ()
    with closing(_database(data)) as database:
        walks = {job_id: _walk(database, job_id) for (job_id,) in database.execute("SELECT id FROM jobs")}
        rows = database.execute("SELECT id, name, status, state FROM jobs").fetchall()
    for job_id, walk in walks.items():
        statuses = [Status(job["status"]) for job in walk]
        assert statuses[0] is Status.SUBMITTED, walk
        assert all(after in EDGES[before] for before, after in pairwise(statuses)), walk
        assert {job_id: str(statuses[-1])}.items() <= {row[0]: row[2] for row in rows}.items()
    for job_id, name, status, state in rows:
        check_attempts(name, status, json.loads(state), walks[job_id])
    check_order({name: walks[job_id] for job_id, name, *_ in rows})


def check_attempts(name, status, state, walk):
    """No attempt is forgotten or invented, and the end is the true one."""
    begun = sum(job["status"] == "STARTING" for job in walk)
    attempts = state.get("attempts", [])
    assert [attempt["number"] for attempt in attempts] == list(range(1, len(attempts) + 1))
    assert len(attempts) + ("attempt" in state) == begun, walk
    if status in OVER:
        code = attempts[-1].get("exit_code")
        assert (status, code) == OUTCOMES.get(name, OUTCOMES["good"]) or (name == "bad" and code is None), (name, state)


def check_order(walks):
    """The dependent job starts after the other has succeeded."""
    if "after" in walks and (started := _at(walks["after"], "STARTING")):
        assert started >= _at(walks["good"], "SUCCEEDED")


def _at(walk, status):
    return next((job["at"] for job in walk if job["status"] == status), None)


def _walk(database, job_id):
    found = database.execute(
        "SELECT value FROM job_history JOIN jobs USING (sequence) WHERE id = ? ORDER BY number", [job_id]
    ).fetchall()
    return [json.loads(document) for (document,) in found]


def _database(data):
    return sqlite3.connect(f"file:{data / 'batchq.db'}?mode=ro", uri=True)
