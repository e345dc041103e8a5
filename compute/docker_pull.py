"""Getting an image. The engine says yes at once, and tells of failure in the stream that follows."""

from docker.errors import APIError, DockerException
from requests.exceptions import ReadTimeout
from urllib3.exceptions import ReadTimeoutError

from batchq.errors import ImageUnavailable
from compute.docker_client import Client
from compute.docker_errors import LONGEST_REASON, reason, told

FAILED = "CannotPullContainerError"


def pull(client: Client, image: str, platform: str | None) -> None:
    """With the credentials of docker's own config. Raises ImageUnavailable. It waits as long as there is progress."""
    _read_credentials(client)
    try:
        for line in client.pull(image, stream=True, decode=True, platform=platform):
            if isinstance(line, dict) and "error" in line:
                raise ImageUnavailable(reason(FAILED, DockerException(line["error"])))
    except APIError as error:
        raise ImageUnavailable(reason(FAILED, error)) from error
    except DockerException as error:  # not the engine's: it was not asked, as for want of a helper for credentials
        raise ImageUnavailable(f"{FAILED}: {told(error)}"[:LONGEST_REASON]) from error
    except (ReadTimeout, ReadTimeoutError) as error:
        # The engine may be stuck, and then nothing is known; or only the registry, and then nothing will come.
        client.ping()
        raise ImageUnavailable(f"{FAILED}: no progress for {client.patience:.0f} seconds") from error


def _read_credentials(client: Client) -> None:
    """Anew each time: somebody may have logged in, and some registries give credentials for hours only."""
    try:
        client.reload_config()
    except (DockerException, ValueError, AttributeError, TypeError) as error:  # the SDK expects a config in good order
        raise ImageUnavailable(f"{FAILED}: docker's config cannot be read ({type(error).__name__})") from error
