"""The address of the engine, and API clients for it. No request is made before the first call: it may be down.

The API version is negotiated once for all clients. The engine replies to `/version` in any API version.
"""

import json
import logging
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import docker
import requests
from docker.errors import APIError, DockerException
from docker.transport import UnixHTTPAdapter
from docker.utils import convert_filters, kwargs_from_env, parse_host

from batchq.compute.docker.connection import EngineConnection, Headers, Parameters, with_query
from batchq.compute.docker.errors import BAD_REQUEST
from batchq.compute.docker.inspection import member
from batchq.compute.docker.podman import is_podman
from batchq.errors import StartImpossible

CONNECT_TIMEOUT = 5.0  # seconds: the timeout of the connection
CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid
MAX_API_VERSION = "1.45"  # the newest version of the engine's API that batchq uses; Docker 20.10 has 1.41
VERSION_TIMEOUT = 10.0  # seconds: the timeout of the version request

log = logging.getLogger(__name__)


class EventStream(Protocol):
    """An iterator over the engine's events. Another thread may close it, which ends the iteration."""

    def __iter__(self) -> Iterator[object]: ...
    def close(self) -> None: ...


class JsonLines:
    """A streamed response of JSON lines, as an iterator over the parsed values."""

    def __init__(self, response: requests.Response) -> None:
        self._body: Any = response.raw  # a StreamingBody, of which the stubs of `requests` have no type

    def __iter__(self) -> Iterator[object]:
        return (json.loads(line) for line in self._body.lines() if line.strip())

    def close(self) -> None:
        self._body.close()


