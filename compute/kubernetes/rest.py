"""Requests to the API server, and the meaning of its replies.

`HttpConnections` send the requests. aiohttp has the WebSocket that signals need. Decisions 0080, 0121.

A reply of 404, 409, 413 or 422 is an answer: the request had no effect. A reply of 5xx or 429, a timeout and a broken
connection leave the outcome unknown. A connection that could not be made has no effect.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit, setrlimit
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from msgspec import Raw, Struct, field

from batchq.compute.kubernetes.connection import ClusterAccess
from batchq.compute.kubernetes.http_connections import (
    CONNECT_TIMEOUT,
    KEEPALIVE,
    HttpConnections,
    HttpStream,
    Query,
)
from batchq.errors import RuntimeUnknown, RuntimeUnreachable
from batchq.ports.clock import Clock

MERGE_PATCH, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
TOO_LARGE = "request is too large"  # a reply of 500 by etcd, which is final
TIMEOUT = 30.0  # seconds of a command in a container
STREAM_TIMEOUT = 90.0  # seconds between two bytes of a stream; a watch has a bookmark each minute
MAX_COMMANDS = 100  # at the same time
MAX_STREAMS = 100  # at the same time, followed logs apart
MAX_REQUESTS = 16  # at the same time: more would open more TLS connections, each for a few requests
TLS_CLOSE = 0.1  # seconds in which TLS connections end
EXEC_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
REDIRECTION = 300  # the first status of a redirection
MAX_ERROR_TEXT = 500  # characters
PAGE = 500  # objects of a list in one reply: their JSON is decoded in some milliseconds

Decoded = TypeVar("Decoded")


class ReadForbidden(RuntimeUnknown):
    """These credentials do not have the right to read this."""


class ListMetadata(Struct, rename="camel"):
    #: The version of the whole list.
    resource_version: str
    #: Where the next page begins; empty or None: this is the last one.
    following: str | None = field(default=None, name="continue")


class ListPage(Struct):
    """Some of the objects of a list."""

    metadata: ListMetadata
    items: list[Raw]


class ApiReply(Struct, frozen=True, kw_only=True, dict=True):
    """The API server's answer to a request."""

    status: int
    content: bytes
    #: The header `Date`; None if the reply does not have it.
    date: str | None = None

    @cached_property
    def body(self) -> dict[str, Any]:
        """The JSON object of the reply. Most changes of a pod are answered with the whole pod, which nothing reads."""
        try:
            body = msgspec.json.decode(self.content) if self.content else {}
        except ValueError:
            body = {"message": self.content.decode(errors="replace").strip()}
        return body if isinstance(body, dict) else {}

    @property
    def ok(self) -> bool:
        return self.status < HTTPStatus.BAD_REQUEST

    @property
    def is_absence(self) -> bool:
        """Whether the API server answers that the object does not exist. A proxy on the way may answer 404 too."""
        return self.status == HTTPStatus.NOT_FOUND and self.body.get("reason") == "NotFound"

    @property
    def time(self) -> datetime | None:
        """The server's clock; None if the reply does not have it."""
        return None if self.date is None else parsedate_to_datetime(self.date).astimezone(UTC)

    @property
    def message(self) -> str:
        return str(self.body.get("message") or f"status {self.status}")[:MAX_ERROR_TEXT]


