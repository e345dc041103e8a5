"""ExplainJob: the wire of explanations; `tests/scenarios/test_why_*.py` has their texts."""

import pytest

from batchq.api.native import job_search


async def test_times_among_the_figures_are_milliseconds(server, submit, http):
    job_id = await submit()
    await server.runs(job_id)

    _, _, answer = await http.send("GET", f"/v1/batchq/jobs/{job_id}/why")

    assert answer["code"] == "RUNNING"
    assert isinstance(answer["facts"]["startedAt"], int)


@pytest.mark.parametrize("suffix", ["", ":3", "#0", "#00"])
async def test_an_unknown_job_is_not_explained(http, suffix):
    path = f"/v1/batchq/jobs/5d1f6c1e-0000-4000-8000-000000000000{suffix.replace('#', '%23')}/why"

    status, _, answer = await http.send("GET", path)

    assert status == 404
    assert "not found" in answer["message"]


async def test_a_search_explains_its_rows_as_the_operation_does(server, submit, http):
    job_id = await submit()
    await server.runs(job_id)
    await server.ends(job_id, exit_code=2)

    status, _, alone = await http.send("GET", f"/v1/batchq/jobs/{job_id}/why")
    _, _, plain = await http.post("batchq/listjobs", {"ids": [job_id]})
    _, _, explained = await http.post("batchq/listjobs", {"ids": [job_id], "explain": True})

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
    assert [it["jobId"] for it in rows] == jobs[::-1]
    assert [it["why"]["code"] for it in rows] == ["SUBMITTED"] * 3
