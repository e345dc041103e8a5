"""Airflow, Luigi, Metaflow, redun and TorchX: each runs jobs by its own operator, and reads their ends and logs."""

import json

from tests.service.waiting import container, register


def test_airflow_runs_fails_and_kills_jobs_and_copies_their_logs(client):
    register(client.service.client(), "small", "sh", "-c", "echo seen by Ref::word")

    done = client.run("python", client.program("airflow_operator"), "small")

    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["good"]
    assert "AWS Batch job" in seen["bad"]
    assert "'exitCode': 4" in seen["bad"]
    assert seen["long"] == "Task killed by the user"
    assert seen["logs"]["awslogs_group"] == "/aws/batch/job"
    assert seen["logs"]["awslogs_stream_name"].startswith("small/default/")
    assert "seen by airflow" in done.stdout


def test_luigi_runs_its_tasks_as_jobs_and_reads_why_one_failed(client):
    definition = client.folder / "greet.json"
    properties = container("sh", "-c", "echo wrote Ref::word; test Ref::word = hello")
    shown = {"jobDefinitionName": "greet", "type": "container", "parameters": {"word": "x"}}
    definition.write_text(json.dumps(shown | {"containerProperties": properties}))

    failure, success = client.result_of("luigi_tasks", definition)

    assert success == "SUCCESS hello"
    assert failure.startswith("FAILURE Job ")
    assert failure.endswith(" failed: wrote fail")


def test_metaflow_launches_watches_lists_and_kills(client):
    seen = client.result_of("metaflow_jobs")

    assert seen["good"] == ["SUCCEEDED", 0, None, "Essential container in task exited"]
    assert seen["bad"] == ["FAILED", 3, None, "Essential container in task exited"]
    assert seen["long"] == ["FAILED", 137, None, "Metaflow initiated job termination."]
    assert seen["unfinished"]


def test_metaflow_finds_the_definition_it_made_before(client):
    (first,), (second,) = (client.result_of("metaflow_jobs")["definitions"] for _ in range(2))

    assert first == second


def test_redun_submits_watches_and_reads_logs(client):
    seen = client.result_of("redun_jobs", "batchq-test:latest")

    assert seen["statuses"] == ["SUCCEEDED", "FAILED"]
    assert seen["attempts"] == [5, 5]
    assert [line.split("  ")[1] for line in seen["lines"]] == ["seen by redun"]


def test_redun_finds_the_definition_it_made_before(client):
    first, second = (client.result_of("redun_jobs", "batchq-test:latest") for _ in range(2))

    assert first["definitions"] == 1
    assert second["definition"] == first["definition"]


def test_redun_reads_the_children_of_an_array(client):
    seen = client.result_of("redun_jobs", "batchq-test:latest", "array")

    assert seen["array"] == ["FAILED", "SUCCEEDED", "FAILED"]


def test_torchx_runs_an_application_as_a_gang(client):
    seen = client.result_of("torchx_app", "batchq-test:latest")

    assert seen["state"] == "SUCCEEDED"
    assert [line.strip() for line in seen["lines"]] == ["main"]
    assert seen["listed"] == 1
