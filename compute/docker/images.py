"""Getting an image. The engine says yes at once, and tells of failure in the stream that follows."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from threading import Lock

from docker.errors import APIError, DockerException
from requests.exceptions import ReadTimeout
from urllib3.exceptions import ReadTimeoutError

from batchq.compute.docker.client import Client
from batchq.compute.docker.errors import LONGEST_REASON, message_of, reason
from batchq.errors import ImageUnavailable

FAILED = "CannotPullContainerError"


class Pull:
    """One pull, made by one thread, which any other may cancel."""

    def __init__(self, image: str, platform: str | None) -> None:
        self._image = image
        self._platform = platform
        self._lock = Lock()
        self._client: Client | None = None
        self._cancelled = False

    def run(self, client: Client) -> None:
        """With the credentials of docker's own config. Raises ImageUnavailable."""
        with self._lock:
            self._client = client
        try:
            self._pull(client)
        finally:
            with self._lock:
                self._client = None
                client.cut()  # or the engine goes on with a pull that failed here

    def cancel(self) -> None:
        """The engine stops a pull whose connection ends."""
        with self._lock:
            self._cancelled = True
            if self._client is not None:
                self._client.cut()

    def _pull(self, client: Client) -> None:
        _read_credentials(client)
        try:
            for line in client.pull(self._image, stream=True, decode=True, platform=self._platform):
                if isinstance(line, dict) and "error" in line:
                    raise ImageUnavailable(reason(FAILED, DockerException(line["error"])))
                if self._cancelled:
                    raise ImageUnavailable(f"{FAILED}: cancelled")
        except APIError as error:
            raise ImageUnavailable(reason(FAILED, error)) from error
        except DockerException as error:  # not the engine's: it was not asked, as for want of a helper for credentials
            raise ImageUnavailable(f"{FAILED}: {message_of(error)}"[:LONGEST_REASON]) from error
        except (ReadTimeout, ReadTimeoutError) as error:
            # The engine may be stuck, and then nothing is known; or only the registry, and then nothing will come.
            client.ping()
            raise ImageUnavailable(f"{FAILED}: no progress for {client.patience:.0f} seconds") from error


async def within(seconds: float, pull: Pull, threads: Callable[[Callable[[Client], None]], Awaitable[None]]) -> None:
    """Make it by one of these threads, in so many seconds from when it begins: a registry may make progress for ever.

    Cancelled, the engine stops it. Raises ImageUnavailable.
    """
    loop = asyncio.get_running_loop()

    def begin() -> None:
        with suppress(RuntimeError):  # cancelled meanwhile
            limit.reschedule(loop.time() + seconds)

    def run(client: Client) -> None:
        loop.call_soon_threadsafe(begin)
        pull.run(client)

    try:
        async with asyncio.timeout(None) as limit:
            await threads(run)
    except TimeoutError:
        pull.cancel()
        raise ImageUnavailable(f"{FAILED}: not complete after {seconds:.0f} seconds") from None
    except asyncio.CancelledError:
        pull.cancel()
        raise


def _read_credentials(client: Client) -> None:
    """Anew each time: somebody may have logged in, and some registries give credentials for hours only."""
    try:
        client.reload_config()
    except (DockerException, ValueError, AttributeError, TypeError) as error:  # the SDK expects a config in good order
        raise ImageUnavailable(f"{FAILED}: docker's config cannot be read ({type(error).__name__})") from error
