"""redun's AWS Batch functions: it compares definitions member for member, and reads arrays and logs."""


def test_redun_submits_watches_and_reads_logs(client):
    told = client.tells("redun_jobs", "batchq-test:latest")

    assert told["statuses"] == ["SUCCEEDED", "FAILED"]
    assert told["attempts"] == [5, 5]
    assert [line.split("  ")[1] for line in told["lines"]] == ["seen by redun"]


def test_redun_finds_the_definition_it_made_before(client):
    first, second = (client.tells("redun_jobs", "batchq-test:latest") for _ in range(2))

    assert first["definitions"] == 1
    assert second["definition"] == first["definition"]


def test_redun_reads_the_children_of_an_array(client):
    told = client.tells("redun_jobs", "batchq-test:latest", "array")

    assert told["array"] == ["FAILED", "SUCCEEDED", "FAILED"]