class RestClient:
    """Sends requests to one API server. A session is opened with the first request, also after `close`."""

    def __init__(self, cluster: ClusterAccess, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._connections = HttpConnections(cluster)
        self._session: aiohttp.ClientSession | None = None
        self._requests = asyncio.Semaphore(MAX_REQUESTS)
        self._streams = asyncio.Semaphore(MAX_STREAMS)
        #: See `_followers`; None: no log was followed until now.
        self._followed: asyncio.Semaphore | None = None
        #: The header `Date` of the last reply, and when it arrived.
        self._last_date: tuple[str | None, datetime] = (None, clock.now())
        #: The path of the objects of the jobs' namespace.
        self.namespaced = f"/api/v1/namespaces/{quote(cluster.namespace)}"

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        query: Query = (),
        content_type: str = "application/json",
    ) -> ApiReply:
        """Send a request; the reply may report an error. Raises RuntimeUnknown and RuntimeUnreachable."""
        data = None if body is None else msgspec.json.encode(body)
        return _checked(f"{method} {path}", await self._exchange(method, path, query, data, content_type))

    async def get(self, path: str, query: Query = ()) -> ApiReply:
        """Send a GET request. Every error but 404 is raised as RuntimeUnknown."""
        reply = await self.request("GET", path, query=query)
        if not reply.ok and reply.status != HTTPStatus.NOT_FOUND:
            raise _read_failure(path, reply)
        return reply

    async def pages(self, path: str, query: Mapping[str, str]) -> AsyncIterator[ListPage]:
        """A list of objects as they are at one moment, PAGE of them in a page. Raises RuntimeUnknown; ReadForbidden."""
        selected: dict[str, str] | None = {**query, "limit": str(PAGE)}
        while selected is not None:
            reply = await self._exchange("GET", path, selected)
            if reply.status != HTTPStatus.OK:
                raise _read_failure(path, _checked(f"GET {path}", reply))
            page = decode(reply.content, ListPage)
            yield page
            following = page.metadata.following
            selected = {**selected, "continue": following} if following else None

    @asynccontextmanager
    async def stream(self, path: str, query: Query, *, is_followed: bool = False) -> AsyncIterator[HttpStream]:
        """A GET request whose response, of any status, is read as it arrives.

        `is_followed`: the response lasts as long as a container, and its reader decides how long it may be silent.
        """
        turn, silence = (self._followers(), None) if is_followed else (self._streams, STREAM_TIMEOUT)
        stream = self._connections.stream(path, query, headers=self._headers(), silence=silence)
        async with turn, stream as response:
            yield response

    def server_time(self) -> datetime:
        """The present time by the clock of the API server, as its last reply shows it, to a second; UTC."""
        (date, at), lead = self._last_date, timedelta(0)
        if date is not None:
            with suppress(ValueError):  # a proxy may write anything
                lead = parsedate_to_datetime(date).astimezone(UTC) - at
        return self._clock.now() + lead

    @asynccontextmanager
    async def exec(self, path: str, query: Query) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """The WebSocket of a command in a container. Raises aiohttp.WSServerHandshakeError."""
        async with self._open_session().ws_connect(
            self._url(path), params=query, headers=self._headers(), protocols=EXEC_PROTOCOLS, **self._tls()
        ) as socket:
            yield socket

    async def close(self) -> None:
        self._connections.close()
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            if self._cluster.tls is not None:  # aiohttp does not wait for the end of TLS connections
                await self._clock.sleep(TLS_CLOSE)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=MAX_COMMANDS, keepalive_timeout=KEEPALIVE)
            timeout = aiohttp.ClientTimeout(total=TIMEOUT, sock_connect=CONNECT_TIMEOUT)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False)
        return self._session

    def _followers(self) -> asyncio.Semaphore:
        """Lets half of the files that this process may open be followed logs; other followers wait."""
        if self._followed is None:
            files, most = getrlimit(RLIMIT_NOFILE)
            if most != RLIM_INFINITY:
                setrlimit(RLIMIT_NOFILE, (most, most))
                files = most
            self._followed = asyncio.Semaphore(sys.maxsize if files == RLIM_INFINITY else files // 2)
        return self._followed

    def _url(self, path: str) -> str:
        return f"{self._cluster.server}{path}"

    def _headers(self) -> dict[str, str]:
        try:
            token = self._cluster.token.read(self._clock.now())
        except OSError as error:
            raise RuntimeUnreachable(f"the token of the service account cannot be read: {error}") from error
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _tls(self) -> dict[str, Any]:
        if self._cluster.tls is None:
            return {}
        return {"ssl": self._cluster.tls, "server_hostname": self._cluster.tls_name}

    async def _exchange(
        self, method: str, path: str, query: Query, data: bytes | None = None, content_type: str = ""
    ) -> ApiReply:
        """Send a request. Raises RuntimeUnknown and RuntimeUnreachable."""
        # A command in a container answers 406 to this Accept header, so streams and commands do not send it.
        headers = self._headers() | {"Accept": "application/json"}
        headers |= {} if data is None else {"Content-Type": content_type}
        async with self._requests:
            reply = await self._connections.request(method, path, query, headers=headers, data=data)
        self._last_date = reply.date, self._clock.now()
        return ApiReply(status=reply.status, content=reply.content, date=reply.date)


def _checked(call: str, reply: ApiReply) -> ApiReply:
    """Raises RuntimeUnknown if the outcome is unknown, and RuntimeUnreachable if the credentials are not accepted."""
    if is_unanswered(reply):
        raise RuntimeUnknown(f"{call}: {reply.message}")
    if reply.status == HTTPStatus.UNAUTHORIZED:
        raise RuntimeUnreachable(f"{call}: the API server does not accept the credentials")
    return reply


def _read_failure(path: str, reply: ApiReply) -> RuntimeUnknown:
    kind = ReadForbidden if reply.status == HTTPStatus.FORBIDDEN else RuntimeUnknown
    return kind(f"GET {path}: {reply.message}")


def decode(text: bytes | Raw, kind: type[Decoded]) -> Decoded:
    """The JSON of the API server as a value of this type. Raises RuntimeUnknown if it is none."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (ValueError, msgspec.MsgspecError) as error:
        raise RuntimeUnknown(f"invalid reply: {error}") from error


def is_unanswered(reply: ApiReply) -> bool:
    """Whether the reply leaves open if the request had an effect. The API server redirects no request."""
    if reply.status == HTTPStatus.TOO_MANY_REQUESTS or REDIRECTION <= reply.status < HTTPStatus.BAD_REQUEST:
        return True
    return reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR and TOO_LARGE not in reply.message
