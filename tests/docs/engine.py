"""The container engine of examples on Docker: their image, and the removal of what their servers leave."""

import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from docker.errors import APIError

from tests.docs.session import BINARIES
from tests.support.docker_api import docker_api

TEST_IMAGE, IMAGE = "batchq-test:latest", "busybox:latest"


@contextmanager
def example_engine(folder: Path) -> Iterator[None]:
    """The image of examples exists; at the end the containers of the server in `folder` are removed.

    Where the engine has no busybox, the test image has that name meanwhile.
    """
    with closing(docker_api()) as engine:
        is_absent = not engine.images(name=IMAGE)
        if is_absent:
            engine.tag(TEST_IMAGE, "busybox", tag="latest")
        try:
            yield
        finally:
            remove_containers(folder / "data")
            if is_absent:
                engine.remove_image(IMAGE, noprune=True)


def remove_containers(data: Path) -> None:
    """Remove the containers and networks of the last server of a page."""
    checked = subprocess.run(
        [BINARIES / "batchq", "check", "--data", data], capture_output=True, text=True, check=False
    )
    instance = checked.stdout.partition("instance ")[2].partition(",")[0]
    with closing(docker_api()) as engine:
        ours = {"label": f"io.batchq.instance={instance}"}
        for container in engine.containers(all=True, filters=ours):
            with suppress(APIError):
                engine.remove_container(container["Id"], v=True, force=True)
        for network in engine.networks(filters=ours):
            engine.remove_network(network["Id"])
