"""Getting an image. The engine says yes at once, and tells of failure in the stream that follows."""

from docker.errors import APIError, DockerException
from requests.exceptions import ReadTimeout
from urllib3.exceptions import ReadTimeoutError

from batchq.errors import ImageUnavailable
from compute.docker_client import Client
from compute.docker_errors import reason

FAILED = "CannotPullContainerError"


def pull(client: Client, image: str, platform: str | None) -> None:
    """Raises ImageUnavailable. It waits as long as there is progress."""
    try:
        for line in client.pull(image, stream=True, decode=True, platform=platform):
            if isinstance(line, dict) and "error" in line:
                raise ImageUnavailable(reason(FAILED, DockerException(line["error"])))
    except APIError as error:
        raise ImageUnavailable(reason(FAILED, error)) from error
    except (ReadTimeout, ReadTimeoutError) as error:
        # The engine may be stuck, and then nothing is known; or only the registry, and then nothing will come.
        client.ping()
        raise ImageUnavailable(f"{FAILED}: no progress for {client.patience:.0f} seconds") from error
