"""The address of the engine, and API clients for it. No request is made before the first call: it may be down.

The API version is negotiated once for all clients. The engine replies to `/version` in any API version.
"""

import json
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from typing import Any, Protocol

import docker
import requests
from docker.errors import APIError, DockerException
from docker.transport import UnixHTTPAdapter
from docker.transport.unixconn import UnixHTTPConnection, UnixHTTPConnectionPool
from docker.utils import convert_filters, kwargs_from_env, parse_host

from batchq.compute.docker.connection import EngineConnection, Parameters, with_parameters
from batchq.compute.docker.errors import BAD_REQUEST
from batchq.compute.docker.inspection import member
from batchq.compute.docker.namespaces import shares_namespaces
from batchq.errors import StartImpossible

NEWEST = "1.45"  # the newest version of the engine's API that batchq uses; Docker 20.10 has 1.41
ASKING_VERSION = 10.0  # seconds: the timeout of the version request

log = logging.getLogger(__name__)


class Connection(UnixHTTPConnection):
    """The SDK's connection, except that it reports its socket."""

    def connect(self) -> None:
        """Connect. `self.sock` is set first: if the connect fails, the SDK's own method never closes the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.opened(self.sock)
        self.sock.connect(self.unix_socket)

    #: Called with each new socket, before it is connected.
    opened: Callable[[socket.socket], None]


class Pool(UnixHTTPConnectionPool):
    """The SDK's connection pool, except that its last connection can be shut down by another thread."""

    _last: socket.socket | None = None

    def _new_conn(self) -> Connection:  # type: ignore[override]  # urllib3's type has no place for a unix socket
        connection = Connection(self.base_url, self.socket_path)
        connection.opened = self._remember
        return connection

    def cut(self) -> None:
        """Shut down the connection that was opened last."""
        if self._last is not None:
            with suppress(OSError):
                self._last.shutdown(socket.SHUT_RDWR)

    def _remember(self, opened: socket.socket) -> None:
        self._last = opened


class OnePool(UnixHTTPAdapter):
    """A transport adapter with one connection pool for all URLs.

    The SDK's adapter has a pool for each of the last 25 URLs; a thread that makes one request at a time needs one.
    """

    def __init__(self, socket_path: str) -> None:
        super().__init__(f"http+unix://{socket_path}")
        self._pool = Pool("http+docker://localhost", socket_path)

    def get_connection(self, url: bytes | str, proxies: object = None) -> Pool:  # noqa: ARG002 - one pool for all URLs
        return self._pool

    def cut(self) -> None:
        self._pool.cut()

    def close(self) -> None:
        super().close()
        self._pool.close()


class Stream(Protocol):
    """An iterator over the engine's events. Another thread may close it, which ends the iteration."""

    def __iter__(self) -> Iterator[object]: ...
    def close(self) -> None: ...


class JsonLines:
    """A streamed response of JSON lines, as an iterator over the parsed values."""

    def __init__(self, answer: requests.Response) -> None:
        self._content: Any = answer.raw  # a StreamingBody, of which the stubs of `requests` have no type

    def __iter__(self) -> Iterator[object]:
        return (json.loads(line) for line in self._content.lines() if line.strip())

    def close(self) -> None:
        self._content.close()


