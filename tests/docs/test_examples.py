"""The examples of the documentation run as written, and their recorded output is current."""

import subprocess
from contextlib import closing, suppress

import pytest
from docker.errors import APIError

from tests.docs.pages import examples, name, pages_with_examples
from tests.docs.record import current, played
from tests.docs.session import BINARIES
from tests.support.docker_api import docker_api
from tests.trainer.image import ensure_image

TEST_IMAGE, IMAGE = "batchq-test:latest", "busybox:latest"


def assert_current(page, folder, *, docker):
    text = page.read_text()

    plays = played(page, folder, docker=docker)

    assert current(text, plays) == text, f"run: python -m tests.docs.record {name(page)}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", pages_with_examples(docker=False), ids=name)
def test_examples_run_with_simulated_containers(page, tmp_path):
    assert_current(page, tmp_path, docker=False)


@pytest.mark.docker
@pytest.mark.parametrize("page", pages_with_examples(docker=True), ids=name)
def test_examples_run_on_docker(page, tmp_path, busybox):
    try:
        assert_current(page, tmp_path, docker=True)
    finally:
        remove_containers(tmp_path / "data")


def remove_containers(data):
    """Remove the containers and networks of the last server of a page."""
    checked = subprocess.run(
        [BINARIES / "batchq", "check", "--data", data], capture_output=True, text=True, check=False
    )
    instance = checked.stdout.partition("instance ")[2].partition(",")[0]
    with closing(docker_api()) as engine:
        ours = {"label": f"io.batchq.instance={instance}"}
        for it in engine.containers(all=True, filters=ours):
            with suppress(APIError):
                engine.remove_container(it["Id"], v=True, force=True)
        for it in engine.networks(filters=ours):
            engine.remove_network(it["Id"])


@pytest.fixture
def busybox(docker_engine):
    """The image of the examples. Where the engine has none, the test image bears its name meanwhile."""
    ensure_image()
    with closing(docker_api()) as engine:
        absent = not engine.images(name=IMAGE)
        if absent:
            engine.tag(TEST_IMAGE, "busybox", tag="latest")
        yield
        if absent:
            engine.remove_image(IMAGE, noprune=True)


def test_the_workflow_runs_commands_that_other_examples_run():
    """GitHub's runner is not here; its steps are `pip install`, and the tests that the page runs itself."""
    page = next(it for it in pages_with_examples(docker=False) if it.name == "ci.md")
    found = examples(page.read_text())

    (workflow,) = (it for it in found if it.action == "workflow")

    steps = [line.partition("run: ")[2] for line in workflow.text.splitlines() if "- run: " in line]
    assert steps == ["pip install ./batchq boto3 pytest", "pytest -q"]
    assert any(it.text.startswith("pytest -q") for it in found)
