"""The examples of the documentation run as written, and their recorded output is current."""

from contextlib import closing
from dataclasses import replace

import pytest

from tests.bench.wire import Caller
from tests.docs.blocks import not_run
from tests.docs.engine import example_engine
from tests.docs.pages import (
    CLIENTS,
    DOCKER,
    LANGUAGES_OF_COMMANDS,
    OTHER_LANGUAGES,
    ROOT,
    SIMULATED,
    Example,
    blocks,
    examples,
    name,
    pages_for_users,
    pages_with_examples,
)
from tests.docs.record import current, played
from tests.docs.session import Session


def assert_current(page, folder):
    text = page.read_text()

    plays = played(page, folder)

    assert current(text, plays) == text, f"run: python -m tests.docs.record {name(page)}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", pages_with_examples(SIMULATED), ids=name)
def test_examples_run_with_simulated_containers(page, tmp_path):
    assert_current(page, tmp_path)


@pytest.mark.docker
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", pages_with_examples(DOCKER), ids=name)
def test_examples_run_on_docker(page, tmp_path, docker_engine):
    with example_engine(tmp_path):
        assert_current(page, tmp_path)


@pytest.mark.clients
@pytest.mark.docker
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", pages_with_examples(CLIENTS), ids=name)
def test_examples_run_with_the_clients_of_other_projects(page, tmp_path, docker_engine):
    with example_engine(tmp_path):
        assert_current(page, tmp_path)


def test_only_the_page_on_simulated_containers_runs_without_docker():
    assert [name(page) for page in pages_with_examples(SIMULATED)] == ["docs/ci.md"]
    assert not [page for page in pages_with_examples(DOCKER) if "BATCHQ_SIMULATED" in page.read_text()]


@pytest.mark.process
def test_a_failed_command_fails_its_block_although_the_last_one_succeeds(tmp_path):
    shell = Session(tmp_path, docker=False)
    try:
        with pytest.raises(AssertionError, match="false"):
            shell.play(Example(action="run", argument="", language="sh", text="false\ntrue\n"))
    finally:
        shell.close()


def test_each_block_of_commands_is_run_or_has_a_reason():
    assert not LANGUAGES_OF_COMMANDS & OTHER_LANGUAGES
    found = [(name(page), block) for page in pages_for_users() for block in blocks(page.read_text())]

    assert {block.language for _, block in found} <= LANGUAGES_OF_COMMANDS | OTHER_LANGUAGES
    unmarked = {(page, block.first) for page, block in found if block.is_of_commands and not block.is_example}
    assert unmarked == set(not_run())
    words = (word.rstrip(":,") for reason in not_run().values() for word in reason.split())
    assert all((ROOT / word).exists() for word in words if word.startswith(("tests/", ".ci/")))


TRAINING = (
    """busybox -e 'BATCHQ_SIMULATED={"seconds": 600, "output": ["step=1"], "on_request": "epoch-1", "on_term": 0}'"""
)


def block_of_readme(command):
    """The block of README with this command."""
    return next(example for example in examples((ROOT / "README.md").read_text()) if command in example.text)


@pytest.mark.exhaustive
def test_the_commands_of_readme_for_the_aws_cli_end_when_the_job_fails(tmp_path):
    failing = ' "environment": [{"name": "BATCHQ_SIMULATED", "value": "{\\"exit_code\\": 1}"}],'
    block = block_of_readme("aws batch submit-job")
    assert '"image": "busybox",' in block.text
    text = block.text.replace('"image": "busybox",', '"image": "busybox",' + failing)
    shell = Session(tmp_path, docker=False)
    try:
        shell.start_server("batchq serve", "")

        with pytest.raises(AssertionError, match=r"(?m)^FAILED$"):
            shell.play(replace(block, text=text))
    finally:
        shell.close()


@pytest.mark.exhaustive
def test_the_job_that_readme_pauses_is_running(tmp_path):
    block = block_of_readme("batchq pause @")
    assert "make trainer" in block.text
    commands = "\n".join(line for line in block.text.splitlines() if not line.startswith("make "))
    shell = Session(tmp_path, docker=False)
    try:
        shell.start_server("batchq serve", "")

        printed = shell.play(replace(block, text=commands.replace("batchq-trainer -e STEPS=3000", TRAINING)))
    finally:
        shell.close()

    (pausing,) = (line for line in printed if "pausing since" in line)
    assert pausing.endswith("(RUNNING)")
    assert printed[-1].startswith("1 stopping (final checkpoint")


@pytest.mark.docker
def test_the_sweep_of_readme_is_drawn_on_the_page_of_its_group(tmp_path, docker_engine):
    shell = Session(tmp_path, docker=True)
    with example_engine(tmp_path):
        try:
            shell.start_server("batchq serve", "")
            shell.play(block_of_readme("--each"))

            with closing(Caller(shell.url)) as call:
                (group,) = call("batchq/listgroups", groupName="fit")["groups"]
                page = call.get(f"/ui/groups/{group['groupId']}")
        finally:
            shell.close()

    assert 'aria-label="loss over rate' in page


def test_the_workflow_runs_commands_that_other_examples_run():
    """GitHub's runner is not here; its steps are `pip install`, and the tests that the page runs itself."""
    (page,) = pages_with_examples(SIMULATED)
    found = examples(page.read_text())

    (workflow,) = (example for example in found if example.action == "workflow")

    steps = [line.partition("run: ")[2] for line in workflow.text.splitlines() if "- run: " in line]
    assert steps == ["pip install './batchq[testing]' boto3", "pytest -q"]
    assert any(line.text.startswith("pytest -q") for line in found)
