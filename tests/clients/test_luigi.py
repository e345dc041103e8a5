"""Luigi's contrib.batch: its scheduler runs tasks as jobs, and brings a failed job's log home in the error."""

import json

from tests.service.waiting import container


def test_luigi_runs_its_tasks_as_jobs_and_reads_why_one_failed(client):
    definition = client.folder / "greet.json"
    properties = container("sh", "-c", "echo said Ref::word; test Ref::word = hello")
    shown = {"jobDefinitionName": "greet", "type": "container", "parameters": {"word": "x"}}
    definition.write_text(json.dumps(shown | {"containerProperties": properties}))

    failure, success = client.tells("luigi_tasks", definition)

    assert success == "SUCCESS hello"
    assert failure.startswith("FAILURE Job ")
    assert failure.endswith(" failed: said fail")
