"""Where the engine is, and clients to speak with it. Nothing is asked before the first call, so it may be down.

The version of its API is asked for once, not by each client: `/version` answers whatever version it is asked in.
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

NEWEST = "1.45"  # of the engine's API that batchq asks for; Docker 20.10 speaks 1.41
ASKING_VERSION = 10.0  # seconds

log = logging.getLogger(__name__)


class Connection(UnixHTTPConnection):
    def connect(self) -> None:
        """As the SDK's, which loses the socket where nobody listens."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.opened(self.sock)
        self.sock.connect(self.unix_socket)

    opened: Callable[[socket.socket], None]


class Pool(UnixHTTPConnectionPool):
    _last: socket.socket | None = None

    def _new_conn(self) -> Connection:  # type: ignore[override]  # urllib3's type has no place for a unix socket
        connection = Connection(self.base_url, self.socket_path)
        connection.opened = self._remember
        return connection

    def cut(self) -> None:
        if self._last is not None:
            with suppress(OSError):
                self._last.shutdown(socket.SHUT_RDWR)

    def _remember(self, opened: socket.socket) -> None:
        self._last = opened


class OnePool(UnixHTTPAdapter):
    """The SDK keeps a connection for each of the last 25 URLs; a thread that asks one thing at a time needs one."""

    def __init__(self, socket_path: str) -> None:
        super().__init__(f"http+unix://{socket_path}")
        self._pool = Pool("http+docker://localhost", socket_path)

    def get_connection(self, url: bytes | str, proxies: object = None) -> Pool:  # noqa: ARG002 - one for all
        return self._pool

    def cut(self) -> None:
        self._pool.cut()

    def close(self) -> None:
        super().close()
        self._pool.close()


class Stream(Protocol):
    """Events as they come. Closed by another thread it ends."""

    def __iter__(self) -> Iterator[object]: ...
    def close(self) -> None: ...


class JsonLines:
    """What a line tells in JSON, a line each."""

    def __init__(self, answer: requests.Response) -> None:
        self._content: Any = answer.raw  # the stubs take it for what `requests` would have put there

    def __iter__(self) -> Iterator[object]:
        return (json.loads(line) for line in self._content.lines() if line.strip())

    def close(self) -> None:
        self._content.close()


class Client(docker.APIClient):
    """The SDK's low-level client for one thread, which waits for no byte longer than its patience.

    The SDK itself waits for ever on a pull and on the event stream.
    """

    def __init__(self, *, patience: float, **address: Any) -> None:  # noqa: ANN401 - the SDK's own
        super().__init__(**address)
        self.patience = patience
        self._socket: str | None = None
        adapter = self.get_adapter(self.base_url)
        if isinstance(adapter, UnixHTTPAdapter):
            self._streams = OnePool(adapter.socket_path)
            self.mount("http+docker://", self._streams)
            self.trust_env = False  # proxies and .netrc are nothing to a socket, and looked for at each call
            self._socket = adapter.socket_path
            self._connection = EngineConnection(adapter.socket_path, patience=patience)

    @property
    def _general_configs(self) -> Mapping[str, object]:
        return self._config

    @_general_configs.setter
    def _general_configs(self, config: object) -> None:
        """What the SDK has read of docker's config, without credentials: in bad order they would let nothing be asked.

        Only pulls need them, and read them themselves.
        """
        headers = config.get("HttpHeaders") if isinstance(config, dict) else None
        self._config: Mapping[str, object] = {"auths": {}} | (
            {"HttpHeaders": headers} if isinstance(headers, dict) else {}
        )

    def request(  # type: ignore[override]  # what the SDK asks for
        self,
        method: str,
        url: str,
        *,
        params: Parameters = None,
        data: object = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401 - whatever the SDK asks for
    ) -> requests.Response:
        """By `requests` what it streams from and to the engine, and where there is no socket."""
        rest = {name for name, value in options.items() if value is not None} - {"timeout", "allow_redirects"}
        if self._socket is None or rest or not isinstance(data, str | None):
            asked = {"params": params, "data": data, "headers": headers, "timeout": self.patience}
            return super().request(method, url, **options | asked)
        target = with_parameters(url.removeprefix(self.base_url), params)
        return self._connection.ask(method, target, body=data, headers=headers or {})

    def read(self, url: str, params: Parameters, *, patience: float) -> requests.Response:
        """An answer that may be long, and is read as it comes, with a patience of its own."""
        if self._socket is None:
            return super().request("GET", url, params=params, stream=True, timeout=patience)
        return self._connection.open(with_parameters(url.removeprefix(self.base_url), params), patience=patience)

    def hear(self, filters: dict[str, str]) -> Stream:
        """The engine's events from now on."""
        if self._socket is None:
            return self.events(filters=filters, decode=True)
        wanted = {"filters": convert_filters(filters)}
        answer = self._connection.open(with_parameters(f"/v{self.api_version}/events", wanted))
        self._raise_for_status(answer)
        return JsonLines(answer)

    def cut(self) -> None:
        """End what is streamed, whichever thread reads it: the engine leaves off what it streamed. By a socket only."""
        if self._socket is not None:
            self._streams.cut()

    def close(self) -> None:
        super().close()
        if self._socket is not None:
            self._connection.close()

    def _raise_for_status(self, response: requests.Response) -> None:
        """As the SDK's, which stumbles where an error says nothing of itself."""
        if response.status_code < BAD_REQUEST:  # as nearly always
            return
        try:
            super()._raise_for_status(response)  # type: ignore[misc]  # the stubs leave it out
        except (LookupError, TypeError) as stumble:
            raise APIError(response.reason, response=response) from stumble


class ClientFactory:
    """Makes clients that speak the API version agreed with the engine; the engine is asked for its own once."""

    def __init__(self, base_url: str | None) -> None:
        """Without an address it is that of DOCKER_HOST, or the usual socket. Raises StartImpossible for no address."""
        try:
            self._address = kwargs_from_env() | ({"base_url": base_url} if base_url else {})
            windows = False
            self._url = str(parse_host(self._address.get("base_url"), windows, "tls" in self._address))
        except (DockerException, ValueError) as why:
            raise StartImpossible(f"DOCKER_HOST, or a variable beside it, names no engine: {why}") from None
        self._version: str | None = None
        self._shares_files: bool | None = None

    def shares_files(self) -> bool:
        """Whether the engine sees the files and processes that this process sees. Raises OSError."""
        if self._shares_files is None:
            path = self.socket
            self._shares_files = path is not None and shares_namespaces(path)
        return self._shares_files

    @property
    def socket(self) -> str | None:
        """The engine's unix socket, None where it is reached another way."""
        url = self._url
        return url.removeprefix("http+unix://") if url.startswith("http+unix://") else None

    def client(self, before: Client | None, *, patience: float) -> Client:
        """The client used before, or a new one if there was none or the engine speaks another version now."""
        version = self._version = self._version or self._agreed(min(patience, ASKING_VERSION))
        if before is not None and before.api_version == version:
            return before
        if before is not None:
            before.close()
        return self._client(version, patience=patience)

    def forget_version(self) -> None:
        """The engine may have been exchanged."""
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
    """The newest API version that both sides know; if there is none, the engine's that is nearest."""
    ours = min(NEWEST, newest, key=_numbers)
    return max(ours, oldest, key=_numbers) if isinstance(oldest, str) and oldest else ours


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