class Client(docker.APIClient):
    """The SDK's low-level client, with a timeout for every receive. For one thread.

    The SDK itself sets no timeout for a pull and for the event stream.
    """

    #: Whether the engine is Podman, as of the negotiation of the API version.
    is_podman = False

    def __init__(self, *, receive_timeout: float, **address: Any) -> None:  # noqa: ANN401 - the SDK's own
        """`receive_timeout` is the timeout of each send and receive, in seconds; `address` is passed on to the SDK."""
        super().__init__(**address)
        self.receive_timeout = receive_timeout
        #: The path of the engine's unix socket; None: the engine is reached by TCP or ssh.
        self._socket: str | None = None
        adapter = self.get_adapter(self.base_url)
        if isinstance(adapter, UnixHTTPAdapter):
            self._socket = adapter.socket_path
            self._connection = EngineConnection(adapter.socket_path, receive_timeout=receive_timeout)

    @property
    def is_local(self) -> bool:
        """Whether the engine is reached by a unix socket, so that it runs on this machine."""
        return self._socket is not None

    @property
    def _general_configs(self) -> Mapping[str, object]:
        return self._config

    @_general_configs.setter
    def _general_configs(self, config: object) -> None:
        """Take only the HTTP headers from Docker's client configuration that the SDK has read.

        Malformed credentials in it would make every request fail. Only pulls need credentials, and a pull reloads the
        configuration: see `Pull`.
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
        data: str | bytes | None = None,
        headers: Headers | None = None,
        stream: bool = False,
        **options: Any,  # noqa: ANN401 - any option that the SDK passes to `requests`
    ) -> requests.Response:
        """Send a request by `EngineConnection`; by `requests` over TCP or ssh."""
        if self._socket is None:
            options |= {"params": params, "data": data, "headers": headers, "timeout": self.receive_timeout}
            return super().request(method, url, stream=stream, **options)
        send = self._connection.open_stream if stream else self._connection.request
        return send(method, with_query(url.removeprefix(self.base_url), params), body=data, headers=headers or {})

    def get_stream(self, url: str, params: Parameters, *, receive_timeout: float) -> requests.Response:
        """Send a GET request whose response is read as it is received, with its own timeout in seconds."""
        if self._socket is None:
            return super().request("GET", url, params=params, stream=True, timeout=receive_timeout)
        target = with_query(url.removeprefix(self.base_url), params)
        return self._connection.open_stream("GET", target, receive_timeout=receive_timeout)

    def subscribe(self, filters: Mapping[str, str | list[str]], **period: str) -> EventStream:
        """Subscribe to the engine's events from now on, or from `since` to `until`, in seconds. Raises APIError."""
        if self._socket is None:
            return self.events(filters=filters, decode=True, **period)  # type: ignore[call-overload,no-any-return]  # the stubs know whole seconds only
        parameters = {"filters": convert_filters(filters)} | period
        response = self._connection.open_stream("GET", with_query(f"/v{self.api_version}/events", parameters))
        self._raise_for_status(response)
        return JsonLines(response)

    def abort_stream(self) -> None:
        """Shut down a stream that any thread reads: the engine aborts its work for it. No effect over TCP or ssh."""
        if self._socket is not None:
            self._connection.abort()

    def _stream_helper(self, response: requests.Response, decode: bool = False) -> Iterator[object]:  # noqa: FBT001, FBT002 - as the SDK declares it
        if self._socket is None:
            yield from super()._stream_helper(response, decode=decode)  # type: ignore[misc]  # the stubs leave it out
        else:
            with closing(JsonLines(response)) as values:
                yield from values

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
        except (LookupError, TypeError) as error:
            raise APIError(response.reason, response=response) from error


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
        except (DockerException, ValueError) as error:
            raise StartImpossible(f"invalid engine address in DOCKER_HOST or its related variables: {error}") from None
        #: The negotiated API version; None: not negotiated yet.
        self._version: str | None = None
        #: Whether the engine is Podman; valid once a version is negotiated.
        self._is_podman = False
        #: The cached result of `shares_files`.
        self._shares_files: bool | None = None

    def shares_files(self) -> bool:
        """Whether the engine can mount an open descriptor of this process. Raises OSError.

        It must be in the same mount and PID namespace. Podman ignores the options of an anonymous volume: it would
        mount an empty folder.
        """
        if self._shares_files is None:
            path = self.socket
            self._shares_files = path is not None and not self._is_podman and shares_namespaces(path)
        return self._shares_files

    @property
    def socket(self) -> str | None:
        """The path of the engine's unix socket; None: the engine is reached by TCP or ssh."""
        url = self._url
        return url.removeprefix("http+unix://") if url.startswith("http+unix://") else None

    def get_client(self, current: Client | None, *, receive_timeout: float) -> Client:
        """Return `current`, or a new client if that is None or has another API version than the negotiated one.

        `receive_timeout` is the timeout of a new client in seconds; `current` is closed if it is replaced.
        """
        version = self._version = self._version or self._negotiate(min(receive_timeout, VERSION_TIMEOUT))
        if current is not None and current.api_version == version and current.is_podman == self._is_podman:
            return current
        if current is not None:
            current.close()
        client = self._new_client(version, receive_timeout=receive_timeout)
        client.is_podman = self._is_podman
        return client

    def reset_version(self) -> None:
        """Negotiate the API version again with the next client: the engine may have been replaced."""
        self._version = self._shares_files = None

    def _negotiate(self, timeout: float) -> str:
        with closing(self._new_client(MAX_API_VERSION, receive_timeout=timeout)) as client:
            engine: object = client.version(api_version=False)
        version = common_version(member(engine, "ApiVersion", of=str), member(engine, "MinAPIVersion", of=object))
        self._is_podman = is_podman(engine)
        name = "Podman" if self._is_podman else "Docker"
        log.info("%s engine %s, API %s", name, member(engine, "Version", of=object), version)
        return version

    def _new_client(self, version: str, *, receive_timeout: float) -> Client:
        return Client(receive_timeout=receive_timeout, version=version, **self._address)


def common_version(newest: str, oldest: object) -> str:
    """The newest API version that both sides support; if no version is common, the engine's oldest.

    `newest` and `oldest` are the engine's; some engines do not report `oldest`.
    """
    ours = min(MAX_API_VERSION, newest, key=_numbers)
    return max(ours, oldest, key=_numbers) if isinstance(oldest, str) and oldest else ours


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def shares_namespaces(path: str) -> bool:
    """Whether the process that listens on the socket is in the mount and PID namespaces of this one. Raises OSError.

    It is not if one of the two is in a container, or if the engine is rootless.
    """
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as to_engine:
        to_engine.settimeout(CONNECT_TIMEOUT)
        to_engine.connect(path)
        peer = to_engine.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, _, _ = CREDENTIALS.unpack(peer)
    return pid > 0 and all(_is_shared(pid, namespace) for namespace in ("mnt", "pid"))


def _is_shared(pid: int, namespace: str) -> bool:
    """Whether both processes are in the same namespace; true if this process may not see that of the other one.

    If they differ after all, the engine refuses the start, because the path of the descriptor does not exist there.
    """
    try:
        return os.path.samestat(*(Path(f"/proc/{item}/ns/{namespace}").stat() for item in (pid, "self")))
    except OSError:
        return True
