"""What clients read of jobs: GetOverview, GetJob, ExplainJob, GetJobHistory and ListAudit."""

from itertools import product

import pytest

from batchq.api.native import job_search
from batchq.domain import events as on
from batchq.domain.access.accounts import AccountName, Caller, Owner, UserName
from batchq.domain.enums import Status
from batchq.domain.times import milliseconds
from batchq.domain.use import Use
from batchq.ports.jobs import Changes
from tests.api.several import DUO, GANG
from tests.support.builders import ADMIN, NOON, attempt, job, moment

UNKNOWN = "5d1f6c1e-0000-4000-8000-000000000000"
ANN = Owner(user=UserName("ann"), account=AccountName("lab"))
BOB = Owner(user=UserName("bob"), account=AccountName("lab"))


@pytest.fixture
def overview(accepted):
    return lambda: accepted("batchq/Overview", {})


@pytest.fixture
async def get_job(http):
    async def get_job(job_id):
        status, _, answer = await http.send("GET", f"/v1/batchq/jobs/{job_id.replace('#', '%23')}")
        assert status == 200, answer
        return answer["job"]

    return get_job


async def test_an_overview_counts_jobs_and_names_the_longest_running(server, submit, overview, http):
    runs, fails = await submit("runs"), await submit("fails")
    await http.post("CancelJob", {"jobId": await submit("stopped"), "reason": "not a failure"})
    await submit("waits")
    for job_id in (runs, fails):
        await server.runs(job_id)
    await server.ends(fails, exit_code=3)
    server.arrange_machines()

    answer = await overview()

    assert answer["queues"][0]["counts"] == {"SUBMITTED": 1, "RUNNING": 1}
    assert [other_job["jobId"] for other_job in answer["longestRunning"]] == [runs]
    assert answer["capacity"][0]["vcpus"] == {"limit": 4, "requested": 1}
    assert answer["capacity"][0]["memoryMiB"] == {"limit": 1024, "requested": 64}
    assert answer["failed"]["groups"] == [{"jobDefinition": "sleeper:1", "reason": "Exit code 3", "count": 1}]


async def test_an_overview_neither_counts_nor_names_the_jobs_of_others(server, default_queue):
    jobs = [
        job(number=number, status=status, owner=owner, started_at=NOON, runnable_at=NOON)
        for number, (owner, status) in enumerate(
            (owner, status) for owner in (ANN, BOB) for status in (Status.RUNNABLE, Status.RUNNING)
        )
    ]
    failed = [job(number=10, status=Status.FAILED, owner=BOB, attempts=(attempt(exit_code=1),))]
    await server.store.commit(Changes(inserted=(*jobs, *failed), history=tuple(map(moment, failed))))
    seen = {
        caller.user: await server.overviews.overview(caller=caller)
        for caller in (
            ADMIN,
            Caller(user=ANN.user, account=ANN.account),
            Caller(user=UserName("cora"), coordinates=frozenset({ANN.account})),
            Caller(user=UserName("eve")),
        )
    }

    runnable = {name: overview.queues[0].counts.get(Status.RUNNABLE, 0) for name, overview in seen.items()}
    assert runnable == {"tester": 2, "ann": 1, "cora": 2, "eve": 0}
    running = {name: [job.sequence for job in overview.longest_running] for name, overview in seen.items()}
    assert running == {"tester": [1, 3], "ann": [1], "cora": [1, 3], "eve": []}
    assert {name: counts.failures.count for name, counts in seen.items()} == {
        "tester": 1,
        "ann": 0,
        "cora": 1,
        "eve": 0,
    }
    assert {name for name, overview in seen.items() if overview.queues[0].oldest_runnable_at is None} == {"eve"}


async def test_a_job_has_its_details(server, submit, get_job):
    first = await submit("first", timeout={"attemptDurationSeconds": 90}, tags={"team": "red"})
    then = await submit("then", dependsOn=[{"jobId": first}])
    await server.runs(first)
    await server.ends(first, exit_code=3)

    found, waiting = await get_job(first), await get_job(then)

    assert (found["image"], found["command"]) == ("batchq-test:latest", ["sleep", "1"])
    assert (found["vcpus"], found["memoryMiB"], found["gpus"]) == (1, 64, 0)
    assert (found["timeoutSeconds"], found["tags"]) == (90, {"team": "red"})
    (run,) = found["attempts"]
    assert (run["number"], run["exitCode"], run["stoppedAt"] - run["startedAt"]) == (1, 3, 90_000)
    assert run["logStreamName"] == f"sleeper/default/{first}"
    assert found["dependents"] == [{"jobId": then, "jobName": "then", "status": "SUBMITTED"}]
    assert waiting["dependsOn"] == [{"jobId": first}]


