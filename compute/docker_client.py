"""Where the engine is, and clients to speak with it. Nothing is asked before the first call, so it may be down."""

import logging
from contextlib import closing
from typing import Any

import docker
import requests
from docker.transport import UnixHTTPAdapter
from docker.transport.unixconn import UnixHTTPConnectionPool
from docker.utils import kwargs_from_env, parse_host

from compute.docker_found import member

NEWEST = "1.45"  # of the engine's API that batchq asks for; Docker 20.10 speaks 1.41
ASKING_VERSION = 10.0  # seconds

log = logging.getLogger(__name__)


class OneConnection(UnixHTTPAdapter):
    """The SDK keeps a connection for each of the last 25 URLs; a thread that asks one thing at a time needs one."""

    def get_connection(self, url: bytes | str, proxies: object = None) -> UnixHTTPConnectionPool:  # noqa: ARG002 - one for all
        return super().get_connection("http+docker://localhost", proxies)


class Client(docker.APIClient):
    """The SDK's low-level client for one thread, which waits for no byte longer than its patience.

    The SDK itself waits for ever on a pull and on the event stream.
    """

    def __init__(self, *, patience: float, **address: Any) -> None:  # noqa: ANN401 - the SDK's own
        super().__init__(**address)
        self.patience = patience
        adapter = self.get_adapter(self.base_url)
        if isinstance(adapter, UnixHTTPAdapter):
            self.mount("http+docker://", OneConnection(f"http+unix://{adapter.socket_path}"))

    def request(self, *named: Any, **options: Any) -> requests.Response:  # noqa: ANN401 - whatever the SDK asks for
        return super().request(*named, **options | {"timeout": self.patience})


class Door:
    """Makes clients that speak the API version agreed with the engine; the engine is asked for its own once."""

    def __init__(self, base_url: str | None) -> None:
        """Without an address it is that of DOCKER_HOST and its kin, or else the usual socket."""
        self._address = kwargs_from_env() | ({"base_url": base_url} if base_url else {})
        self._version: str | None = None

    @property
    def socket(self) -> str | None:
        """The engine's unix socket, None where it is reached another way."""
        url = str(parse_host(self._address.get("base_url"), False, "tls" in self._address))  # noqa: FBT003 - not Windows
        return url.removeprefix("http+unix://") if url.startswith("http+unix://") else None

    def client(self, before: Client | None, *, patience: float) -> Client:
        """The client used before, or a new one if there was none or the engine speaks another version now."""
        version = self._version = self._version or self._agreed()
        if before is not None and before.api_version == version:
            return before
        if before is not None:
            before.close()
        return self._client(version, patience=patience)

    def forget_version(self) -> None:
        """The engine may have been exchanged."""
        self._version = None

    def _agreed(self) -> str:
        with closing(self._client(NEWEST, patience=ASKING_VERSION)) as client:
            engine = client.version(api_version=False)
        version = agree(member(engine, "ApiVersion"), engine.get("MinAPIVersion"))
        log.info("Docker engine %s, API %s", engine.get("Version"), version)
        return version

    def _client(self, version: str, *, patience: float) -> Client:
        return Client(patience=patience, version=version, **self._address)


def agree(newest: str, oldest: str | None) -> str:
    """The newest API version that both sides know; if there is none, the engine's that is nearest."""
    ours = min(NEWEST, newest, key=_numbers)
    return max(ours, oldest or ours, key=_numbers)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
