"""The check reports each damaged row and changes nothing."""

import sqlite3
from contextlib import closing

import pytest

from batchq.cli.main import main
from batchq.domain.enums import Status
from batchq.errors import StoreRefused
from batchq.ports.jobs import Changes
from batchq.store import statements
from batchq.store.backup import check_file
from batchq.store.database import NAME
from batchq.store.sqlite_store import SqliteStore
from tests.support.builders import definition, environment, job, job_id, log_stream, moment, policy, queue

RUNS = job(number=1, status=Status.RUNNING)


@pytest.fixture
async def data(tmp_path):
    """Something of everything."""
    store = await SqliteStore.open(tmp_path)
    jobs = (job(number=0, depends_on=[RUNS]), RUNS)
    await store.commit(Changes(inserted=jobs, history=tuple(map(moment, jobs)), streams=(log_stream(RUNS),)))
    await store.put_resource(environment(), caller=None)
    await store.put_resource(queue(), caller=None)
    await store.put_resource(policy(), caller=None)
    await store.add_definition(definition(), caller=None)
    await store.close()
    return tmp_path


def changed_by(data, statement):
    with closing(sqlite3.connect(data / NAME, isolation_level=None)) as connection:
        connection.execute(statement)


def test_an_undamaged_database_has_no_problems(data):
    found = check_file(data / NAME)

    assert found.problems == ()
    assert found.schema == statements.newest_schema()
    assert found.jobs == {Status.SUBMITTED: 1, Status.RUNNING: 1}


WRONG = {
    "UPDATE jobs SET state = '{' WHERE sequence = 1": f"job {job_id(1)} is unreadable: ",
    "UPDATE jobs SET state = '[]' WHERE sequence = 1": f"job {job_id(1)} is unreadable: ",
    "UPDATE job_specs SET spec = '{}' WHERE sequence = 1": f"job {job_id(1)} is unreadable: ",
    "DELETE FROM job_specs WHERE sequence = 1": f"job {job_id(1)} is unreadable: its specification is missing",
    "UPDATE jobs SET status = 'FAILED' WHERE sequence = 1": f"job {job_id(1)} is unreadable: its columns are those of ",
    "UPDATE jobs SET consumable_requirements = '7' WHERE sequence = 1": f"job {job_id(1)} is unreadable: ",
    "UPDATE job_history SET value = 'x' WHERE sequence = 1": f"the history of job {job_id(1)} is unreadable: ",
    "UPDATE log_streams SET value = '{}'": "log stream a-definition/default/",
    "UPDATE catalog_resources SET value = '{}' WHERE kind = 'JobQueue'": "JobQueue default is unreadable: ",
    "UPDATE catalog_resources SET value = '{}' WHERE name = 'local'": "ComputeEnvironment local is unreadable: ",
    "UPDATE job_definitions SET value = ''": "a row of job_definitions is unreadable: ",
    "UPDATE catalog_resources SET value = 'null' WHERE name = 'fair'": "SchedulingPolicy fair is unreadable: ",
    "DELETE FROM jobs WHERE sequence = 1": "refers to a missing row of jobs",
}


@pytest.mark.parametrize(("wrong", "message"), WRONG.items(), ids=WRONG)
def test_a_damaged_row_is_reported(data, wrong, message):
    changed_by(data, wrong)

    problems = check_file(data / NAME).problems

    assert message in problems[0]
    assert "\n" not in problems[0]


ANOTHER_INDEX = """
UPDATE sqlite_schema SET sql = replace(sql, 'parent_sequence IS NULL', 'parent_sequence IS NOT NULL')
WHERE name = 'jobs_by_queue'
"""


def test_a_damaged_index_is_reported(data):
    with closing(sqlite3.connect(data / NAME, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(ANOTHER_INDEX)

    assert check_file(data / NAME).problems == ("wrong # of entries in index jobs_by_queue",)


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / NAME).touch()

    with pytest.raises(StoreRefused, match="is empty"):
        check_file(tmp_path / NAME)


def test_a_check_changes_nothing(data):
    before = (data / NAME).read_bytes()

    check_file(data / NAME)

    assert (data / NAME).read_bytes() == before


async def test_a_check_runs_beside_a_server(data, capsys):
    store = await SqliteStore.open(data)

    status = main(["check", "--data", str(data)])

    await store.commit(Changes(inserted=(job(number=2),)))
    await store.close()
    assert status == 0
    assert capsys.readouterr().out.endswith(
        f"{data}/batchq.db: jobs: 1 RUNNING, 1 SUBMITTED\n{data}/batchq.db: no damage found\n"
    )


def test_the_check_command_fails_for_a_damaged_database(data, capsys):
    changed_by(data, "UPDATE catalog_resources SET value = '{}' WHERE kind = 'JobQueue'")

    status = main(["check", str(data / NAME)])

    printed = capsys.readouterr()
    assert status == 1
    assert "JobQueue default is unreadable" in printed.out
    assert printed.err == f"batchq: {data}/batchq.db is damaged\n"
