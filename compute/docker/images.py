"""Pulls and inspects images.

The engine replies 200 to a pull at once, and reports its errors in the stream that follows.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Lock

from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import ReadTimeout
from urllib3.exceptions import ReadTimeoutError

from batchq.compute.docker.client import Client
from batchq.compute.docker.errors import MAX_REASON, agent_reason, create_error, message_of
from batchq.compute.docker.inspection import member
from batchq.errors import ImageMissing, ImageUnavailable

PULL_FAILED = "CannotPullContainerError"


class Pull:
    """One pull, executed by one thread; any other thread may cancel it."""

    def __init__(self, image: str, platform: str | None) -> None:
        self._image = image
        self._platform = platform
        self._lock = Lock()
        #: The client that pulls; None: the pull has not begun, or has ended.
        self._client: Client | None = None
        self._cancelled = False

    def run(self, client: Client) -> None:
        """Pull with the credentials in Docker's client configuration. Raises ImageUnavailable."""
        with self._lock:
            self._client = client
        try:
            self._pull(client)
        finally:
            with self._lock:
                self._client = None
                client.abort_stream()  # or the engine would continue a pull that failed here

    def cancel(self) -> None:
        """Cancel the pull by shutting down its connection: the engine then aborts it."""
        with self._lock:
            self._cancelled = True
            if self._client is not None:
                self._client.abort_stream()

    def _pull(self, client: Client) -> None:
        _read_credentials(client)
        try:
            for line in client.pull(self._image, stream=True, decode=True, platform=self._platform):
                if isinstance(line, dict) and "error" in line:
                    raise ImageUnavailable(agent_reason(PULL_FAILED, DockerException(line["error"])))
                if self._cancelled:
                    raise ImageUnavailable(f"{PULL_FAILED}: cancelled")
        except APIError as error:
            raise ImageUnavailable(agent_reason(PULL_FAILED, error)) from error
        except DockerException as error:  # the SDK's own, before any request, such as a missing credential helper
            raise ImageUnavailable(f"{PULL_FAILED}: {message_of(error)}"[:MAX_REASON]) from error
        except (ReadTimeout, ReadTimeoutError) as error:
            # If the engine itself does not reply, the ping raises, and the outcome is unknown; else the registry hangs.
            client.ping()
            raise ImageUnavailable(f"{PULL_FAILED}: no progress for {client.receive_timeout:.0f} seconds") from error


async def pull_within(
    seconds: float, pull: Pull, threads: Callable[[Callable[[Client], None]], Awaitable[None]]
) -> None:
    """Execute the pull in a thread, with a timeout in seconds from its start: a registry could send data for ever.

    `threads` executes a function in a thread with a client. If cancelled, the engine aborts the pull. Raises
    ImageUnavailable.
    """
    loop = asyncio.get_running_loop()

    def start_timeout() -> None:
        with suppress(RuntimeError):  # the timeout context has ended: the pull was cancelled meanwhile
            limit.reschedule(loop.time() + seconds)

    def run(client: Client) -> None:
        loop.call_soon_threadsafe(start_timeout)
        pull.run(client)

    try:
        async with asyncio.timeout(None) as limit:
            await threads(run)
    except TimeoutError:
        pull.cancel()
        raise ImageUnavailable(f"{PULL_FAILED}: not complete after {seconds:.0f} seconds") from None
    except asyncio.CancelledError:
        pull.cancel()
        raise


def image_user(client: Client, image: str) -> str:
    """The user in the image's configuration; empty: none. Raises ImageMissing and StartRefused."""
    try:
        inspected: object = client.inspect_image(image)  # type: ignore[no-untyped-call]  # it has no types in the stubs
    except NotFound as error:
        raise ImageMissing(message_of(error)) from error
    except APIError as error:
        raise create_error(error) from error
    user = member(inspected, "Config", "User", of=object)
    return user if isinstance(user, str) else ""


def _read_credentials(client: Client) -> None:
    """Read Docker's client configuration for each pull: it changes with `docker login`, and credentials can expire."""
    try:
        client.reload_config()
    except (DockerException, ValueError, AttributeError, TypeError) as error:  # the SDK does not check its structure
        raise ImageUnavailable(f"{PULL_FAILED}: docker's config cannot be read ({type(error).__name__})") from error