class Client(docker.APIClient):
    """The SDK's low-level client, with a timeout for every receive. For one thread.

    The SDK itself sets no timeout for a pull and for the event stream.
    """

    def __init__(self, *, patience: float, **address: Any) -> None:  # noqa: ANN401 - the SDK's own
        """`patience` is the timeout of each send and receive, in seconds; `address` is passed on to the SDK."""
        super().__init__(**address)
        self.patience = patience
        #: The path of the engine's unix socket; None: the engine is reached by TCP or ssh.
        self._socket: str | None = None
        adapter = self.get_adapter(self.base_url)
        if isinstance(adapter, UnixHTTPAdapter):
            self._streams = OnePool(adapter.socket_path)
            self.mount("http+docker://", self._streams)
            self.trust_env = False  # proxies and .netrc do not apply to a socket, and would be read for each request
            self._socket = adapter.socket_path
            self._connection = EngineConnection(adapter.socket_path, patience=patience)

    @property
    def _general_configs(self) -> Mapping[str, object]:
        return self._config

    @_general_configs.setter
    def _general_configs(self, config: object) -> None:
        """Take only the HTTP headers from Docker's client configuration that the SDK has read.

        Malformed credentials in it would make every request fail. Only pulls need credentials, and a pull reloads the
        configuration: see images.py.
        """
        headers = config.get("HttpHeaders") if isinstance(config, dict) else None
        self._config: Mapping[str, object] = {"auths": {}} | (
            {"HttpHeaders": headers} if isinstance(headers, dict) else {}
        )

    def request(  # type: ignore[override]  # only the parameters that the SDK passes
        self,
        method: str,
        url: str,
        *,
        params: Parameters = None,
        data: object = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401 - any option that the SDK passes to `requests`
    ) -> requests.Response:
        """Send a request by `EngineConnection`; by `requests` only for the SDK's streams, and over TCP or ssh."""
        rest = {name for name, value in options.items() if value is not None} - {"timeout", "allow_redirects"}
        if self._socket is None or rest or not isinstance(data, str | None):
            asked = {"params": params, "data": data, "headers": headers, "timeout": self.patience}
            return super().request(method, url, **options | asked)
        target = with_parameters(url.removeprefix(self.base_url), params)
        return self._connection.ask(method, target, body=data, headers=headers or {})

    def read(self, url: str, params: Parameters, *, patience: float) -> requests.Response:
        """Send a GET request whose response is read as it is received, with its own timeout in seconds."""
        if self._socket is None:
            return super().request("GET", url, params=params, stream=True, timeout=patience)
        return self._connection.open(with_parameters(url.removeprefix(self.base_url), params), patience=patience)

    def hear(self, filters: dict[str, str]) -> Stream:
        """Subscribe to the engine's events from now on. Raises APIError."""
        if self._socket is None:
            return self.events(filters=filters, decode=True)
        wanted = {"filters": convert_filters(filters)}
        answer = self._connection.open(with_parameters(f"/v{self.api_version}/events", wanted))
        self._raise_for_status(answer)
        return JsonLines(answer)

    def cut(self) -> None:
        """Shut down a stream that any thread reads: the engine aborts its work for it. No effect over TCP or ssh."""
        if self._socket is not None:
            self._streams.cut()

    def close(self) -> None:
        super().close()
        if self._socket is not None:
            self._connection.close()

    def _raise_for_status(self, response: requests.Response) -> None:
        """Raise APIError for an error status, also for a body for which the SDK raises LookupError or TypeError."""
        if response.status_code < BAD_REQUEST:  # saves the SDK's checks for nearly all responses
            return
        try:
            super()._raise_for_status(response)  # type: ignore[misc]  # the stubs leave it out
        except (LookupError, TypeError) as stumble:
            raise APIError(response.reason, response=response) from stumble


class ClientFactory:
    """A factory of clients that use the API version negotiated with the engine."""

    def __init__(self, base_url: str | None) -> None:
        """`base_url` is the engine's address; None: DOCKER_HOST, or Docker's default socket.

        Raises StartImpossible for an invalid address.
        """
        try:
            self._address = kwargs_from_env() | ({"base_url": base_url} if base_url else {})
            windows = False
            self._url = str(parse_host(self._address.get("base_url"), windows, "tls" in self._address))
        except (DockerException, ValueError) as why:
            raise StartImpossible(f"DOCKER_HOST, or a variable beside it, names no engine: {why}") from None
        #: The negotiated API version; None: not negotiated yet.
        self._version: str | None = None
        #: The cached result of `shares_files`.
        self._shares_files: bool | None = None

    def shares_files(self) -> bool:
        """Whether the engine is in the same mount and PID namespace as this process. Raises OSError."""
        if self._shares_files is None:
            path = self.socket
            self._shares_files = path is not None and shares_namespaces(path)
        return self._shares_files

    @property
    def socket(self) -> str | None:
        """The path of the engine's unix socket; None: the engine is reached by TCP or ssh."""
        url = self._url
        return url.removeprefix("http+unix://") if url.startswith("http+unix://") else None

    def client(self, before: Client | None, *, patience: float) -> Client:
        """Return `before`, or a new client if that is None or has another API version than the negotiated one.

        `patience` is the timeout of a new client in seconds; `before` is closed if it is replaced.
        """
        version = self._version = self._version or self._agreed(min(patience, ASKING_VERSION))
        if before is not None and before.api_version == version:
            return before
        if before is not None:
            before.close()
        return self._client(version, patience=patience)

    def forget_version(self) -> None:
        """Negotiate the API version again with the next client: the engine may have been replaced."""
        self._version = self._shares_files = None

    def _agreed(self, patience: float) -> str:
        with closing(self._client(NEWEST, patience=patience)) as client:
            engine: object = client.version(api_version=False)
        version = agree(member(engine, "ApiVersion", of=str), member(engine, "MinAPIVersion", of=object))
        log.info("Docker engine %s, API %s", member(engine, "Version", of=object), version)
        return version

    def _client(self, version: str, *, patience: float) -> Client:
        return Client(patience=patience, version=version, **self._address)


def agree(newest: str, oldest: object) -> str:
    """The newest API version that both sides support; if no version is common, the engine's oldest.

    `newest` and `oldest` are the engine's; some engines do not report `oldest`.
    """
    ours = min(NEWEST, newest, key=_numbers)
    return max(ours, oldest, key=_numbers) if isinstance(oldest, str) and oldest else ours


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