async def test_a_running_and_an_ended_attempt_show_what_was_measured(server, http, submit, get_job):
    job_id, other = await submit("measured"), await submit("other")
    for each in (job_id, other):
        await server.runs(each)
    running = await server.engine.job(job_id)
    server.engine.use.latest[running.tag] = Use(sampled_at=NOON, cpu_seconds=1.5, peak_memory=2**20, bytes_read=0)
    expected = {"sampledAt": milliseconds(NOON), "cpuSeconds": 1.5, "peakMemoryBytes": 2**20, "readBytes": 0}

    found = await get_job(job_id)
    assert (found["use"], found["attempts"][0]["use"]) == (expected, expected)

    await server.engine.save(server.engine.use.measured(running))
    for each in (job_id, other):
        await server.ends(each, exit_code=0)

    _, _, listed = await http.post("batchq/ListJobs", {"jobNames": ["measured"]})
    _, _, ended = await http.post("DescribeJobs", {"jobs": [job_id, other]})
    assert (listed["jobs"][0]["use"], (await get_job(job_id))["use"]) == (expected, expected)
    assert [job["attempts"][0].get("batchq") for job in ended["jobs"]] == [{"use": expected}, None]
    unmeasured = await get_job(other)
    assert ("use" in unmeasured, "use" in unmeasured["attempts"][0]) == (False, False)


async def test_an_attempt_names_the_machine_on_which_it_was_placed(server, submit, get_job):
    here, there = await submit("here"), await submit("there")
    await server.runs(here)
    placed = on.Placed(environment="local", machines=("n1",))
    await server.engine.happens(there, on.DependenciesMet(), placed)

    assert "machine" not in (await get_job(here))["attempts"][0]
    assert (await get_job(there))["attempts"][0]["machine"] == "n1"


async def test_a_node_is_a_job_with_its_own_containers(server, http, submit, get_job):
    for definition in (DUO, GANG):
        await http.post("RegisterJobDefinition", definition)
    gang = await submit(jobDefinition="gang")

    whole, node = await get_job(gang), await get_job(f"{gang}#2")

    assert (whole["nodes"], node["jobId"]) == (4, f"{gang}#2")
    assert [container["name"] for container in node["containers"]] == ["side", "work"]


async def test_times_among_the_figures_are_milliseconds(server, submit, http):
    job_id = await submit()
    await server.runs(job_id)

    _, _, answer = await http.send("GET", f"/v1/batchq/jobs/{job_id}/why")

    assert answer["code"] == "RUNNING"
    assert isinstance(answer["facts"]["startedAt"], int)


async def test_a_search_explains_its_rows_as_the_operation_does(server, submit, http):
    job_id = await submit()
    await server.runs(job_id)
    await server.ends(job_id, exit_code=2)

    status, _, alone = await http.send("GET", f"/v1/batchq/jobs/{job_id}/why")
    _, _, plain = await http.post("batchq/listjobs", {"jobs": [job_id]})
    _, _, explained = await http.post("batchq/listjobs", {"jobs": [job_id], "explain": True})

    assert (status, alone.pop("jobId"), alone["code"]) == (200, job_id, "EXIT_CODE")
    assert (alone["sentence"], type(alone["since"])) == ("Ended with exit code 2.", int)
    assert alone["facts"] == {"exitCode": 2, "attempt": 1, "attempts": 1}
    assert "why" not in plain["jobs"][0]
    assert explained["jobs"][0]["why"] == alone


async def test_an_explained_page_has_at_most_a_hundred_jobs_and_goes_on(server, submit, http, monkeypatch):
    monkeypatch.setattr(job_search, "MAX_EXPLAINED", 2)
    jobs = [await submit() for _ in range(3)]

    _, _, page = await http.post("batchq/listjobs", {"explain": True, "maxResults": 1000})
    rest = {"explain": True, "maxResults": 1000, "nextToken": page["nextToken"]}
    _, _, last = await http.post("batchq/listjobs", rest)

    rows = [*page["jobs"], *last["jobs"]]
    assert [row["jobId"] for row in rows] == jobs[::-1]
    assert [row["why"]["code"] for row in rows] == ["SUBMITTED"] * 3


@pytest.mark.fault("IN19")
@pytest.mark.parametrize("job_id", ["..%2f..%2fetc", "%00", "%ff", "a" * 65, "X"])
async def test_a_malformed_id_is_not_an_operation(http, job_id):
    status, _, _ = await http.send("GET", f"/v1/batchq/jobs/{job_id}/history")

    assert status == 400


async def test_listing_audit_records_of_a_job_and_a_resource_at_once_is_refused(http):
    members = {"job": UNKNOWN, "resource": "job-queue/default"}

    for one in members.items():
        status, _, answer = await http.post("batchq/ListAudit", dict([one]))
        assert (status, answer) == (200, {"records": []})
    status, _, answer = await http.post("batchq/ListAudit", members)

    assert (status, answer["message"]) == (400, "Only one of job and resource can be specified.")


async def test_an_unknown_job_is_not_found(http):
    job_ids = (UNKNOWN, "0:1", "0%231", f"{UNKNOWN}:3", f"{UNKNOWN}%230", f"{UNKNOWN}%2300")
    for job_id, operation in product(job_ids, ("", "/why", "/history")):
        status, _, answer = await http.send("GET", f"/v1/batchq/jobs/{job_id}{operation}")

        assert (status, "not found" in answer["message"]) == (404, True), (job_id, operation)
