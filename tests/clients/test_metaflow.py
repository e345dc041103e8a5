"""Metaflow's client of AWS Batch, from the definition it makes of a step to the kill."""


def test_metaflow_launches_watches_lists_and_kills(client):
    told = client.tells("metaflow_jobs")

    assert told["good"] == ["SUCCEEDED", 0, None, "Essential container in task exited"]
    assert told["bad"] == ["FAILED", 3, None, "Essential container in task exited"]
    assert told["long"] == ["FAILED", 137, None, "Metaflow initiated job termination."]
    assert told["unfinished"]


def test_metaflow_finds_the_definition_it_made_before(client):
    (first,), (second,) = (client.tells("metaflow_jobs")["definitions"] for _ in range(2))

    assert first == second
