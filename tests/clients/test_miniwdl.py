"""miniwdl with its AWS backend: tasks as jobs over a file system that host and jobs share."""

import json

import pytest

TASK = """version 1.0
task greet {
  input { String who }
  command <<< echo "hello ~{who}" | tee written.txt; test ~{who} != unwelcome >>>
  output { String written = read_string("written.txt") }
  runtime { docker: "IMAGE" cpu: 1 memory: "64M" }
}
"""
SETTINGS = """[scheduler]
container_backend = aws_batch_job_no_efs
[aws]
task_queue = default
describe_period = 0.5
submit_period = 0.1
[file_io]
root = FOLDER
[task_runtime]
command_shell = bash
"""


@pytest.fixture
def miniwdl(client, image):
    (client.folder / "greet.wdl").write_text(TASK.replace("IMAGE", image))
    (client.folder / "settings.ini").write_text(SETTINGS.replace("FOLDER", str(client.folder)))

    def run(who, status):
        words = ("greet.wdl", f"who={who}", "--cfg", "settings.ini", "--dir", client.folder / "runs")
        return client.run("miniwdl", "run", *words, status=status)

    return run


def test_miniwdl_runs_a_task_and_reads_its_output(miniwdl):
    done = miniwdl("you", status=0)

    assert json.loads(done.stdout)["outputs"] == {"greet.written": "hello you"}


def test_miniwdl_tells_a_failed_command_from_trouble(miniwdl):
    done = miniwdl("unwelcome", status=1)

    assert "task command failed with exit status 1" in done.stderr
    assert 'statusReason: "Essential container in task exited"' in done.stderr


def test_miniwdl_leaves_no_active_definition_behind(miniwdl, client):
    miniwdl("you", status=0)

    (page,) = client.service.client().get_paginator("describe_job_definitions").paginate(status="ACTIVE")
    assert [
        definition for definition in page["jobDefinitions"] if definition["jobDefinitionName"].startswith("greet-")
    ] == []
